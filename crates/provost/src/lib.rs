//! Provost supervises coding agents. This single program is the command line, the daemon and the
//! holder.
//!
//! The library contains the whole program except for additional adapters. Another program can use the library to add
//! agents, as `crates/toy-agent` does.

mod adapters;
mod cli;
mod clock;
mod commands;
mod commit_trust;
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

use std::{process::ExitCode, sync::Arc};

use provost_agent::Adapter;

/// Runs the program with the arguments of this process. `more` are adapters in addition to those of
/// this build.
pub fn main(more: impl IntoIterator<Item = Arc<dyn Adapter>>) -> ExitCode {
    adapters::install(more);
    set_inherited_fds_cloexec();
    cli::main()
}

/// The first file descriptor after the standard streams.
const FIRST_INHERITED_FD: i32 = 3;

/// Sets CLOEXEC on file descriptors inherited from the caller (locks, pipes, sockets), so that
/// child processes do not inherit them. This must run before anything is started. Otherwise a
/// daemon, holder or agent could hold one of the caller's locks for days.
fn set_inherited_fds_cloexec() {
    close_fds::set_fds_cloexec(FIRST_INHERITED_FD, &[]);
}
