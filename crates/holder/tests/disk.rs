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
use provost_holder::{HoldSpec, LaunchState, ProcessEnd, StartedHolder, inspect, start, tree};
use tempfile::TempDir;

use crate::kit::{Launch, frames, program, sh, state, wait_limited};

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

/// A command must not run even for a moment if its start cannot be recorded, because it would run a
/// second time when the launch is retried.
#[test]
fn command_without_room_for_its_record_never_runs() {
    let outside = tempfile::tempdir().unwrap();
    let mark = outside.path().join("ran");
    let command = || sh(&format!("echo ran > {}; sleep 1000", mark.display()));
    // Room for the directory, the holder's record, the journal and the socket, but no more.
    let inodes =
        "mount -t tmpfs -o nr_inodes=9 none \"$0\" && touch \"$0/1\" \"$0/2\" \"$0/3\" \"$0/4\"";
    // Room for the holder's record only, which has one page.
    let bytes = "mount -t tmpfs -o size=8k none \"$0\" && head -c 4096 /dev/zero > \"$0/filler\"";
    for disk in [inodes, bytes] {
        let (_temp, _, spec, started) = start_on(disk, command());
        let Err(Error::Refused(reason)) = started else { panic!("{started:?}") };
        assert!(reason.contains("No space"), "{reason}");
        assert!(tree::survivors(&spec.key).unwrap().is_empty());
    }
    assert!(!mark.exists());
}

#[test]
fn record_fits_its_reserved_space_when_the_disk_is_full() {
    // The command fills the disk as soon as it runs, so only reserved space is left for its record.
    let disk = "mount -t tmpfs -o size=1m none \"$0\"";
    let fill = "cat /dev/zero > \"$DISK/filler\" 2> /dev/null; rm \"$DISK/filler\"; exit 3";
    let long = "\u{1}".repeat(2000);
    let spec = HoldSpec { argv: [sh(fill).argv, vec![long]].concat(), ..sh(fill) };
    let (temp, dir, spec, started) = start_on(disk, spec);
    let holder = started.unwrap().holder;
    let mut launch = Launch::adopt(temp, through_root(holder.id(), &dir), spec.key, holder);
    assert_eq!(launch.held().argv, spec.argv);
    let dir = keep(&launch.dir);
    assert!(launch.wait_for_holder().success());
    let LaunchState::Ended { held: Some(_), exit, .. } = inspect(&dir.1).unwrap() else { panic!() };
    assert_eq!(exit.end, ProcessEnd::Exited { code: 3 });
}

/// Starts a launch below the temporary directory, on a disk that a script mounts there.
fn start_on(
    disk: &str,
    spec: HoldSpec,
) -> (TempDir, PathBuf, HoldSpec, Result<StartedHolder, Error>) {
    let temp = tempfile::tempdir().unwrap();
    let mut spec = HoldSpec { key: format!("test-{}", temp.path().display()), ..spec };
    spec.env.push(("DISK".into(), temp.path().display().to_string()));
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
