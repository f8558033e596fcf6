//! Reading a 1 GB rollout, compared with a bare scan of its lines, and the resources that the
//! daemon needs for it.

use std::{
    fs::{self, File},
    hint::black_box,
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use provost_agent_codex::rollout::{NextLine, RolloutFold, RolloutTail};

use super::{Size, size};
use crate::{
    daemon::BenchDaemon,
    event_follower::BenchEventFollower,
    table::{FigureTable, Goal},
    timing::{Sample, time},
    wakeups,
};

/// Read size of the bare scan.
const BLOCK: usize = 128 << 10;
const THREAD: &str = "01a1e08b-614a-7c61-a49a-d6ec86726bf8";

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let size = size();
    let place = tempfile::Builder::new().prefix("pbw").tempdir()?;
    let rollout = write(place.path(), size)?;
    scan(table, &rollout, size)?;
    adopt(table, &rollout)
}

/// Writes lines as they occur in real conversations. Only the first two lines have to be parsed.
fn write(place: &Path, size: Size) -> Result<PathBuf> {
    let path = place.join(format!("rollout-2026-11-16T10-00-00-{THREAD}.jsonl"));
    let mut file = BufWriter::new(File::create(&path)?);
    let at = r#""timestamp":"2026-11-16T10:00:00.000Z""#;
    let cwd = place.display();
    writeln!(
        file,
        r#"{{{at},"type":"session_meta","payload":{{"id":"{THREAD}","cwd":"{cwd}","cli_version":"0.166.0"}}}}"#
    )?;
    writeln!(
        file,
        r#"{{{at},"type":"event_msg","payload":{{"type":"task_started","turn_id":"t"}}}}"#
    )?;
    let mut block = Vec::new();
    for length in [40, 300, 2_000, 900, 20_000, 120, 7_000, 600] {
        let text = "Some words of an agent. ".repeat(length / 24 + 1);
        writeln!(
            block,
            r#"{{{at},"ordinal":9,"type":"response_item","payload":{{"type":"message","text":"{text}"}}}}"#
        )?;
    }
    for _ in 0..size.bytes / block.len() {
        file.write_all(&block)?;
    }
    file.flush()?;
    Ok(path)
}

/// Reads the file alternately with and without interpreting its lines.
fn scan(table: &mut FigureTable, rollout: &Path, size: Size) -> Result<()> {
    // The first read warms the page cache.
    let lines = scan_lines(rollout)?;
    let (mut ratio, mut rate) = (Sample::default(), Sample::default());
    let megabytes = size.bytes as f64 / f64::from(1 << 20);
    for _ in 0..size.rounds {
        let (counted, bare) = time(|| scan_lines(rollout));
        let (parsed, watched) = time(|| parse_lines(rollout));
        ensure!(counted? == lines && parsed? == lines, "the two scans counted different lines");
        ratio.add(bare.as_secs_f64() / watched.as_secs_f64());
        rate.add(megabytes / watched.as_secs_f64());
    }
    table.row(
        &format!("a rollout of {megabytes} MB whose lines need no parsing, against a bare scan of its lines"),
        ratio.median(),
        "×",
        Goal::AtLeast(0.7),
        &format!("{}; {:.0} MB/s", ratio.spread("×"), rate.median()),
    );
    Ok(())
}

/// Finds the end of every line.
fn scan_lines(rollout: &Path) -> Result<usize> {
    let (mut file, mut block, mut lines) = (File::open(rollout)?, vec![0; BLOCK], 0);
    loop {
        let read = file.read(&mut block)?;
        if read == 0 {
            return Ok(lines);
        }
        for end in memchr::memchr_iter(b'\n', &block[..read]) {
            black_box(end);
            lines += 1;
        }
    }
}

/// Interprets every line.
fn parse_lines(rollout: &Path) -> Result<usize> {
    let (mut tail, mut fold, mut lines) = (RolloutTail::open(rollout, 0)?, RolloutFold::new(), 0);
    while let NextLine::Line(line) = tail.next_line()? {
        fold.line(&line, |event| drop(black_box(event)));
        lines += 1;
    }
    Ok(lines)
}

/// Adopts the same file in a daemon, as the rollout of an external agent.
fn adopt(table: &mut FigureTable, rollout: &Path) -> Result<()> {
    let daemon = BenchDaemon::home()?;
    daemon.start()?;
    let pid = daemon.pid()?;
    let mut happenings = BenchEventFollower::from_now(&daemon)?;
    let before = peak_kib(pid)?;
    let (result, took) = time(|| {
        daemon.run(&["adopt", "--rollout", &rollout.display().to_string(), "--json"])?;
        happenings.wait_for("turn.started", 1)
    });
    result?;
    table.row(
        "additional memory of a daemon that reads it",
        (peak_kib(pid)? - before) / 1024.0,
        " MB",
        Goal::AtMost(16.0),
        &format!("peak; `provost adopt` until its open turn: {:.2} s", took.as_secs_f64()),
    );
    let calls = wakeups::count_idle_system_calls(pid)?;
    table.row(
        "system calls of that daemon in 30 s without an addition to it",
        calls as f64,
        "",
        Goal::AtMost(wakeups::MAX_IDLE_CALLS),
        "strace; a round of the watchdog, every 30 s, takes 16 to 18 of them",
    );
    Ok(())
}

fn peak_kib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let figure = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmHWM line")?;
    Ok(figure.parse()?)
}
