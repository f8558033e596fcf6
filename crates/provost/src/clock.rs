//! The clock and the source of ids. No other module of the command line accesses them directly.

use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use provost_sys::clock;
use uuid::Uuid;

/// Returns the current time in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    i64::try_from(clock::wall_ms()).unwrap_or(i64::MAX)
}

/// Returns the time zone set by `TZ`, or else that of this machine.
pub(crate) fn local_zone() -> TimeZone {
    TimeZone::system()
}

/// Returns the deadline for a wait that starts now.
pub(crate) fn deadline_after(time: Duration) -> Instant {
    clock::now() + time
}

/// Returns the time left until a deadline, or zero if it has passed.
pub(crate) fn time_until(moment: Instant) -> Duration {
    moment.saturating_duration_since(clock::now())
}

/// Creates a random id, for a session or for an idempotency key.
#[expect(clippy::disallowed_methods, reason = "the command line creates ids")]
pub(crate) fn new_id() -> Uuid {
    Uuid::now_v7()
}

/// Sleeps between two attempts to reach a daemon.
#[expect(
    clippy::disallowed_methods,
    reason = "polls, because a daemon that is not running sends \
    no events"
)]
pub(crate) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_created_together_differ_at_both_ends_of_their_short_ids() {
        let ids: Vec<String> = (0..50).map(|_| new_id().simple().to_string()).collect();
        let distinct =
            |from: usize| ids.iter().map(|id| &id[from..from + 4]).collect::<BTreeSet<_>>().len();
        // Among 50 random groups of four digits, a few may be equal by chance.
        assert!(distinct(24) > 40 && distinct(28) > 40, "{ids:?}");
    }
}
