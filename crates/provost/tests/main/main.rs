//! The command line for users: usage errors and refusals that need no daemon, and the output.

mod cli_env;
mod codex;
mod config;
mod display;
mod help;
mod refusals;
mod usage;
