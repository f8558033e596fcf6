//! `ls` and the daemon's start, with few and with many recorded sessions.

use std::process::{Command, Stdio};

use anyhow::Result;

use crate::{
    daemon::BenchDaemon,
    fill,
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

/// The large number of recorded sessions.
pub(crate) const MANY: u64 = 100_000;
const RUNS: usize = 120;
/// The number of daemon starts.
const STARTS: usize = 9;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let (few, many) = (BenchDaemon::home()?, BenchDaemon::home()?);
    let (filled, took) = time(|| -> Result<()> {
        let mut ledger = fill::open(&many.path().join("ledger"))?;
        fill::write_ended_sessions(&mut ledger, MANY)
    });
    filled?;
    table.progress(&format!("  {MANY} sessions written in {:.0} s", took.as_secs_f64()));
    few.start()?;
    starts(table, &many)?;
    let (mut bare, mut empty, mut full) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..RUNS {
        bare.add_ms(run_once(&mut Command::new("true"))?);
        empty.add_ms(run_once(&mut few.command(&["ls", "--json"])?)?);
        full.add_ms(run_once(&mut many.command(&["ls", "--json"])?)?);
    }
    let (empty_over, full_over) = (empty.median() - bare.median(), full.median() - bare.median());
    table.row(
        "`ls --json` above `true`, no sessions",
        empty_over,
        " ms",
        Goal::AtMost(5.0),
        &empty.spread(" ms"),
    );
    table.row(
        "`ls --json` above `true`, 100,000 sessions",
        full_over,
        " ms",
        Goal::None,
        &full.spread(" ms"),
    );
    table.row(
        "the latter against the former",
        full_over / empty_over,
        "×",
        Goal::AtMost(2.0),
        "medians above",
    );
    let (all, took) = time(|| many.run(&["ls", "--all", "--json"]));
    let bytes = all?.stdout.len();
    table.row(
        "`ls --all --json`, 100,000 sessions",
        took.as_secs_f64(),
        " s",
        Goal::None,
        &format!("{} MB streamed", bytes >> 20),
    );
    crate::memory::idle(table, &many)
}

/// Starts the daemon several times and measures each start. The last daemon keeps running.
fn starts(table: &mut FigureTable, many: &BenchDaemon) -> Result<()> {
    let mut starts = Sample::default();
    for n in 0..STARTS {
        let (started, took) = time(|| many.start());
        started?;
        starts.add(took.as_secs_f64());
        if n + 1 < STARTS {
            many.run(&["daemon", "stop"])?;
        }
    }
    table.row(
        "daemon start to first answer, 100,000 sessions",
        starts.median(),
        " s",
        Goal::AtMost(1.0),
        &format!("`ls` included; {}", starts.spread(" s")),
    );
    Ok(())
}

/// Runs a command to completion and returns its duration.
pub(crate) fn run_once(command: &mut Command) -> Result<std::time::Duration> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (status, took) = time(|| command.status());
    anyhow::ensure!(status?.success(), "{command:?} failed");
    Ok(took)
}
