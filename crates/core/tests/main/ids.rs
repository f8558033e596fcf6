//! The ids of a run's sessions, which are derived from the id of the run.

use std::collections::BTreeSet;

use provost_core::ids::{RunId, SessionId};

const RUNS: [&str; 3] = [
    "01a1e323-29f4-7713-a950-131315b2a3b9",
    "01a1e323-29f4-7713-a950-1313ffffffff",
    "01a1e323-29f4-7713-8000-000000000000",
];

#[test]
fn sessions_of_a_run_differ_at_both_ends_of_their_short_ids() {
    for run in RUNS {
        let run: RunId = run.parse().unwrap();
        let shorts = || {
            let sessions = (1..=200).map(|no| run.session(no).short());
            std::iter::once(run.short()).chain(sessions)
        };
        let starts: BTreeSet<String> = shorts().map(|short| short[..4].to_owned()).collect();
        let ends: BTreeSet<String> = shorts().map(|short| short[4..].to_owned()).collect();
        assert_eq!((starts.len(), ends.len()), (201, 201), "of run {run}");
    }
}

#[test]
fn session_ids_of_a_run_sort_by_number() {
    for run in RUNS {
        let run: RunId = run.parse().unwrap();
        let ids: Vec<SessionId> = (0..300).map(|no| run.session(no)).collect();
        assert!(ids.is_sorted(), "of run {run}");
        assert_eq!(ids[0].to_string(), run.to_string());
    }
}

#[test]
fn run_includes_only_its_own_sessions() {
    let run: RunId = RUNS[0].parse().unwrap();
    assert!(run.includes(SessionId(run.0)));
    assert!(run.includes(run.session(1)) && run.includes(run.session(300)));
    let earlier: SessionId = "01a1e323-29f4-7713-a950-131315b2a3b8".parse().unwrap();
    assert!(!run.includes(earlier), "an earlier id belongs to another run");
    let next: SessionId = "01a1e323-29f4-7713-a950-131415b2a3b9".parse().unwrap();
    assert!(!run.includes(next), "the next id of the same millisecond has random digits");
}
