//! Bounded waits for a condition. A timeout reports the last observation.

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::clock::{Deadline, pause};

/// The default time limit of a wait. `PROVOST_TEST_WAIT_S` overrides it.
const DEFAULT_WAIT: Duration = Duration::from_secs(60);
/// The first poll interval. It doubles up to the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// One check of a condition. It returns a value, or an optional observation if the condition does
/// not hold yet.
pub trait Probe {
    type Value;

    /// Returns the value, or else the observation.
    fn check(self) -> Result<Self::Value, Option<String>>;
}

impl<T> Probe for Option<T> {
    type Value = T;

    fn check(self) -> Result<T, Option<String>> {
        self.ok_or(None)
    }
}

impl<T, E: Debug> Probe for Result<T, E> {
    type Value = T;

    fn check(self) -> Result<T, Option<String>> {
        self.map_err(|seen| Some(format!("{seen:?}")))
    }
}

/// Returns the content of a file once it is not empty, because a shell creates a file before it
/// writes to it.
pub fn read_nonempty(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().filter(|text| !text.is_empty())
}

/// Polls until the probe returns a value. Fails the test after the default time limit.
#[track_caller]
pub fn eventually<P: Probe>(what: &str, probe: impl FnMut() -> P) -> P::Value {
    eventually_within(default_wait(), what, probe)
}

/// Polls until the probe returns a value. Fails the test after `wait`.
#[track_caller]
pub fn eventually_within<P: Probe>(
    wait: Duration,
    what: &str,
    mut probe: impl FnMut() -> P,
) -> P::Value {
    match poll_until(Deadline::after(wait), &mut probe) {
        Ok(found) => found,
        Err(None) => panic!("timed out after {wait:?}: {what}"),
        Err(Some(seen)) => panic!("timed out after {wait:?}: {what}; last seen: {seen}"),
    }
}

/// Polls until the probe returns a value or the deadline has passed. In the latter case, returns
/// the last observation.
pub(super) fn poll_until<P: Probe>(
    deadline: Deadline,
    mut probe: impl FnMut() -> P,
) -> Result<P::Value, Option<String>> {
    let mut between = FIRST_PAUSE;
    loop {
        // The deadline is checked before the probe, so that the last probe runs after the deadline.
        let last = deadline.passed();
        match probe().check() {
            Ok(found) => return Ok(found),
            Err(seen) if last => return Err(seen),
            Err(_) => pause(between.min(deadline.left())),
        }
        between = (between * 2).min(MAX_PAUSE);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test run's environment sets the time limit")]
pub(super) fn default_wait() -> Duration {
    let seconds =
        std::env::var("PROVOST_TEST_WAIT_S").ok().and_then(|seconds| seconds.parse().ok());
    seconds.map_or(DEFAULT_WAIT, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_returns_first_result() {
        let mut looks = 0;
        let found = eventually("the third look", || {
            looks += 1;
            (looks == 3).then_some("found")
        });
        assert_eq!((found, looks), ("found", 3));
    }

    #[test]
    #[should_panic(expected = "20ms: a state; last seen: \"working\"")]
    fn timeout_reports_last_observation() {
        eventually_within(Duration::from_millis(20), "a state", || Err::<(), _>("working"));
    }
}
