//! Watches agents beside their protocol: their transcripts, their terminals, and the processes of
//! external agents.

mod adopted;
mod hints;
mod hooks;
mod others;
mod polled;
mod records;
mod rollout;

pub(crate) use adopted::{Adopted, WatchContext};
pub(crate) use hints::{Guess, Hints};
pub use hooks::take;
pub use others::Moves;
pub(crate) use polled::polled;
pub(crate) use rollout::{RolloutWatch, Wanted};
