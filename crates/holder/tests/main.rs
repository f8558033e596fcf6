//! The holder with real processes, pipes, sockets and files.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod disk;
mod ending;
mod input;
mod kit;
mod launch_state;
mod output;
mod relay;
mod relay_codex;
mod relay_env;
mod resources;
mod sandbox;
mod socket;
mod starting;
mod terminal;
mod viewport;
