//! The holder's clocks.
//!
//! Time spans are measured on the monotonic clock, which on Linux stops while the machine sleeps.

pub(crate) use provost_sys::clock::{mono_ms, wall_ms};
use rustix::time::Timespec;

/// Converts milliseconds to the form that `poll` expects.
pub(crate) fn timespec(ms: u64) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ms % 1000 * 1_000_000).unwrap_or(0),
    }
}
