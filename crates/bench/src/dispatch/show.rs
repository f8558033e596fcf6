//! `team overview` and `team show` of a team with a short and with a long history.

use std::process::Command;

use anyhow::{Result, ensure};

use super::fill;
use crate::{
    append,
    daemon::BenchDaemon,
    listing::run_once,
    table::{FigureTable, Goal},
    timing::{Sample, time},
};

/// The number of messages that the team's worker has handled. Each of them takes four events.
const FEW: u64 = 100;
const MANY: u64 = 10_000;
const RUNS: usize = 60;

/// Time limit of each command, in milliseconds.
const GOAL: f64 = 20.0;

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let (short, few) = daemon_with_team(table, FEW)?;
    let (long, many) = daemon_with_team(table, MANY)?;
    for what in ["overview", "show"] {
        let name = fill::name(0);
        let args = ["team", what, name.as_str(), "--json"];
        let (mut bare, mut less, mut more) =
            (Sample::default(), Sample::default(), Sample::default());
        for _ in 0..RUNS {
            bare.add_ms(run_once(&mut Command::new("true"))?);
            less.add_ms(run_once(&mut short.command(&args)?)?);
            more.add_ms(run_once(&mut long.command(&args)?)?);
        }
        let (small, large) = (less.median() - bare.median(), more.median() - bare.median());
        let named = format!("`team {what}` above `true`, one team with {many} events");
        table.row(&named, large, " ms", Goal::AtMost(GOAL), &more.spread(" ms"));
        let named = format!("the same `team {what}` against a team with {few} events");
        table.row(&named, large / small, "×", Goal::AtMost(2.0), &less.spread(" ms"));
    }
    Ok(())
}

/// Starts a daemon with one open team. Returns it with the number of the team's events.
fn daemon_with_team(table: &FigureTable, messages: u64) -> Result<(BenchDaemon, u64)> {
    let home = BenchDaemon::home()?;
    let (events, took) = time(|| -> Result<u64> {
        let mut ledger = crate::fill::open(&home.path().join("ledger"))?;
        fill::write_long_team(&mut ledger, messages)?;
        append::events(&ledger)
    });
    let (events, seconds) = (events?, took.as_secs_f64());
    ensure!(events >= 4 * messages, "the team has only {events} events");
    table.progress(&format!("  a team with {events} events written in {seconds:.0} s"));
    home.start()?;
    Ok((home, events))
}
