//! The command line for users: usage errors and refusals that need no daemon, and the output.

mod codex;
mod config;
mod display;
mod help;
mod kit;
mod refusals;
mod usage;
