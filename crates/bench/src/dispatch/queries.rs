//! `team loop status`, `search`, `audit` and `replay` with few and with many teams.

use std::process::Command;

use anyhow::Result;

use super::fill;
use crate::{
    append,
    daemon::BenchDaemon,
    listing::run_once,
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

const FEW: u64 = 200;
const MANY: u64 = 10_000;
const RUNS: usize = 60;

/// Time limit of each command, in milliseconds.
const GOAL: f64 = 20.0;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let many = large_count();
    let (small, large) = (daemon_with_teams(table, FEW)?, daemon_with_teams(table, many)?);
    for what in ["team loop status", "search", "audit", "replay"] {
        let (mut bare, mut few, mut all) =
            (Sample::default(), Sample::default(), Sample::default());
        for _ in 0..RUNS {
            bare.add_ms(run_once(&mut Command::new("true"))?);
            few.add_ms(run_once(&mut small.command(&command_args(what, FEW))?)?);
            all.add_ms(run_once(&mut large.command(&command_args(what, many))?)?);
        }
        let (less, more) = (few.median() - bare.median(), all.median() - bare.median());
        let named = format!("`{what}` above `true`, {many} teams");
        table.row(&named, more, " ms", Goal::AtMost(GOAL), &all.spread(" ms"));
        let named = format!("the same against {FEW} teams, for an answer of the same size");
        table.row(&named, more / less, "×", Goal::AtMost(2.0), &few.spread(" ms"));
    }
    Ok(())
}

/// Returns the command line for a team in the middle, or for an open team for `team loop status`.
fn command_args(what: &str, tasks: u64) -> Vec<&'static str> {
    let (middle, open) = (fill::name(tasks / 2), fill::name(tasks - 1));
    let text = match what {
        "team loop status" => format!("team loop status -t {open} --json"),
        "search" => "search harbours begin --limit 10 --json".to_owned(),
        "audit" => format!("audit {middle} --json"),
        _ => format!("replay {middle} --as timeline --json"),
    };
    // Leaking the texts is acceptable, because there are only a few short ones.
    Box::leak(text.into_boxed_str()).split(' ').collect()
}

fn daemon_with_teams(table: &FigureTable, tasks: u64) -> Result<BenchDaemon> {
    let home = BenchDaemon::home()?;
    let (events, took) = time(|| -> Result<u64> {
        let mut ledger = crate::fill::open(&home.path().join("ledger"))?;
        fill::write_teams(&mut ledger, tasks)?;
        append::events(&ledger)
    });
    let (events, seconds) = (events?, took.as_secs_f64());
    table.progress(&format!("  {tasks} teams with {events} events written in {seconds:.0} s"));
    home.start()?;
    Ok(home)
}

/// Returns the large number of teams. The environment can reduce it, to try the benchmark itself.
#[expect(clippy::disallowed_methods, reason = "read once, for trying the benchmark")]
fn large_count() -> u64 {
    let variable = std::env::var("PROVOST_BENCH_TASKS").ok();
    variable.and_then(|variable| variable.parse().ok()).unwrap_or(MANY)
}
