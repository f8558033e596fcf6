//! A rollout of hundreds of megabytes is read in constant memory. It is not read while nothing is
//! appended.

use std::{
    fs::{self, File, OpenOptions},
    io::{BufWriter, Write},
    path::Path,
};

use provost_agent_codex::rollout::{
    NextLine, RolloutEvent, RolloutFileWatch, RolloutFold, RolloutTail,
};

/// Total size of the lines with common lengths.
const LINES: usize = 121 << 20;
/// Length of one long line, which is a hole in the file except for its ends.
const LONG: u64 = 80 << 20;
/// Memory limit for reading.
const MEMORY_KIB: u64 = 16 << 10;

const META: &str = r#"{"timestamp":"T","ordinal":0,"type":"session_meta","payload":{"id":"01a1e08b-614a-7c61-a49a-d6ec86726bf8","cli_version":"0.166.0"}}"#;
const STARTED: &str =
    r#"{"timestamp":"T","type":"event_msg","payload":{"type":"task_started","turn_id":"t"}}"#;
const ENDED: &str =
    r#"{"timestamp":"T","type":"event_msg","payload":{"type":"task_complete","turn_id":"t"}}"#;
const LIFE: &str = r#"{"timestamp":"2026-11-16T10:00:00.000Z","ordinal":9,"type":"response_item","payload":{"type":"message","text":""#;

/// Returns a block of activity lines, short and long.
fn block() -> Vec<u8> {
    let mut block = Vec::new();
    for length in [40, 300, 2_000, 900, 20_000, 120, 7_000] {
        let text = "task_complete turn_aborted ".repeat(length / 27 + 1);
        writeln!(block, "{LIFE}{text}\"}}}}").unwrap();
    }
    block
}

/// Writes the start of a turn and many lines.
fn write(to: impl Write) {
    let mut to = BufWriter::new(to);
    let block = block();
    writeln!(to, "{META}\n{STARTED}").unwrap();
    for _ in 0..LINES / block.len() {
        to.write_all(&block).unwrap();
    }
    to.flush().unwrap();
}

/// Appends one line that is almost entirely a hole, and the end of the turn.
fn append_turn_end(path: &Path) {
    let mut file = OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(LIFE.as_bytes()).unwrap();
    file.set_len(file.metadata().unwrap().len() + LONG).unwrap();
    write!(file, "\n{ENDED}\n").unwrap();
}

/// Returns the peak memory of this process since its last reset.
fn peak_kib() -> u64 {
    field("VmHWM:")
}

fn field(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

/// Reads a file to its end. Returns its events without the activity events, and the number of
/// those.
fn read_events(tail: &mut RolloutTail) -> (Vec<RolloutEvent>, usize) {
    let (mut fold, mut found, mut alive) = (RolloutFold::new(), Vec::new(), 0);
    while let NextLine::Line(line) = tail.next_line().unwrap() {
        fold.line(&line, |event| {
            if event == RolloutEvent::Alive {
                alive += 1;
            } else {
                found.push(event);
            }
        });
    }
    (found, alive)
}

/// Reads the file and checks the memory used.
fn assert_bounded_memory(path: &Path, long_lines: usize) {
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = field("VmRSS:");
    let mut tail = RolloutTail::open(path, 0).unwrap();
    let (found, alive) = read_events(&mut tail);
    let took = peak_kib().saturating_sub(before);
    assert!(took <= MEMORY_KIB, "{took} KiB");
    assert_eq!(alive, LINES / block().len() * 7 + long_lines);
    let [
        RolloutEvent::Session(_),
        RolloutEvent::TurnStarted { .. },
        RolloutEvent::TurnEnded { .. },
    ] = found.as_slice()
    else {
        panic!("{found:?}")
    };
}

#[test]
fn large_rollout_is_read_in_constant_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rollout.jsonl");
    write(File::create(&path).unwrap());
    append_turn_end(&path);
    assert!(fs::metadata(&path).unwrap().len() > 200 << 20);
    let mut watch = RolloutFileWatch::file(&path).unwrap();
    assert_bounded_memory(&path, 1);
    assert!(!watch.drain_events().unwrap(), "a read does not trigger another read");
}

#[test]
fn compressed_rollout_uses_constant_memory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("rollout.jsonl.zst");
    let mut encoder = zstd::Encoder::new(File::create(&path).unwrap(), 1).unwrap();
    write(&mut encoder);
    writeln!(encoder, "{ENDED}").unwrap();
    encoder.finish().unwrap();
    assert_bounded_memory(&path, 0);
}
