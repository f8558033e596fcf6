//! Concurrency: many daemons, many commands that start one, and many sessions.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use provost_testkit::env::assert_refused;
use provost_testkit::harness::is_deep;
use provost_testkit::harness::string_value;
use provost_testkit::{TestHome, eventually, eventually_within};
use serde_json::Value;

/// Number of commands that race to start the daemon.
const RACERS: usize = 50;

/// Returns how many times the daemon is stopped while commands arrive.
fn stop_rounds() -> usize {
    if is_deep() { 25 } else { 8 }
}

/// Returns the number of sessions that are spawned at once: one thousand with `--deep`, fewer by
/// default.
fn session_count() -> usize {
    if is_deep() { 1_000 } else { 200 }
}

/// The number of clients that spawn the sessions.
const CLIENTS: usize = 20;

/// The time limit for all sessions to end, on two cores.
const SESSIONS_WITHIN: Duration = Duration::from_secs(90);

#[test]
fn second_daemon_is_refused_and_names_the_first() {
    let home = TestHome::with_short_windows();
    let id = home.spawn(&["--", "true"]);
    home.wait_sealed(&id);
    let first = home.daemon().pid().expect("a daemon runs");
    let second = home.provost(&["daemon", "run", "--json"]);
    assert_refused(&second, 4, "refused", &[&first.to_string()]);
    assert_eq!(home.daemon().pid(), Some(first), "the first keeps running");
}

#[test]
fn simultaneous_daemons_leave_one() {
    let home = TestHome::with_short_windows();
    let mut racers: Vec<Child> = (0..2).map(|_| start_command(&home, &["daemon", "run"])).collect();
    let pid =
        eventually_within(Duration::from_secs(20), "one of them answers", || home.daemon().pid());
    let mut ended = 0;
    eventually_within(Duration::from_secs(20), "the other has given up", || {
        ended = racers.iter_mut().filter_map(|racer| racer.try_wait().expect("ours")).count();
        (ended > 0).then_some(())
    });
    assert_eq!(ended, 1);
    assert!(racers.iter().any(|racer| racer.id() == pid));
    home.daemon().stop();
    for racer in &mut racers {
        racer.wait().expect("ours");
    }
}

#[test]
fn fifty_racing_commands_start_one_daemon() {
    let home = TestHome::with_short_windows();
    let racers: Vec<Child> =
        (0..RACERS).map(|_| start_command(&home, &["spawn", "--json", "--", "true"])).collect();
    let ids: BTreeSet<String> = racers.into_iter().map(finish_spawn).collect();
    assert_eq!(ids.len(), RACERS);
    // A forked child looks like the daemon until it executes its own program.
    eventually("one daemon", || match running_daemons(&home) {
        one if one.len() == 1 => Ok(()),
        several => Err(several),
    });
    for id in &ids {
        home.wait_sealed(id);
    }
    home.assert_ledger_verified();
}

#[test]
fn stopping_daemon_is_replaced_for_waiting_commands() {
    let home = TestHome::with_short_windows();
    for round in 0..stop_rounds() {
        // The commands arrive at every point of a daemon's life: while it starts, while it stops,
        // and after it has exited.
        let asked = [&["daemon", "stop"][..], &["ls"], &["ls"], &["ls"]];
        let racers = asked.map(|args| start_with_stderr(&home, args));
        for racer in racers {
            let output = racer.wait_with_output().expect("provost ends");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "round {round}: {stderr}");
        }
        home.provost(&["ls"]).ok();
        assert!(home.path().join("daemon.sock").exists(), "round {round}");
    }
    eventually("one daemon", || (running_daemons(&home).len() == 1).then_some(()));
}

#[test]
fn thousand_parallel_sessions_complete() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..session_count() / CLIENTS {
                    home.spawn(&["--exit-zero-completes", "--", "/bin/true"]);
                }
            });
        }
    });
    let rows = eventually_within(SESSIONS_WITHIN, "every session is sealed", || {
        let list = home.provost(&["ls", "--all", "--json"]).ok().json();
        let rows = list["sessions"].as_array().expect("a list").clone();
        let open = rows.iter().filter(|row| row["sealed"] != true).count();
        if open == 0 { Ok(rows) } else { Err(open) }
    });
    assert_eq!(rows.len(), session_count());
    let wrong: Vec<&Value> = rows.iter().filter(|row| row["state"] != "completed").collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    home.assert_ledger_verified();
}

fn start_command(home: &TestHome, args: &[&str]) -> Child {
    let mut command: Command = home.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("provost can be started")
}

fn start_with_stderr(home: &TestHome, args: &[&str]) -> Child {
    let mut command: Command = home.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("provost can be started")
}

fn finish_spawn(racer: Child) -> String {
    let output = racer.wait_with_output().expect("provost ends");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{stdout}");
    let value: Value = serde_json::from_str(&stdout).expect("one JSON value");
    string_value(&value["id"])
}

/// Returns the running daemons of a home, found by command line and environment.
fn running_daemons(home: &TestHome) -> Vec<String> {
    let mark = format!("PROVOST_HOME={}\0", home.path().display());
    let processes = std::fs::read_dir("/proc").expect("processes can be listed").flatten();
    let read = |path: std::path::PathBuf| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
    };
    processes
        .filter(|entry| read(entry.path().join("cmdline")).contains("\0daemon\0run\0"))
        .filter(|entry| read(entry.path().join("environ")).contains(&mark))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}
