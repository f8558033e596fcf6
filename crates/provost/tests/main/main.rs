//! The command line as users meet it: usage errors and refusals that need no daemon, and the output.

mod codex;
mod config;
mod display;
mod help;
mod kit;
mod refusals;
mod usage;
