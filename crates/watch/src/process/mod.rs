//! Information from the kernel about agents' processes, external ones included.
//!
//! A property that could not be read is reported as such, with the reason: "not visible" never
//! means "absent".

mod kind;
mod look;
mod stat;

pub use kind::{AgentKind, Basis, Family, Told, is_codex};
pub use look::{All, InTmux, Process, Seen, all, look, written};
pub use stat::{Identity, State, is_in_front, state};
