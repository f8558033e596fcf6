//! The holder's clocks, read in one place.
//!
//! Time spans are measured on the monotonic clock, which on Linux stops while the machine sleeps.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Returns milliseconds on the monotonic clock.
pub(crate) fn mono_ms() -> u64 {
    millis(clock_gettime(ClockId::Monotonic))
}

/// Returns milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    millis(clock_gettime(ClockId::Realtime))
}

/// Converts milliseconds to the form that `poll` expects.
pub(crate) fn timespec(ms: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    }
}

fn millis(time: Timespec) -> u64 {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1000 + nanos / 1_000_000
}
