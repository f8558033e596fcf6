//! The command line as its users meet it: usage and refusals, where no daemon is needed, and what is shown.

mod codex;
mod config;
mod kit;
mod refusals;
mod shown;
mod usage;
