//! Crash matrices: where a daemon is told to die, and how many of all such places a test run tries.

use std::fmt;

/// Before the transaction, with all its rows written, and after it is durable.
pub const COMMIT_PLACES: [&str; 3] = ["commit.before", "ledger.appendstaged", "commit.after"];

/// More commits than any scenario has: a bound, never reached.
const MOST_COMMITS: u64 = 200;

/// Where a daemon dies: at this passage of this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crash {
    pub place: &'static str,
    pub nth: u64,
}

impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place, self.nth)
    }
}

impl Crash {
    /// About so many passages through these places, spread evenly over all and chosen by `PROVOST_SEED`; every
    /// one with `PROVOST_DEEP=1`.
    pub fn some(commits: u64, places: &[&'static str], subset: usize) -> Vec<Crash> {
        let all = Crash::all(commits, places);
        if deep() { all } else { spread(all, places.len(), subset, seed()) }
    }

    fn all(commits: u64, places: &[&'static str]) -> Vec<Crash> {
        let passages = |nth| places.iter().map(move |place| Crash { place, nth });
        (1..=commits.min(MOST_COMMITS)).flat_map(passages).collect()
    }
}

fn spread(all: Vec<Crash>, places: usize, subset: usize, seed: usize) -> Vec<Crash> {
    let step = (all.len() / subset).max(1);
    // A step that is no multiple of how many there are comes to each place in turn.
    let step = step + usize::from(places > 1 && step.is_multiple_of(places));
    all.into_iter().skip(seed % step).step_by(step).collect()
}

/// Says whether everything is to be tried that a machine can bear, with the windows that a user has who sets none.
#[expect(
    clippy::disallowed_methods,
    reason = "the edge at which a test run says how much it tries"
)]
pub fn deep() -> bool {
    std::env::var_os("PROVOST_DEEP").is_some_and(|deep| deep == "1")
}

#[expect(clippy::disallowed_methods, reason = "the edge at which a test run says what it tries")]
fn seed() -> usize {
    std::env::var("PROVOST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_passages_are_spread_over_all_commits_and_places() {
        let all = Crash::all(30, &COMMIT_PLACES);
        assert_eq!((all.len(), all[4].to_string()), (90, "ledger.appendstaged:2".to_owned()));
        for seed in 0..7 {
            let some = spread(all.clone(), 3, 6, seed);
            assert!(some.len() >= 5, "{some:?}");
            for place in COMMIT_PLACES {
                assert!(some.iter().any(|crash| crash.place == place), "{place}: {some:?}");
            }
            assert!(some[some.len() - 1].nth > 20, "{some:?}");
        }
    }
}
