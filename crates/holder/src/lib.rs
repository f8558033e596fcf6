//! The holder: one small process per external command.
//!
//! It is the command's parent, journals its output and input, keeps its exit status, ends its whole
//! process tree, and outlives the daemon. The launch directory serves as the idempotency key of the
//! launch: it is created exclusively, so a launch cannot happen twice.
//!
//! A command communicates over pipes, over a connection to its listening socket ([`Relay`]), or
//! through its own terminal ([`Tty`]). Users watch that terminal and type into it through any
//! number of viewports ([`client::viewport`]), each of which reads at its own speed. The terminal
//! lives as long as the holder, so opening, closing or killing a viewport does not affect the
//! command. All viewports share the terminal size that was set last.

pub mod client;
mod clock;
pub mod hold;
pub mod journal;
pub mod launch_dir;
pub mod record;
pub mod spec;
pub mod tree;
pub mod wire;

pub use client::{HolderLink, StartedHolder, start};
pub use hold::{EXIT_ALREADY, hold};
pub use launch_dir::{LaunchState, inspect};
pub use provost_sys::process::ProcessInstance;
pub use record::{EndCause, ExitRecord, GoneRecord, HeldRecord, ProcessEnd};
pub use spec::{HoldSpec, OnLimit, Relay, RelayListener, StdinMode, Tty};
