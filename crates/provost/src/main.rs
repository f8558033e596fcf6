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
mod trust;
mod ui;
mod viewport;

use std::process::ExitCode;

fn main() -> ExitCode {
    keep_what_was_inherited();
    cli::main()
}

/// The first descriptor that is none of the standard streams.
const FIRST_OF_THE_CALLER: i32 = 3;

/// Keeps descriptors of the caller (locks, pipes, sockets) from all that this program starts. First of all, before
/// it starts anything: a daemon, a holder or an agent that had them would hold a caller's lock for days.
fn keep_what_was_inherited() {
    close_fds::set_fds_cloexec(FIRST_OF_THE_CALLER, &[]);
}
