//! Real Codex under Provost against bare clients of its app-server, with the same scripted model: what a turn
//! costs, how late events are, and what twenty sessions at once take.

mod delay;
mod many;
mod scene;
mod turn;
mod websocket;

use std::path::{Path, PathBuf};

use anyhow::Result;

pub(crate) use scene::Scene;

use crate::table::Table;

/// A supervised job of one turn against a bare client.
pub(crate) fn turn(table: &mut Table) -> Result<()> {
    with_codex(table, turn::run)
}

/// Each event's delay against a bare reader.
pub(crate) fn delay(table: &mut Table) -> Result<()> {
    with_codex(table, delay::run)
}

/// Twenty sessions at once.
pub(crate) fn many(table: &mut Table) -> Result<()> {
    with_codex(table, many::run)
}

/// Measures with the Codex that `cargo xtask bench` names; without one it says so.
pub(crate) fn with_codex(
    table: &mut Table,
    run: fn(&mut Table, &Path) -> Result<()>,
) -> Result<()> {
    match program() {
        Some(codex) => run(table, &codex),
        None => {
            table.say("  Codex is not here: left out");
            Ok(())
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "xtask names the program, read once")]
fn program() -> Option<PathBuf> {
    std::env::var_os("PROVOST_CODEX").map(PathBuf::from)
}
