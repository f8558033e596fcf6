//! Bounded waiting: the only place in the test kit that reads a clock or sleeps.

use std::time::{Duration, Instant};

/// The time at which a wait times out.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `wait` from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "waits of tests and of the scripted agent are bounded by real time"
    )]
    pub fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    /// Returns the time until the deadline, or zero once it has passed.
    #[expect(
        clippy::disallowed_methods,
        reason = "waits of tests and of the scripted agent are bounded by real time"
    )]
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Whether the deadline has passed.
    pub fn passed(self) -> bool {
        self.left().is_zero()
    }
}

/// Sleeps between two polls of a condition, or for a scripted delay.
#[expect(
    clippy::disallowed_methods,
    reason = "a poll interval or a scripted delay, never the condition itself"
)]
pub(crate) fn pause(pause: Duration) {
    std::thread::sleep(pause);
}
