//! What the kernel tells about agents' processes, those of others included.
//!
//! What could not be seen is told as such, with the reason: "not seen" is never "not there".

mod kind;
mod look;
mod stat;

pub use kind::{AgentKind, Basis, Family, Told, is_codex};
pub use look::{All, InTmux, Process, Seen, all, look, written};
pub use stat::{Identity, State, is_in_front, state};
