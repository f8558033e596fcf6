//! A verdict needs evidence for the same tree.

use provost_core::{
    ids::TreeId,
    verdict::{CheckEnd, CheckRefutation, EmptyDiff, Evidence, Receipt, Verdict},
};

use crate::kit::{receipt, snapshot};

fn judge(base: &str, empty_diff: EmptyDiff, required: &[&str], receipts: &[Receipt]) -> Verdict {
    let required: Vec<String> = required.iter().map(|check| (*check).to_owned()).collect();
    Verdict::from_evidence(Evidence {
        snapshot: &snapshot("new"),
        base: Some(&TreeId(base.to_owned())),
        empty_diff,
        required: &required,
        receipts,
    })
}

#[test]
fn verdict_needs_every_check_on_this_tree() {
    let ok = |tree| receipt(tree, "a", CheckEnd::Exit(0));
    assert!(matches!(judge("old", EmptyDiff::Refused, &["a"], &[ok("new")]), Verdict::Passed(_)));
    assert_eq!(judge("old", EmptyDiff::Refused, &["a"], &[ok("other")]), Verdict::Open);
    assert_eq!(judge("old", EmptyDiff::Refused, &["a", "b"], &[ok("new")]), Verdict::Open);
    assert_eq!(judge("old", EmptyDiff::Refused, &[], &[]), Verdict::Open, "no check, no verdict");
}

#[test]
fn empty_diff_passes_only_if_accepted() {
    let ok = [receipt("new", "a", CheckEnd::Exit(0))];
    let refused = judge("new", EmptyDiff::Refused, &["a"], &ok);
    assert_eq!(refused, Verdict::Refuted(CheckRefutation::EmptyDiff));
    assert!(matches!(judge("new", EmptyDiff::Accepted, &["a"], &ok), Verdict::Passed(_)));
}

#[test]
fn unfinished_check_refutes() {
    for end in [CheckEnd::TimeLimit, CheckEnd::OutputLimit, CheckEnd::Unfinished("x".to_owned())] {
        let verdict = judge("old", EmptyDiff::Refused, &["a"], &[receipt("new", "a", end)]);
        assert!(
            matches!(verdict, Verdict::Refuted(CheckRefutation::Unfinished { .. })),
            "{verdict:?}"
        );
    }
    for end in [CheckEnd::Exit(1), CheckEnd::Signal(9)] {
        let verdict = judge("old", EmptyDiff::Refused, &["a"], &[receipt("new", "a", end)]);
        assert!(matches!(verdict, Verdict::Refuted(CheckRefutation::Check { .. })), "{verdict:?}");
    }
}
