//! Concurrency: many daemons, many commands that start one, and many sessions.

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use provost_testkit::harness::deep;
use provost_testkit::{Home, eventually, eventually_within};
use serde_json::Value;

use crate::kit::{quick_home, refused, sealed, spawn, verified};

/// Number of commands that race to start the daemon.
const RACERS: usize = 50;

/// How often the daemon is stopped while commands arrive.
fn stops() -> usize {
    if deep() { 25 } else { 8 }
}

/// Number of sessions spawned at once; the full thousand only with `--deep`.
fn sessions() -> usize {
    if deep() { 1_000 } else { 200 }
}

/// Number of clients that spawn them.
const CLIENTS: usize = 20;

/// Timeout for all of them to finish, on two cores.
const SESSIONS_WITHIN: Duration = Duration::from_secs(90);

#[test]
fn of_two_daemons_one_wins_and_the_other_says_who() {
    let home = quick_home();
    let id = spawn(&home, &["--", "true"]);
    sealed(&home, &id);
    let first = home.daemon().pid().expect("a daemon runs");
    let second = home.provost(&["daemon", "run", "--json"]);
    refused(&second, 4, "refused", &[&first.to_string()]);
    assert_eq!(home.daemon().pid(), Some(first), "the first keeps running");
}

#[test]
fn two_daemons_that_start_together_leave_one() {
    let home = quick_home();
    let mut racers: Vec<Child> = (0..2).map(|_| start(&home, &["daemon", "run"])).collect();
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
fn fifty_commands_that_race_start_one_daemon() {
    let home = quick_home();
    let racers: Vec<Child> =
        (0..RACERS).map(|_| start(&home, &["spawn", "--json", "--", "true"])).collect();
    let ids: BTreeSet<String> = racers.into_iter().map(finished).collect();
    assert_eq!(ids.len(), RACERS);
    // A forked child looks like the daemon until it executes its own program.
    eventually("one daemon", || match daemons_of(&home) {
        one if one.len() == 1 => Ok(()),
        several => Err(several),
    });
    for id in &ids {
        sealed(&home, id);
    }
    verified(&home);
}

#[test]
fn a_daemon_that_leaves_while_others_ask_is_followed_by_the_next() {
    let home = quick_home();
    for round in 0..stops() {
        // They arrive at every point of a daemon's life: while it starts, while it stops, and after it is gone.
        let asked = [&["daemon", "stop"][..], &["ls"], &["ls"], &["ls"]];
        let racers = asked.map(|args| start_talking(&home, args));
        for racer in racers {
            let output = racer.wait_with_output().expect("provost ends");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "round {round}: {said}");
        }
        home.provost(&["ls"]).ok();
        assert!(home.path().join("daemon.sock").exists(), "round {round}");
    }
    eventually("one daemon", || (daemons_of(&home).len() == 1).then_some(()));
}

#[test]
fn a_thousand_sessions_at_once_all_end_right() {
    let home = quick_home();
    home.provost(&["ls"]).ok();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                for _ in 0..sessions() / CLIENTS {
                    spawn(&home, &["--exit0-is-done", "--", "/bin/true"]);
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
    assert_eq!(rows.len(), sessions());
    let wrong: Vec<&Value> = rows.iter().filter(|row| row["state"] != "completed").collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    verified(&home);
}

fn start(home: &Home, args: &[&str]) -> Child {
    let mut command: Command = home.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.spawn().expect("provost can be started")
}

fn start_talking(home: &Home, args: &[&str]) -> Child {
    let mut command: Command = home.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().expect("provost can be started")
}

fn finished(racer: Child) -> String {
    let output = racer.wait_with_output().expect("provost ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let value: Value = serde_json::from_str(&said).expect("one JSON value");
    crate::kit::text(&value["id"])
}

/// Returns the running daemons of a home, found by command line and environment.
fn daemons_of(home: &Home) -> Vec<String> {
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
