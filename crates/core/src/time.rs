//! Moments. The core compares them and never asks for one.

use serde::{Deserialize, Serialize};

/// An instant as the shell saw it: the wall clock for people, the monotonic clock for windows.
///
/// `mono_ms` does not run while the machine sleeps and never goes back, across restarts and reboots too
/// (the shell adds an offset at a new boot), so every window and deadline is measured on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moment {
    pub wall_ms: i64,
    pub mono_ms: u64,
}

impl Moment {
    /// Says whether a window that began at `since` is over.
    pub fn is_past(self, since: Moment, window_ms: u64) -> bool {
        self.mono_ms >= since.deadline(window_ms)
    }

    /// Gives the monotonic deadline of a window that begins here.
    pub fn deadline(self, window_ms: u64) -> u64 {
        self.mono_ms.saturating_add(window_ms)
    }
}
