//! Bounded waiting: the one place of the test kit that reads a clock or sleeps.

use std::time::{Duration, Instant};

/// A moment after which a wait gives up.
#[derive(Debug, Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    /// The moment `wait` from now.
    #[expect(
        clippy::disallowed_methods,
        reason = "waits of tests and of the scripted agent are bounded by real time"
    )]
    pub fn after(wait: Duration) -> Self {
        Self(Instant::now() + wait)
    }

    /// What is left until the deadline; zero once it has passed.
    #[expect(
        clippy::disallowed_methods,
        reason = "waits of tests and of the scripted agent are bounded by real time"
    )]
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    /// Tells whether the deadline has passed.
    pub fn passed(self) -> bool {
        self.left().is_zero()
    }
}

/// Sleeps between two looks at a condition, or where a scenario asks for it.
#[expect(
    clippy::disallowed_methods,
    reason = "a pause between looks, or a scripted delay; never the condition itself"
)]
pub(crate) fn pause(pause: Duration) {
    std::thread::sleep(pause);
}
