//! The clock and the source of ids, read here and nowhere else in the command line.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// Gives the milliseconds since the epoch.
#[expect(clippy::disallowed_methods, reason = "ages are shown against the wall clock")]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Gives the moment at which a wait of this length ends.
#[expect(clippy::disallowed_methods, reason = "a wait that a person bounds ends by the clock")]
pub(crate) fn after(time: Duration) -> Instant {
    Instant::now() + time
}

/// Gives how long it is until a moment; nothing once it has passed.
#[expect(clippy::disallowed_methods, reason = "a wait that a person bounds ends by the clock")]
pub(crate) fn until(moment: Instant) -> Duration {
    moment.saturating_duration_since(Instant::now())
}

/// Mints an id: of a session, or of one change that must happen once.
#[expect(clippy::disallowed_methods, reason = "the command line is where ids are minted")]
pub(crate) fn mint() -> Uuid {
    Uuid::now_v7()
}

/// Waits between two tries to reach a daemon.
#[expect(clippy::disallowed_methods, reason = "a daemon that is not there can send no event")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
