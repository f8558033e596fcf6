//! The holder: one small process per outside command.
//!
//! It is the parent of the command, journals its output and input, keeps its exit status, ends its
//! whole process tree and outlives the daemon. The launch directory is the effect's key: it is created
//! exclusively, so that a launch cannot happen twice.

pub mod client;
mod clock;
pub mod hold;
pub mod identity;
pub mod journal;
pub mod launch_dir;
pub mod origin;
pub mod record;
pub mod spec;
pub mod tree;
pub mod wire;

pub use client::{Link, Started, start};
pub use hold::{EXIT_ALREADY, hold};
pub use identity::Identity;
pub use launch_dir::{Looked, look};
pub use record::{End, EndedBy, ExitRecord, Gone, Held};
pub use spec::{Door, HoldSpec, OnLimit, Relay, StdinMode, Tty};
