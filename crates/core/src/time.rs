//! Points in time. The core only compares them and never reads a clock.

use serde::{Deserialize, Serialize};

/// A point in time: the wall clock for display, and the monotonic clock for time windows.
///
/// `mono_ms` stops while the machine sleeps and never goes backwards, not even across restarts and
/// reboots, because the shell adds an offset after a reboot. All windows and deadlines are based on
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Moment {
    pub wall_ms: i64,
    pub mono_ms: u64,
}

impl Moment {
    /// Whether a window that started at `since` is over.
    pub fn is_past(self, since: Moment, window_ms: u64) -> bool {
        self.mono_ms >= since.deadline(window_ms)
    }

    /// Returns the end of a window that starts at this time, on the monotonic clock.
    pub fn deadline(self, window_ms: u64) -> u64 {
        self.mono_ms.saturating_add(window_ms)
    }
}
