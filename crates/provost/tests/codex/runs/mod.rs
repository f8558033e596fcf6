//! Runs: a goal taken through its stages to an outcome, by the real Codex.

mod cancelled;
mod crash;
mod graph;
mod kit;
mod landed;
mod permitted;
mod planned;
mod pulled;
mod refused;
mod repaired;
mod unattended;
mod whole;
