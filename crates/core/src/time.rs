//! Moments in time. The core compares them and never reads a clock.

use serde::{Deserialize, Serialize};

/// An instant: the wall clock for display, the monotonic clock for windows.
///
/// `mono_ms` stops while the machine sleeps and never goes backwards, not even across restarts and
/// reboots (the shell adds an offset at a new boot). Every window and deadline is measured on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moment {
    pub wall_ms: i64,
    pub mono_ms: u64,
}

impl Moment {
    /// Whether a window that began at `since` is over.
    pub fn is_past(self, since: Moment, window_ms: u64) -> bool {
        self.mono_ms >= since.deadline(window_ms)
    }

    /// Returns the monotonic deadline of a window that begins now.
    pub fn deadline(self, window_ms: u64) -> u64 {
        self.mono_ms.saturating_add(window_ms)
    }
}
