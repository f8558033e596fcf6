//! Private memory of an idle daemon, of a live session in it, and of a holder.

use anyhow::{Context, Result};

use crate::{
    daemon::{BenchDaemon, private_kib},
    table::{FigureTable, Goal},
    timing::Sample,
};

const SESSIONS: usize = 100;

/// Measures an idle daemon.
pub(crate) fn idle(table: &mut FigureTable, daemon: &BenchDaemon) -> Result<()> {
    let (dirty, clean) = private_kib(daemon.pid()?)?;
    let from = format!(
        "private dirty {:.1} MB, private clean {:.1} MB (the program itself)",
        dirty / 1024.0,
        clean / 1024.0
    );
    table.row(
        "idle daemon, 100,000 sessions, private memory",
        (dirty + clean) / 1024.0,
        " MB",
        Goal::AtMost(20.0),
        &from,
    );
    Ok(())
}

pub(crate) fn run(table: &mut FigureTable) -> Result<()> {
    let daemon = BenchDaemon::home()?;
    daemon.start()?;
    daemon.open_idle_sessions(10)?;
    let (before, _) = private_kib(daemon.pid()?)?;
    daemon.open_more_idle_sessions(10, SESSIONS)?;
    let (after, _) = private_kib(daemon.pid()?)?;
    let each = (after - before) / SESSIONS as f64;
    table.row(
        "a live session in the daemon, private memory",
        each,
        " KB",
        Goal::AtMost(100.0),
        &format!("{SESSIONS} more sessions, {before:.0} to {after:.0} KB"),
    );
    let (mut dirty, mut all) = (Sample::default(), Sample::default());
    for pid in daemon.holders()? {
        let (own, clean) = private_kib(pid).context("cannot read a holder's memory")?;
        dirty.add(own / 1024.0);
        all.add((own + clean) / 1024.0);
    }
    table.row(
        "a holder, private memory",
        all.median(),
        " MB",
        Goal::AtMost(2.0),
        &format!("dirty alone: {}", dirty.spread(" MB")),
    );
    Ok(())
}
