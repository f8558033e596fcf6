//! Provost supervises coding agents: the command line, the daemon and the holder are this one program.

mod cli;
mod clock;
mod codex;
mod commands;
mod context;
mod daemon;
mod environment;
mod error;
mod follow;
mod home;
mod settings;
mod target;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
