//! A full disk and a read-only disk, on file systems that exist only for the test's process.

use std::path::Path;
use std::process::Command;

use crate::common::{add, in_ci, open};
use crate::crash::run;
use crate::roles::{Role, command};

#[test]
fn full_disk_is_reported_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    play_mounted(Role::FillDisk, dir.path(), "mount -t tmpfs -o size=3m none \"$0\"");
}

#[test]
fn read_only_disk_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";
    play_mounted(Role::ReadOnlyDisk, dir.path(), mount);
}

/// Plays a role in its own mount namespace; the mounts disappear with the process.
fn play_mounted(role: Role, dir: &Path, mount: &str) {
    let namespace = ["unshare", "--map-root-user", "--mount"];
    if !can(&namespace) {
        assert!(!in_ci(), "mount namespaces are not allowed here");
        println!("not run: needs `unshare --map-root-user --mount` (util-linux, user namespaces)");
        return;
    }
    let script = format!("{mount} && exec \"$@\"");
    let shell = ["sh", "-c", &script, dir.to_str().unwrap()];
    let (ok, text) = run(command(role, dir, &[&namespace[..], &shell].concat()));
    assert!(ok && text.contains("played"), "{text}");
}

fn can(namespace: &[&str]) -> bool {
    let mut probe = Command::new(namespace[0]);
    probe.args(&namespace[1..]).arg("true");
    probe.output().is_ok_and(|o| o.status.success())
}
