//! The holder: one small process per outside command.
//!
//! It is the parent of the command, journals its output and input, keeps its exit status, ends its
//! whole process tree and outlives the daemon. The launch directory is the effect's key: it is created
//! exclusively, so that a launch cannot happen twice.
//!
//! A command speaks on pipes, through a connection to the socket that it listens on ([`Relay`]), or in a terminal of
//! its own ([`Tty`]). People look at that terminal and type there through viewports ([`client::viewport`]): any
//! number of them, each with its own pace. The terminal lives as long as the holder, so that to open a viewport, to
//! close or to kill it means nothing to the command. All of them see one size, the one that was set last.

pub mod client;
mod clock;
pub mod hold;
pub mod journal;
pub mod launch_dir;
pub mod record;
pub mod spec;
pub mod tree;
pub mod wire;

pub use client::{Link, Started, start};
pub use hold::{EXIT_ALREADY, hold};
pub use launch_dir::{Looked, look};
pub use provost_sys::process::Identity;
pub use record::{End, EndedBy, ExitRecord, Gone, Held};
pub use spec::{Door, HoldSpec, OnLimit, Relay, StdinMode, Tty};
