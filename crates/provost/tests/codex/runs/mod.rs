//! Runs: a goal taken through its stages to an outcome, by the real Codex.

mod kit;
mod whole;
