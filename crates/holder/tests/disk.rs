//! A disk that refuses writes: nothing is lost, and nothing is done that cannot be recorded.
//!
//! The disks are mounts of the holder, seen from here through its root, so that no privilege is
//! needed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use provost_holder::client::Error;
use provost_holder::journal::JournalChannel;
use provost_holder::wire::OutputPause;
use provost_holder::{
    EndCause, HoldSpec, LaunchState, ProcessEnd, StartedHolder, inspect, start, tree,
};
use tempfile::TempDir;

use crate::kit::{Launch, frames, program, sh, state, until, wait_limited};

#[test]
fn full_disk_blocks_and_loses_nothing() {
    let disk = "mount -t tmpfs -o size=4m none \"$0\" && head -c 3900000 /dev/zero > \"$0/filler\"";
    let (temp, dir, spec, started) = start_on(disk, sh("seq 1 100000; exit 9"));
    let holder = started.unwrap().holder;
    let mut launch = Launch::adopt(temp, through_root(holder.id(), &dir), spec.key, holder);
    let mut link = launch.link();
    wait_limited(&mut link, OutputPause::DiskFull);
    assert!(launch.held().child.is_alive().unwrap());
    let end = state(&mut link).journal_end;
    assert_eq!(launch.frames().last().unwrap().after, end, "only whole frames count");

    let dir = keep(&launch.dir);
    fs::remove_file(launch.path("filler")).unwrap();
    assert!(launch.wait_for_holder().success());
    let LaunchState::Ended { exit, gone: Some(_), .. } = inspect(&dir.1).unwrap() else { panic!() };
    assert_eq!(exit.end, ProcessEnd::Exited { code: 9 });
    let output = frames(&dir.1).into_iter().filter(|frame| frame.channel == JournalChannel::Stdout);
    let written: Vec<u8> = output.flat_map(|frame| frame.payload).collect();
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    assert!(written == expected.as_bytes());
}

#[test]
fn unrecorded_start_is_undone() {
    // Room for the directory, the holder's record, the journal and the socket, but no more.
    let disk =
        "mount -t tmpfs -o nr_inodes=9 none \"$0\" && touch \"$0/1\" \"$0/2\" \"$0/3\" \"$0/4\"";
    let (temp, dir, spec, started) = start_on(disk, sh("sleep 1000"));
    let Err(Error::StartUndone { reason, holder }) = started else { panic!("{started:?}") };
    assert!(reason.contains("No space"), "{reason}");
    let mut launch = Launch::adopt(temp, through_root(holder.id(), &dir), spec.key, holder);
    until("the command is ended", || tree::survivors(&launch.key).unwrap().is_empty());
    assert!(matches!(inspect(&launch.dir).unwrap(), LaunchState::Starting { holder: Some(_), .. }));

    let dir = keep(&launch.dir);
    (1..=4).for_each(|name| fs::remove_file(launch.path(&name.to_string())).unwrap());
    assert!(launch.wait_for_holder().success());
    let LaunchState::Ended { held: None, exit, gone: Some(_) } = inspect(&dir.1).unwrap() else {
        panic!()
    };
    assert_eq!(exit.ended_by, EndCause::HolderFault);
}

/// Starts a launch below the temporary directory, on a disk that a script mounts there.
fn start_on(
    disk: &str,
    spec: HoldSpec,
) -> (TempDir, PathBuf, HoldSpec, Result<StartedHolder, Error>) {
    let temp = tempfile::tempdir().unwrap();
    let spec = HoldSpec { key: format!("test-{}", temp.path().display()), ..spec };
    let argv =
        ["unshare", "-rm", "sh", "-c", &format!("{disk} && exec \"$@\"")].map(OsString::from);
    let argv: Vec<OsString> =
        argv.into_iter().chain([temp.path().into()]).chain(program()).collect();
    let dir = temp.path().join("launch");
    let started = start(&argv, &dir, &spec);
    (temp, dir, spec, started)
}

fn through_root(pid: u32, path: &Path) -> PathBuf {
    format!("/proc/{pid}/root{}", path.display()).into()
}

/// Keeps a directory reachable when its mount ends with the holder.
fn keep(dir: &Path) -> (File, PathBuf) {
    let file = File::open(dir).unwrap();
    let path = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
    (file, path)
}
