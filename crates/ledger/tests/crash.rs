//! Crashes: acknowledged batches survive; others are complete or absent.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use provost_ledger::{Ledger, ReadLedger, SqliteReader, verify};

use crate::common::{add, all_records, fold, id, in_ci, open};
use crate::roles::{FEW, PAIR, Role, command};

const KILLS: u64 = 32;

#[test]
fn acknowledged_batches_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut last_acknowledged = 0;
    for round in 0..KILLS {
        let acks = 1 + round * 7 % 23;
        last_acknowledged = kill_after(dir.path(), acks).max(last_acknowledged);
        // No false alarm, whenever it was killed.
        assert_eq!(SqliteReader::open(dir.path()).unwrap().loss(), None);
        let ledger = open(dir.path());
        assert_eq!(ledger.loss(), None);
        let found = ledger.last_seq().unwrap();
        assert!(
            found >= last_acknowledged,
            "{last_acknowledged} was acknowledged, {found} is there"
        );
        let seqs: Vec<_> = all_records(&ledger).iter().map(|r| r.seq).collect();
        assert!(seqs.iter().copied().eq(1..=found), "the log has a gap");
        let lengths = PAIR.map(|s| gapless(&ledger, s));
        assert_eq!(lengths[0], lengths[1], "a batch was recovered in half");
        assert_eq!(lengths[0] * 2, found);
    }
}

#[test]
fn uncommitted_batch_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    assert!(!run(command(Role::DieStaged, dir.path(), &[])).0);
    let mut ledger = open(dir.path());
    assert_eq!(all_records(&ledger).len(), 1);
    assert_eq!(add(&mut ledger, "session/a", &["y"]).first_seq(), 2);
}

#[test]
fn interrupted_archiving_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    add(&mut ledger, "session/a", &["x", "close"]);
    add(&mut ledger, "session/b", &["close"]);
    drop(ledger);
    assert!(!run(command(Role::DieArchiving, dir.path(), &[])).0);
    let left_over = dir.path().join("archive/1-3.jsonl");
    assert!(left_over.exists(), "the process did not die where it should");
    let mut ledger = open(dir.path());
    assert_eq!(all_records(&ledger).len(), 3);
    let before = ledger.read_stream(&id("session/a"), 0).unwrap();
    ledger.archive(&[id("session/a"), id("session/b")]).unwrap();
    assert_eq!(ledger.read_stream(&id("session/a"), 0).unwrap(), before);
    let report = verify(&SqliteReader::open(dir.path()).unwrap(), &mut fold).unwrap();
    assert!(report.is_clean() && report.records == 3, "{report:?}");
}

#[test]
fn batch_is_synced_before_acknowledgement() {
    if !strace_is_there() {
        return;
    }
    let acknowledged = trace(Role::DurableFew).unwrap();
    assert_eq!(acknowledged, FEW);
    let fault = trace(Role::UndurableFew).expect_err("the tracer takes anything for durable");
    assert!(fault.contains("not on the disk"), "{fault}");
}

/// Lets the writer acknowledge some batches, kills it, and returns the last `seq` it acknowledged.
pub(crate) fn kill_after(home: &Path, acks: u64) -> u64 {
    let mut child =
        Killed(command(Role::Writer, home, &[]).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let mut seqs = lines.by_ref().map_while(Result::ok).filter_map(|line| acknowledged(&line));
    let last =
        seqs.by_ref().nth(usize::try_from(acks).unwrap() - 1).expect("the writer ended early");
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    // Acknowledgements written before it died count, too.
    seqs.last().unwrap_or(last)
}

/// A child that does not outlive a failing test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn acknowledged(line: &str) -> Option<u64> {
    // The test harness prints the name of the test before the first line.
    line.rsplit_once("ack ")?.1.trim().parse().ok()
}

fn gapless(ledger: &dyn ReadLedger, stream: &str) -> u64 {
    let records = ledger.read_stream(&id(stream), 0).unwrap();
    assert!(records.iter().map(|r| r.version).eq(1..=records.len() as u64), "{stream} has a gap");
    records.len() as u64
}

pub(crate) fn run(mut command: Command) -> (bool, String) {
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

fn strace_is_there() -> bool {
    let there = Command::new("strace").arg("-V").output().is_ok_and(|o| o.status.success());
    assert!(there || !in_ci(), "strace is not installed");
    if !there {
        println!("not run: install strace to see that batches reach the disk");
    }
    there
}

/// Runs a role under strace. Returns the number of acknowledgements if each followed the sync of
/// its batch.
fn trace(role: Role) -> Result<u64, String> {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("trace");
    let calls = "trace=fdatasync,fsync,write,pwrite64,writev,pwritev";
    let under = ["strace", "-f", "-y", "-e", calls, "-o", log.to_str().unwrap()];
    let (ok, text) = run(command(role, &dir.path().join("home"), &under));
    assert!(ok, "{text}");
    check_trace(&fs::read_to_string(&log).unwrap())
}

/// Between two acknowledgements the write-ahead log is written and then synced, in this order.
fn check_trace(trace: &str) -> Result<u64, String> {
    let (mut written, mut on_disk, mut acknowledged) = (false, false, 0);
    for call in whole_calls(trace) {
        let to_wal = call.contains("ledger.db-wal>");
        if to_wal && call.contains("write") {
            (written, on_disk) = (true, false);
        } else if to_wal && call.contains("sync(") && call.ends_with("= 0") {
            on_disk = true;
        } else if call.contains("write(1<") && call.contains("ack ") {
            if !(written && on_disk) {
                return Err(format!("not on the disk when acknowledged: {call}"));
            }
            (written, on_disk) = (false, false);
            acknowledged += 1;
        }
    }
    Ok(acknowledged)
}

/// Joins calls that strace splits in two because another thread ran in between.
fn whole_calls(trace: &str) -> Vec<String> {
    let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let (pid, call) = line.split_once(' ').unwrap_or(("", line));
        let call = call.trim();
        if let Some(start) = call.strip_suffix("<unfinished ...>") {
            begun.insert(pid, start);
        } else if let Some((_, rest)) = call.split_once(" resumed>") {
            calls.push(format!("{}{rest}", begun.remove(pid).unwrap_or_default()));
        } else {
            calls.push(call.to_owned());
        }
    }
    calls
}
