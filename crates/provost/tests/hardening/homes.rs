//! Homes that are unusable or unusual.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use provost_testkit::env::assert_refused;
use provost_testkit::{TestHome, eventually};
use rustix::fs::{CWD, RenameFlags};

/// An unprivileged user for commands, because permissions do not restrict root.
const UNPRIVILEGED: u32 = 65_534;

#[test]
fn stale_socket_is_taken_over() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "true"]);
    home.wait_sealed(&id);
    home.daemon().kill();
    assert!(home.path().join("daemon.sock").exists(), "a killed daemon leaves its socket");
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
    home.daemon().stop();
    // This socket was bound without a daemon, and no process listens on it.
    drop(UnixListener::bind(home.path().join("daemon.sock")).expect("a socket can be made"));
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
}

#[test]
fn daemon_restores_its_removed_socket() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "sh", "-c", "rm -f $PROVOST_SOCKET"]);
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
    let pid = home.daemon().pid().expect("it answers");
    let socket = home.path().join("daemon.sock");
    for _ in 0..20 {
        fs::remove_file(&socket).expect("the socket is there again");
        home.provost(&["ls"]).ok();
        // This socket belongs to another process, not to the daemon.
        let other = home.root().join("other.sock");
        let listener = UnixListener::bind(&other).expect("a socket can be made");
        let planted = fs::symlink_metadata(&other).expect("it is there").ino();
        fs::rename(&other, &socket).expect("it can be put there");
        eventually("its own socket is back", || {
            let found = fs::symlink_metadata(&socket).ok()?.ino();
            (found != planted).then_some(())
        });
        drop(listener);
        assert_eq!(home.daemon().pid(), Some(pid), "the daemon was not replaced");
    }
}

#[test]
fn unreachable_daemon_is_not_taken_for_stopped() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    let pid = home.daemon().pid().expect("it answers").to_string();
    let socket = home.path().join("daemon.sock");
    let aside = home.root().join("aside");
    fs::create_dir(&aside).expect("a directory can be made");
    // Provost never removes a file that is not a socket.
    rustix::fs::renameat_with(CWD, &aside, CWD, &socket, RenameFlags::EXCHANGE)
        .expect("the two can be exchanged");
    let unheard = ["does not respond", &pid];
    assert_refused(&home.provost(&["daemon", "status", "--json"]), 6, "unreachable", &unheard);
    let doctor = home.provost(&["doctor", "--json"]).assert_code(1).json();
    let findings = doctor["findings"].as_array().expect("a list").clone();
    let about = findings.iter().find(|found| found["what"] == "daemon").expect("it is looked at");
    assert_eq!(about["level"], "fail", "{about}");
    assert!(about["found"].to_string().contains(&pid), "{about}");
    let stopped = home.provost(&["daemon", "stop", "--json"]).ok().json();
    assert_eq!(stopped["running"], true, "it was running and stopped: {stopped}");
    fs::remove_dir(&socket).expect("the directory is still there");
    home.provost(&["ls"]).ok();
    assert_ne!(home.daemon().pid().expect("the next answers").to_string(), pid);
}

#[test]
fn started_processes_inherit_no_descriptors() {
    let home = TestHome::with_short_windows();
    let lock = home.root().join("lock");
    let spawn = home.command(&["spawn", "--json", "--", "sleep", "600"]);
    let mut shell = Command::new("bash");
    shell.args(["-c", "exec 9>$0 19>$0; flock -n 9; \"$@\""]).arg(&lock).arg(spawn.get_program());
    shell.args(spawn.get_args()).current_dir(home.root()).env_clear();
    shell.envs(spawn.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.output().expect("bash can be run");
    let reply = String::from_utf8_lossy(&output.stdout).into_owned();
    let reply: serde_json::Value = serde_json::from_str(&reply).expect("one JSON value");
    let id = reply["id"].as_str().expect("an id").to_owned();
    let row = home.wait_state(&id, |row| row["launches"][0]["pid"].is_u64());
    let agent = u32::try_from(row["launches"][0]["pid"].as_u64().expect("a pid")).expect("small");
    let holder = provost_sys::process::ancestors(agent).expect("it lives")[0].pid;
    for pid in [home.daemon().pid().expect("it answers"), holder, agent] {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
        let has_it = open.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|to| to == lock);
        assert!(
            !has_it,
            "{}",
            fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it lives")
        );
    }
    let free = Command::new("flock").arg("-n").arg(&lock).arg("true").status();
    assert!(free.expect("flock can be run").success(), "the caller's lock was inherited");
    home.provost(&["stop", &id]).ok();
}

#[test]
fn file_in_place_of_socket_is_error_or_replaced() {
    let home = TestHome::with_short_windows();
    fs::write(home.path().join("daemon.sock"), "mine").expect("a file can be written");
    let output = home.provost(&["ls", "--json"]);
    if output.code() != Some(0) {
        assert_refused(&output, 6, "unreachable", &["socket"]);
        assert_eq!(fs::read_to_string(home.path().join("daemon.sock")).expect("it stays"), "mine");
    }
}

#[test]
fn home_of_another_user_is_refused() {
    let home = TestHome::with_short_windows();
    let root = rustix::process::geteuid().is_root();
    assert!(root || std::env::consts::OS != "linux", "this test changes an owner: run it as root");
    std::os::unix::fs::chown(home.path(), Some(12_345), None).expect("root may change an owner");
    for args in
        [&["ls", "--json"][..], &["spawn", "--json", "--", "true"], &["daemon", "status", "--json"]]
    {
        let output = home.provost(args);
        let message = assert_refused(&output, 4, "refused", &["another user", "12345"]);
        assert!(message.contains(&home.path().display().to_string()), "{message}");
        assert_eq!(output.json()["error"]["next"][0], "export PROVOST_HOME=DIRECTORY");
    }
    assert!(!home.path().join("ledger").exists(), "nothing was created there");
}

#[test]
fn read_only_home_is_an_error_but_readable() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "true"]);
    home.wait_sealed(&id);
    let script = format!(
        "mount --bind {home} {home} && mount -o remount,ro,bind {home} && \"$0\" \"$@\"",
        home = home.path().display()
    );
    // A daemon that runs elsewhere serves reading commands.
    for args in [&["ls", "--all"][..], &["status", &id], &["logs", &id], &["ledger", "verify"]] {
        run_in_namespace(&home, &script, args).ok();
    }
    home.daemon().stop();
    for args in [&["spawn", "--json", "--", "true"][..], &["ls", "--json"], &["status", "--json"]] {
        let output = run_in_namespace(&home, &script, args);
        assert_refused(&output, 6, "storage", &["is read-only", "mounted", "ledger export"]);
    }
    // What needs no daemon reads the ledger.
    run_in_namespace(&home, &script, &["ledger", "verify"]).ok();
    let exported = run_in_namespace(&home, &script, &["ledger", "export"]);
    assert!(exported.ok().stdout.contains(&id), "{exported:#?}");
    let doctor = run_in_namespace(&home, &script, &["doctor", "--json"]).assert_code(1).json();
    let findings = doctor["findings"].as_array().expect("a list");
    let found =
        |what: &str| findings.iter().find(|found| found["what"] == what).expect("a finding");
    assert!(found("home")["found"].to_string().contains("the home is read-only"), "{doctor}");
    assert_eq!(found("ledger")["level"], "ok", "{doctor}");
    home.assert_ledger_verified();
    assert_eq!(home.wait_sealed(&id)["state"], "completed", "nothing is lost");
}

/// Runs `provost` as a user that the permissions of the home restrict, so not as root.
fn run_as_user(home: &TestHome, args: &[&str]) -> provost_testkit::ProgramOutput {
    let mut command = home.command(args);
    if rustix::process::geteuid().is_root() {
        command.uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    }
    let ran = command.current_dir(home.root()).output().expect("provost can be run");
    provost_testkit::ProgramOutput {
        command: format!("{command:?}"),
        status: ran.status,
        stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        raw_stdout: ran.stdout,
    }
}

/// Makes the user of [`run_as_user`] the owner of a directory and everything below it.
fn give_to_user(path: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let owner = Some(UNPRIVILEGED);
    std::os::unix::fs::lchown(path, owner, owner).expect("root may change an owner");
    if fs::symlink_metadata(path).expect("it exists").is_dir() {
        let entries = fs::read_dir(path).expect("it is readable").flatten();
        entries.for_each(|entry| give_to_user(&entry.path()));
    }
}

#[test]
fn home_without_write_permission_is_readable() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "true"]);
    home.wait_sealed(&id);
    home.daemon().stop();
    let ledger = home.path().join("ledger");
    let log = ledger.join("ledger.db-wal");
    fs::write(home.root().join("log"), "not empty").expect("a file can be written");
    give_to_user(home.root());
    let set_mode = |mode| {
        for dir in [&ledger, &home.path()] {
            fs::set_permissions(dir, Permissions::from_mode(mode)).expect("a mode can be set");
        }
    };
    set_mode(0o500);
    run_as_user(&home, &["ledger", "verify"]).ok();
    let exported = run_as_user(&home, &["ledger", "export"]);
    assert!(exported.ok().stdout.contains(&id), "{exported:#?}");
    // SQLite needs an index for a log that was not checkpointed, and cannot create it.
    set_mode(0o700);
    fs::rename(home.root().join("log"), &log).expect("a file can be moved");
    set_mode(0o500);
    let refused = run_as_user(&home, &["ledger", "export", "--json"]);
    set_mode(0o700);
    assert_refused(&refused, 6, "storage", &["check the permissions", "ledger.db"]);
    fs::remove_file(&log).expect("a file can be removed");
}

#[test]
fn doctor_reports_home_that_cannot_be_created() {
    let mut home = TestHome::with_short_windows();
    let parent = home.root().join("place");
    fs::create_dir(&parent).expect("a directory can be made");
    home.set_env("PROVOST_HOME", parent.join("new/home"));
    let about = |output: provost_testkit::ProgramOutput| {
        let findings = output.json()["findings"].as_array().expect("a list").clone();
        findings.into_iter().find(|found| found["what"] == "home").expect("it is looked at")
    };
    let found = about(home.provost(&["doctor", "--json"]));
    assert_eq!(found["level"], "ok", "{found}");
    let script = format!(
        "mount --bind {dir} {dir} && mount -o remount,ro,bind {dir} && \"$0\" \"$@\"",
        dir = parent.display()
    );
    let found = about(run_in_namespace(&home, &script, &["doctor", "--json"]));
    assert_eq!(found["level"], "fail", "{found}");
    assert!(found["found"].to_string().contains("Read-only"), "{found}");
    fs::write(parent.join("new"), "").expect("a file can be written");
    let found = about(home.provost(&["doctor", "--json"]));
    assert_eq!(found["level"], "fail", "{found}");
}

#[test]
fn home_with_long_path_works() {
    let mut home = TestHome::with_short_windows();
    let long = home.root().join("home").join("x".repeat(100)).join("y".repeat(120));
    fs::create_dir_all(&long).expect("a long path can be made");
    fs::set_permissions(&long, Permissions::from_mode(0o700)).expect("a mode can be set");
    home.set_env("PROVOST_HOME", &long);
    let id = home.spawn(&["--", "sh", "-c", "provost report completed && exit 0"]);
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
    home.daemon().kill();
    assert_eq!(home.wait_sealed(&id)["state"], "completed");
    home.provost(&["daemon", "stop"]).ok();
}

#[test]
fn sigterm_stops_daemon_and_keeps_agents() {
    let home = TestHome::with_short_windows();
    let script =
        format!("while ! test -e {}; do sleep 0.05; done", home.root().join("go").display());
    let id = home.spawn(&["--exit-zero-completes", "--", "sh", "-c", &script]);
    home.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    let pid = home.daemon().pid().expect("a daemon runs");
    let raw =
        rustix::process::Pid::from_raw(i32::try_from(pid).expect("a pid is small")).expect("a pid");
    rustix::process::kill_process(raw, rustix::process::Signal::TERM)
        .expect("the daemon can be signalled");
    eventually("the daemon has stopped", || home.daemon().status().is_none().then_some(()));
    eventually("its socket is gone", || (!home.path().join("daemon.sock").exists()).then_some(()));
    fs::write(home.root().join("go"), "").expect("the file can be written");
    let row = home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["exit"]["code"]), (&"completed".into(), &0.into()), "{row}");
    let log = fs::read_to_string(home.path().join("log/daemon.log")).expect("there is a log");
    assert!(!log.contains("panicked"), "{log}");
    home.assert_ledger_verified();
}

/// Runs `provost` in its own mount namespace, prepared by a script.
fn run_in_namespace(
    home: &TestHome,
    script: &str,
    args: &[&str],
) -> provost_testkit::ProgramOutput {
    let provost = home.command(args);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]).arg(provost.get_program()).args(args);
    command.current_dir(home.root()).env_clear();
    command.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = command.output().expect("unshare can be run");
    provost_testkit::ProgramOutput {
        command: format!("{command:?}"),
        status: ran.status,
        stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
        raw_stdout: ran.stdout,
    }
}

/// Sets the format of a home's ledger, and returns the content of its file.
fn set_ledger_format(home: &TestHome, format: u32) -> Vec<u8> {
    let file = home.path().join("ledger/ledger.db");
    let ledger = rusqlite::Connection::open(&file).expect("the ledger opens");
    ledger.pragma_update(None, "user_version", format).expect("the format is set");
    drop(ledger);
    std::fs::read(file).expect("the ledger is readable")
}

#[test]
fn home_of_another_format_is_refused_unchanged() {
    let home = TestHome::new();
    home.provost(&["spawn", "--name", "kept", "--", "true"]).ok();
    home.wait_sealed("kept");
    home.daemon().stop();
    let current = provost_ledger::SCHEMA_VERSION;
    for (format, age) in [(current - 1, "an older"), (current + 1, "a newer")] {
        let before = set_ledger_format(&home, format);
        let reason =
            format!("was written by {age} provost (format {format}, this one needs {current})");
        for arguments in [&["ls"][..], &["spawn", "--", "true"], &["ledger", "verify"]] {
            let refused = home.provost(arguments);
            assert_ne!(refused.code(), Some(0), "{refused:#?}");
            let lines: Vec<&str> = refused.stderr.lines().collect();
            assert!(lines[0].starts_with("error: ") && lines[0].contains(&reason), "{refused:#?}");
            assert_eq!(lines[1..], ["  next: provost --version"], "{refused:#?}");
        }
        assert!(std::fs::read(home.path().join("ledger/ledger.db")).unwrap() == before);
    }
    set_ledger_format(&home, current);
    assert_eq!(home.status("kept")["state"], "completed");
}
