//! Runs: a goal taken through its stages to an outcome, by the real Codex.

mod cancelled;
mod kit;
mod refused;
mod unattended;
mod whole;
