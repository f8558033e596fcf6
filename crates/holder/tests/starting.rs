//! Taking a launch: once, with nothing inherited, and with a clear record if it cannot start.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use provost_holder::client::Error;
use provost_holder::journal::JournalChannel;
use provost_holder::{
    EXIT_ALREADY, EndCause, HoldSpec, LaunchState, ProcessEnd, StdinMode, inspect, start,
};

use crate::kit::{Launch, command, program, sh};

#[test]
fn exit_codes_and_signals_are_kept() {
    let check = |script: &str, expected: ProcessEnd| {
        let (exit, gone) = Launch::start(sh(script)).wait();
        assert_eq!((exit.end, exit.ended_by), (expected, EndCause::Itself), "{script}");
        assert_eq!((gone.leftovers, gone.verified), (0, true), "{script}");
    };
    check("exit 0", ProcessEnd::Exited { code: 0 });
    check("exit 1", ProcessEnd::Exited { code: 1 });
    check("exit 255", ProcessEnd::Exited { code: 255 });
    check("kill -9 $$", ProcessEnd::Signalled { signal: 9 });
    check("kill -TERM $$", ProcessEnd::Signalled { signal: 15 });
}

#[test]
fn failed_start_is_recorded_with_reason() {
    let check = |spec: HoldSpec, expected: &str| {
        let mut launch = Launch::start(spec);
        assert!(launch.wait_for_holder().success());
        let LaunchState::Ended { held: None, exit, gone: Some(gone) } =
            inspect(&launch.dir).unwrap()
        else {
            panic!("{:?}", inspect(&launch.dir));
        };
        let ProcessEnd::NotStarted { error } = exit.end else { panic!("{:?}", exit.end) };
        assert!(error.contains(expected), "{error}");
        assert!(gone.verified);
        assert!(!launch.dir.join("io.sock").exists());
    };
    check(command(&["/nowhere/at-all"]), "cannot run \"/nowhere/at-all\" in \"/\": No such file");
    check(command(&["/etc/passwd"]), "cannot run \"/etc/passwd\" in \"/\": Permission denied");
    check(command(&[]), "the command is empty");
    check(
        HoldSpec { cwd: "/nowhere".into(), ..sh("true") },
        "the working directory \"/nowhere\": No such file",
    );
    check(HoldSpec { cwd: "/etc/passwd".into(), ..sh("true") }, "is not a directory");
}

#[test]
fn concurrent_starts_have_one_winner() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, count) = (temp.path().join("launch"), temp.path().join("count"));
    let mut spec = sh(&format!("echo started >> {}", count.display()));
    spec.key = format!("race-{}", temp.path().display());
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..20).map(|_| scope.spawn(|| start(&program(), &dir, &spec))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let (won, lost): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((won.len(), lost.len()), (1, 19));
    assert!(lost.iter().all(|lost| matches!(lost, Err(Error::AlreadyTaken))));
    won.into_iter().for_each(|won| assert!(won.unwrap().holder.wait().unwrap().success()));
    assert_eq!(fs::read_to_string(count).unwrap(), "started\n");
}

#[test]
fn existing_directory_has_its_own_exit_code() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(
        run(temp.path(), &serde_json::to_vec(&keyed(sh("exit 0"))).unwrap()),
        Some(EXIT_ALREADY.into())
    );
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn invalid_spec_takes_no_launch() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    assert_eq!(run(&dir, b"{\"version\":1}"), Some(2));
    assert_eq!(inspect(&dir).unwrap(), LaunchState::Absent);
    let error = start(&program(), &dir, &HoldSpec { version: 9, ..keyed(sh("true")) }).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    assert_eq!(inspect(&dir).unwrap(), LaunchState::Absent);
}

#[test]
fn ignored_sigchld_refuses_and_frees_directory() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    let ignoring = ["env", "--ignore-signal=CHLD"].map(OsString::from);
    let argv: Vec<OsString> = ignoring.into_iter().chain(program()).collect();
    let spec = keyed(sh("true"));
    let Err(Error::Refused(text)) = start(&argv, &dir, &spec) else { panic!("started") };
    assert!(text.contains("SIGCHLD is ignored"), "{text}");
    assert!(start(&program(), &dir, &spec).unwrap().holder.wait().unwrap().success());
}

#[test]
fn environment_is_the_given_one_plus_mark() {
    let mut spec = command(&["/usr/bin/env"]);
    spec.env = vec![("ONLY".into(), "this".into()), ("PROVOST_LAUNCH".into(), "forged".into())];
    let mut launch = Launch::start(spec);
    launch.wait();
    let output = String::from_utf8(launch.output(JournalChannel::Stdout)).unwrap();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["ONLY=this", &format!("PROVOST_LAUNCH={}", launch.key)]);
}

#[test]
fn files_contain_no_environment_or_secrets() {
    let mut spec = sh("test \"$TOKEN\" = canary-token && test \"$(cat)\" = canary-text");
    spec.env.push(("TOKEN".into(), "canary-token".into()));
    spec.stdin = StdinMode::Text("canary-text".into());
    spec.journal_stdin = false;
    let mut launch = Launch::start(spec);
    assert_eq!(launch.wait().0.end, ProcessEnd::Exited { code: 0 });
    let mut files = 0;
    for entry in fs::read_dir(&launch.dir).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        files += 1;
        // The script contains the canaries, so only `argv` in held.json may.
        let text =
            String::from_utf8_lossy(&bytes).replace("test \\\"$TOKEN\\\" = canary-token", "");
        assert!(!text.contains("canary-token"), "{path:?}");
        assert!(path.ends_with("held.json") || !text.contains("canary"), "{path:?}");
    }
    assert_eq!(files, 5, "holder, held, exit, gone, journal");
}

#[test]
fn holder_and_command_have_separate_groups() {
    let mut launch = Launch::start(crate::kit::with_pipe(sh("read line")));
    let held = launch.held();
    let pid = |pid: u32| rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
    assert_eq!(rustix::process::getsid(pid(held.holder.pid)).ok(), pid(held.holder.pid));
    assert_eq!(rustix::process::getpgid(pid(held.child.pid)).ok(), pid(held.child.pid));
    assert_eq!(held.holder.pid, launch.holder_pid());
    crate::kit::write(&mut launch.link(), "k", b"go\n").unwrap();
    launch.wait();
}

#[test]
fn holder_without_session_starts_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    let mut holder = Command::new(&program()[0]);
    holder.arg(&dir).process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut holder = holder.spawn().unwrap();
    let spec = serde_json::to_vec(&keyed(sh("exit 3"))).unwrap();
    holder.stdin.take().unwrap().write_all(&spec).unwrap();
    // A group leader cannot create a session.
    assert_eq!(holder.wait().unwrap().code(), Some(2));
    assert_eq!(inspect(&dir).unwrap(), LaunchState::Absent);
}

fn keyed(spec: HoldSpec) -> HoldSpec {
    HoldSpec { key: format!("starting-{}", std::process::id()), ..spec }
}

/// Runs a holder to its end, without the client.
fn run(dir: &Path, spec: &[u8]) -> Option<i32> {
    let mut holder = Command::new(&program()[0])
        .arg(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    holder.stdin.take().unwrap().write_all(spec).unwrap();
    holder.wait().unwrap().code()
}
