//! Real Codex under Provost compared with bare app-server clients with the same scripted model: the
//! cost of a turn, event latency, and the resources of twenty concurrent sessions.

mod delay;
mod env;
mod many;
mod turn;
mod websocket;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub(crate) use env::CodexBenchEnv;

use crate::table::FigureTable;

/// Measures a supervised one-turn job compared with a bare client.
pub(crate) fn turn(table: &mut FigureTable) -> Result<()> {
    with_codex(table, turn::run)
}

/// Measures the delay of each event compared with a bare reader.
pub(crate) fn delay(table: &mut FigureTable) -> Result<()> {
    with_codex(table, delay::run)
}

/// Measures twenty concurrent sessions.
pub(crate) fn many(table: &mut FigureTable) -> Result<()> {
    with_codex(table, many::run)
}

/// Runs a measurement with the Codex that `cargo xtask bench` provides, or reports that the
/// measurement is skipped.
pub(crate) fn with_codex(
    table: &mut FigureTable,
    run: fn(&mut FigureTable, &Path) -> Result<()>,
) -> Result<()> {
    match program() {
        Some(codex) => run(table, &codex),
        None => {
            table.progress("  Codex is not installed: skipped");
            Ok(())
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask names the program, read once")]
fn program() -> Option<PathBuf> {
    std::env::var_os("PROVOST_CODEX").map(PathBuf::from)
}
