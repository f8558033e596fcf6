//! The clocks of the operating system.
//!
//! The core takes time as an input. Adapters read it here, so that there is one place to look at.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Returns the current time, to measure how long something outside takes.
#[expect(clippy::disallowed_methods, reason = "the only reader of this clock")]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns milliseconds since the Unix epoch.
pub fn wall_ms() -> u64 {
    millis(ClockId::Realtime)
}

/// Returns milliseconds on the monotonic clock, which stops while the machine sleeps and restarts
/// at each boot.
pub fn mono_ms() -> u64 {
    millis(ClockId::Monotonic)
}

fn millis(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}
