//! Watches agents beside their protocol: the files in which they write themselves down, their terminals, and the
//! processes that others started.

mod adopted;
mod hints;
mod hooks;
mod others;
mod polled;
mod records;
mod rollout;

pub(crate) use adopted::Adopted;
pub(crate) use hints::{Guess, Hints};
pub use hooks::take;
pub use others::Moves;
pub(crate) use polled::polled;
pub(crate) use rollout::{RolloutWatch, Wanted};
