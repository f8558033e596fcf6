//! An agent that tries to stall the daemon.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use provost_testkit::env::{is_running, signal};
use provost_testkit::{TestHome, eventually, eventually_within};
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;

/// Timeout for a command while an agent misbehaves.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);

pub(super) fn spawn(home: &TestHome, script: &str) -> String {
    home.spawn(&["--", "sh", "-c", script])
}

/// Runs a command and fails the test unless it succeeds in time. Kills a command that hangs.
#[track_caller]
#[expect(clippy::disallowed_methods, reason = "only the clock reveals a hang")]
pub(super) fn run_in_time(home: &TestHome, args: &[&str]) -> String {
    let mut command = home.command(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let ended = Arc::new(AtomicBool::new(false));
    let late = Arc::new(AtomicBool::new(false));
    let guard = {
        let (ended, late) = (Arc::clone(&ended), Arc::clone(&late));
        thread::spawn(move || {
            let until = Instant::now() + COMMAND_TIMEOUT;
            while !ended.load(Ordering::SeqCst) {
                if Instant::now() > until {
                    late.store(true, Ordering::SeqCst);
                    kill_process(pid, Signal::KILL).ok();
                    return;
                }
                thread::park_timeout(Duration::from_millis(50));
            }
        })
    };
    let output = child.wait_with_output().unwrap();
    ended.store(true, Ordering::SeqCst);
    guard.thread().unpark();
    guard.join().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!late.load(Ordering::SeqCst), "{args:?} did not finish within {COMMAND_TIMEOUT:?}");
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Kills a daemon that a failing test left stalled, so that its home can be removed.
struct KillOnDrop(u32);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(pid) = i32::try_from(self.0).ok().and_then(Pid::from_raw)
        {
            kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Swaps a report and a FIFO under one name until `stop` is set.
fn swap_report_and_fifo(drop_box: &Path, launch: &str, stop: &AtomicBool) {
    let name = drop_box.join(format!("{launch}~k.json"));
    let (file, fifo) = (drop_box.join(".file"), drop_box.join(".fifo"));
    while !stop.load(Ordering::SeqCst) {
        fs::write(&file, "{}").unwrap();
        fs::rename(&file, &name).unwrap();
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &fifo, FileType::Fifo, mode, 0).unwrap();
        fs::rename(&fifo, &name).unwrap();
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the race runs for a fixed time")]
fn f2_13_fifo_named_as_report_does_not_stall() {
    let home = TestHome::with_short_windows();
    let script = "while [ ! -e stop ]; do echo word; sleep 0.005; done";
    let id = spawn(&home, script);
    home.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    let daemon = home.daemon().pid().unwrap();
    let _killed = KillOnDrop(daemon);
    // A sandboxed agent has its drop box in its own temporary directory.
    let drop_box = home.path().join(format!("agents/{id}/tmp/drop"));
    fs::create_dir_all(&drop_box).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let exchanging = {
        let (stop, launch) = (Arc::clone(&stop), format!("{id}.l1"));
        thread::spawn(move || swap_report_and_fifo(&drop_box, &launch, &stop))
    };
    let until = Instant::now() + Duration::from_secs(6);
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        while Instant::now() < until {
            run_in_time(&home, &["ls", "--json"]);
        }
    }));
    stop.store(true, Ordering::SeqCst);
    exchanging.join().unwrap();
    fs::write(home.root().join("stop"), "").unwrap();
    if let Err(panic) = answered {
        std::panic::resume_unwind(panic);
    }
    assert_eq!(home.daemon().pid(), Some(daemon), "the daemon was not replaced");
    home.wait_state(&id, |row| row["sealed"] == true);
}

#[test]
fn f2_13_daemon_stop_kills_a_hanging_daemon() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    let daemon = home.daemon().pid().unwrap();
    let _killed = KillOnDrop(daemon);
    // A stopped process neither responds nor handles TERM.
    signal(daemon, Signal::STOP);
    let stopped = home.provost(&["daemon", "stop"]);
    stopped.ok();
    assert!(!is_running(daemon), "{stopped:?}");
    home.provost(&["ls"]).ok();
}

#[test]
fn f2_13_watchdog_aborts_a_stalled_daemon() {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_WATCHDOG_MS", "1000");
    home.provost(&["ls"]).ok();
    let daemon = home.daemon().pid().unwrap();
    let _killed = KillOnDrop(daemon);
    fs::write(home.path().join("stall-for-tests"), "").unwrap();
    eventually_within(COMMAND_TIMEOUT, "the watchdog ends the daemon", || {
        (!is_running(daemon)).then_some(())
    });
    fs::remove_file(home.path().join("stall-for-tests")).unwrap();
    run_in_time(&home, &["ls"]);
    assert_ne!(home.daemon().pid(), Some(daemon));
    let log = fs::read_to_string(home.path().join("log/daemon.log")).unwrap_or_default();
    assert!(log.contains("has not answered"), "{log}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "no event marks the passing of time")]
fn f2_13_watchdog_ignores_a_paused_process() {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_WATCHDOG_MS", "500");
    home.provost(&["ls"]).ok();
    let daemon = home.daemon().pid().unwrap();
    signal(daemon, Signal::STOP);
    thread::sleep(Duration::from_secs(3));
    signal(daemon, Signal::CONT);
    run_in_time(&home, &["ls"]);
    thread::sleep(Duration::from_secs(1));
    run_in_time(&home, &["ls"]);
    assert_eq!(home.daemon().pid(), Some(daemon), "a pause is not a stall");
}

/// Makes session rows large by adding facts, which are part of a row.
pub(super) fn fill_rows(home: &TestHome, sessions: usize) {
    let ids: Vec<String> = (0..sessions).map(|_| spawn(home, "true")).collect();
    for id in &ids {
        for no in 0..50 {
            let value = format!("{no}{}", "v".repeat(4 << 10));
            let body = serde_json::json!({"session": id, "fact": "artifact", "value": value});
            post(home, "/v1/reports", &body.to_string());
        }
    }
}

/// Sends a POST request as the operator.
pub(super) fn post(home: &TestHome, path: &str, body: &str) {
    let mut stream = UnixStream::connect(home.path().join("daemon.sock")).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[test]
fn f2_15_unread_listings_do_not_block_changes() {
    let home = TestHome::with_short_windows();
    let live = spawn(&home, "while [ ! -e stop ]; do sleep 0.1; done");
    fill_rows(&home, 20);
    let listings: Vec<UnixStream> = (0..70)
        .map(|_| {
            let mut stream = UnixStream::connect(home.path().join("daemon.sock")).unwrap();
            stream.write_all(b"GET /v1/sessions?all=1 HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
            stream
        })
        .collect();
    // Once the daemon answers a later connection, it has accepted all of these.
    run_in_time(&home, &["ls", "--json"]);
    let changed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        run_in_time(&home, &["rename", &live, "renamed"]);
        run_in_time(&home, &["spawn", "--json", "--", "true"]);
    }));
    drop(listings);
    fs::write(home.root().join("stop"), "").unwrap();
    if let Err(panic) = changed {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn f2_15_reports_over_budget_are_refused() {
    let home = TestHome::with_short_windows();
    let (reply_file, stop) = (home.root().join("said"), home.root().join("stop"));
    let script = format!(
        "head -c 400000 /dev/zero | tr '\\0' v > text; i=0; while [ $i -lt 30 ]; do \"$PROVOST_BIN\" report working --message - --json < text >> {}; i=$((i+1)); done; echo > done; while [ ! -e {} ]; do sleep 0.1; done",
        reply_file.display(),
        stop.display()
    );
    let id = spawn(&home, &script);
    eventually_within(Duration::from_secs(60), "all reports are made", || {
        home.root().join("done").exists().then_some(())
    });
    let replies = fs::read_to_string(&reply_file).unwrap();
    let refused: Vec<Value> = replies
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|reply: &Value| reply["ok"] == false)
        .collect();
    assert!(!refused.is_empty(), "all 30 reports of 400 kB were accepted");
    let message = refused[0]["error"]["message"].as_str().unwrap();
    assert!(message.contains("MiB"), "the limit is named: {message}");
    let row = home.wait_state(&id, |row| {
        row["flags"].as_array().is_some_and(|flags| flags.contains(&"reports_refused".into()))
    });
    assert_eq!(home.events_of(&id, "reports.refused").len(), 1, "{row:#}");
    fs::write(&stop, "").unwrap();
    eventually("the session ends", || (home.status(&id)["sealed"] == true).then_some(()));
}

#[test]
fn f2_15_stream_reports_over_budget_are_refused() {
    let home = TestHome::with_short_windows();
    let stop = home.root().join("stop");
    let script = format!(
        "echo '{{\"type\":\"ready\"}}'; v=$(head -c 100000 /dev/zero | tr '\\0' v); i=0; \
         while [ $i -lt 90 ]; do echo \"{{\\\"type\\\":\\\"fact\\\",\\\"fact\\\":\\\"artifact\\\",\\\"value\\\":\\\"$v\\\"}}\"; i=$((i+1)); done; \
         while [ ! -e {} ]; do sleep 0.1; done",
        stop.display()
    );
    fs::write(home.root().join("talker.sh"), script).unwrap();
    let talker = home.root().join("talker.sh");
    home.configure(&format!(
        "[agents.talker]\nadapter = \"jsonl\"\ncommand = [\"sh\", \"{}\"]\n",
        talker.display()
    ));
    let spawned = home.provost(&["spawn", "--json", "--agent", "talker", "Talk."]);
    let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
    home.wait_state(&id, |row| {
        row["flags"].as_array().is_some_and(|flags| flags.contains(&"reports_refused".into()))
    });
    let facts = home.events_of(&id, "fact.reported").len();
    assert_eq!(facts, (8 << 20) / 100_000, "what fits into 8 MiB is recorded");
    assert_eq!(home.events_of(&id, "reports.refused").len(), 1);
    fs::write(&stop, "").unwrap();
    home.wait_state(&id, |row| row["sealed"] == true);
}
