//! Crash matrices: the points at which a daemon crashes, and how many of them a test run tries.

use std::fmt;

/// The failpoints of a commit: before the transaction, when all its rows are written, and after the
/// transaction is durable.
pub const COMMIT_FAILPOINTS: [&str; 3] = ["commit.before", "ledger.appendstaged", "commit.after"];

/// An upper bound on the number of commits in any scenario.
const MAX_COMMITS: u64 = 200;

/// The point at which a daemon crashes: the nth passage of a failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    pub failpoint: &'static str,
    pub nth: u64,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.failpoint, self.nth)
    }
}

impl Crash {
    /// Returns about `subset` crashes, spread evenly over all passages of these failpoints and
    /// selected by `PROVOST_SEED`. With `PROVOST_DEEP=1`, returns all of them.
    pub fn sample(commits: u64, places: &[&'static str], subset: usize) -> Vec<Crash> {
        let all = Crash::all(commits, places);
        if is_deep() { all } else { spread(all, places.len(), subset, seed()) }
    }

    fn all(commits: u64, places: &[&'static str]) -> Vec<Crash> {
        let passages = |nth| places.iter().map(move |place| Crash { failpoint: place, nth });
        (1..=commits.min(MAX_COMMITS)).flat_map(passages).collect()
    }
}

fn spread(all: Vec<Crash>, places: usize, subset: usize, seed: usize) -> Vec<Crash> {
    let step = (all.len() / subset).max(1);
    // A step that is not a multiple of the number of failpoints visits each of them in turn.
    let step = step + usize::from(places > 1 && step.is_multiple_of(places));
    all.into_iter().skip(seed % step).step_by(step).collect()
}

/// Whether the test run is deep: it tries all cases, with the default time windows of a user.
#[expect(clippy::disallowed_methods, reason = "the test run's environment sets the depth")]
pub fn is_deep() -> bool {
    std::env::var_os("PROVOST_DEEP").is_some_and(|deep| deep == "1")
}

#[expect(clippy::disallowed_methods, reason = "the test run's environment sets the seed")]
fn seed() -> usize {
    std::env::var("PROVOST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_spread_over_commits_and_failpoints() {
        let all = Crash::all(30, &COMMIT_FAILPOINTS);
        assert_eq!((all.len(), all[4].to_string()), (90, "ledger.appendstaged:2".to_owned()));
        for seed in 0..7 {
            let some = spread(all.clone(), 3, 6, seed);
            assert!(some.len() >= 5, "{some:?}");
            for place in COMMIT_FAILPOINTS {
                assert!(some.iter().any(|crash| crash.failpoint == place), "{place}: {some:?}");
            }
            assert!(some[some.len() - 1].nth > 20, "{some:?}");
        }
    }
}
