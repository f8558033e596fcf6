//! Runs: real Codex takes a goal through its stages to an outcome.

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
