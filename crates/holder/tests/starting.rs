//! Taking a launch: once, with nothing inherited, and with a clear record if it cannot start.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use provost_holder::client::Error;
use provost_holder::journal::Channel;
use provost_holder::{EXIT_ALREADY, End, EndedBy, HoldSpec, Looked, StdinMode, look, start};

use crate::kit::{Launch, command, program, sh};

#[test]
fn exit_codes_and_signals_are_kept() {
    let check = |script: &str, expected: End| {
        let (exit, gone) = Launch::start(sh(script)).wait();
        assert_eq!((exit.end, exit.ended_by), (expected, EndedBy::Itself), "{script}");
        assert_eq!((gone.leftovers, gone.verified), (0, true), "{script}");
    };
    check("exit 0", End::Exited { code: 0 });
    check("exit 1", End::Exited { code: 1 });
    check("exit 255", End::Exited { code: 255 });
    check("kill -9 $$", End::Signalled { signal: 9 });
    check("kill -TERM $$", End::Signalled { signal: 15 });
}

#[test]
fn a_command_that_cannot_start_leaves_a_record_that_says_why() {
    let check = |spec: HoldSpec, expected: &str| {
        let mut launch = Launch::start(spec);
        assert!(launch.wait_for_holder().success());
        let Looked::Ended { held: None, exit, gone: Some(gone) } = look(&launch.dir).unwrap()
        else {
            panic!("{:?}", look(&launch.dir));
        };
        let End::NotStarted { error } = exit.end else { panic!("{:?}", exit.end) };
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
fn of_twenty_starts_of_one_directory_one_wins() {
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
    assert!(lost.iter().all(|lost| matches!(lost, Err(Error::Already))));
    won.into_iter().for_each(|won| assert!(won.unwrap().holder.wait().unwrap().success()));
    assert_eq!(fs::read_to_string(count).unwrap(), "started\n");
}

#[test]
fn a_directory_that_is_there_has_its_own_exit_code() {
    let temp = tempfile::tempdir().unwrap();
    assert_eq!(
        run(temp.path(), &serde_json::to_vec(&keyed(sh("exit 0"))).unwrap()),
        Some(EXIT_ALREADY.into())
    );
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn a_spec_that_is_not_understood_takes_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    assert_eq!(run(&dir, b"{\"version\":1}"), Some(2));
    assert_eq!(look(&dir).unwrap(), Looked::Absent);
    let error = start(&program(), &dir, &HoldSpec { version: 9, ..keyed(sh("true")) }).unwrap_err();
    assert!(error.to_string().contains("version 9"), "{error}");
    assert_eq!(look(&dir).unwrap(), Looked::Absent);
}

#[test]
fn a_holder_that_would_lose_exit_statuses_refuses_and_gives_the_directory_back() {
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
fn the_environment_is_the_given_one_and_the_mark() {
    let mut spec = command(&["/usr/bin/env"]);
    spec.env = vec![("ONLY".into(), "this".into()), ("PROVOST_LAUNCH".into(), "forged".into())];
    let mut launch = Launch::start(spec);
    launch.wait();
    let output = String::from_utf8(launch.output(Channel::Stdout)).unwrap();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["ONLY=this", &format!("PROVOST_LAUNCH={}", launch.key)]);
}

#[test]
fn no_file_has_the_environment_or_secret_input() {
    let mut spec = sh("test \"$TOKEN\" = canary-token && test \"$(cat)\" = canary-text");
    spec.env.push(("TOKEN".into(), "canary-token".into()));
    spec.stdin = StdinMode::Text("canary-text".into());
    spec.journal_stdin = false;
    let mut launch = Launch::start(spec);
    assert_eq!(launch.wait().0.end, End::Exited { code: 0 });
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
fn holder_and_command_have_groups_of_their_own() {
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
fn a_holder_that_cannot_have_a_session_says_so_and_starts_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("launch");
    let mut holder = Command::new(&program()[0]);
    holder.arg(&dir).process_group(0).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut holder = holder.spawn().unwrap();
    let spec = serde_json::to_vec(&keyed(sh("exit 3"))).unwrap();
    holder.stdin.take().unwrap().write_all(&spec).unwrap();
    // A group leader cannot create a session.
    assert_eq!(holder.wait().unwrap().code(), Some(2));
    assert_eq!(look(&dir).unwrap(), Looked::Absent);
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
