//! Criteria: legal changes only, and receipts that say something.

use provost_core::{
    task::{
        Actor, Checked, Command, CriterionState, Event, Evidence, Insufficient, Judgement, Needs,
        Rejected, Source,
    },
    verdict::CheckEnd,
};

use super::kit::{A_REASON, Desk, member};
use crate::kit::receipt;

fn asserted(text: &str) -> Evidence {
    Evidence::Asserted { text: text.to_owned(), by: "hand".to_owned() }
}

fn judgements() -> Vec<Judgement> {
    let because = A_REASON.to_owned();
    vec![
        Judgement::Accept,
        Judgement::Satisfy { evidence: asserted("it was tried by hand and held") },
        Judgement::Defer { because: because.clone() },
        Judgement::Reject { because: because.clone() },
        Judgement::Reopen { because },
    ]
}

#[test]
fn only_legal_changes_are_made() {
    let because = A_REASON.to_owned();
    let states = [
        CriterionState::Proposed,
        CriterionState::Accepted,
        CriterionState::Satisfied { evidence: asserted("it was tried by hand and held") },
        CriterionState::Deferred { because: because.clone() },
        CriterionState::Rejected { because },
    ];
    // One row for each state: accept, satisfy, defer, reject, reopen.
    let expected = [
        ["accepted", "-", "deferred", "rejected", "-"],
        ["-", "satisfied", "deferred", "rejected", "-"],
        ["-", "-", "-", "-", "accepted"],
        ["accepted", "-", "-", "rejected", "accepted"],
        ["-", "-", "-", "-", "accepted"],
    ];
    for (state, row) in states.iter().zip(expected) {
        for (judgement, word) in judgements().iter().zip(row) {
            let after = state.after(judgement);
            let found = after.as_ref().map_or("-", |after| after.word());
            assert_eq!(found, word, "{} by {}", state.word(), judgement.word());
        }
    }
}

#[test]
fn a_criterion_tells_who_brought_it_up() {
    let mut desk = Desk::paired();
    for (actor, source) in [
        (Actor::Operator, Source::User),
        (member("boss"), Source::Manager),
        (member("hand"), Source::Worker),
        (member("eye"), Source::Audit),
    ] {
        let text = "every limit is told in the answer".to_owned();
        let events =
            desk.done(&actor, Command::Propose { text, rationale: None, needs: Needs::Asserted });
        let Some(Event::CriterionProposed(proposed)) = events.first() else { panic!("proposed") };
        assert_eq!(proposed.source, source);
    }
}

#[test]
fn d12_an_empty_receipt_satisfies_nothing() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Asserted);
    for text in ["", " ", "x", "ok", "..............", "done."] {
        let judgement = Judgement::Satisfy { evidence: asserted(text) };
        let why = desk.refused(&member("boss"), Command::Judge { no, judgement });
        let expected = Insufficient::SaysNothing(text.to_owned());
        assert_eq!(why, Rejected::Insufficient(expected));
    }
    let judgement =
        Judgement::Satisfy { evidence: asserted("called it 11 times, the last waited") };
    desk.done(&member("boss"), Command::Judge { no, judgement });
    assert!(!desk.task.criteria[0].is_open());
}

#[test]
fn somebodys_word_is_not_enough_where_a_check_is_needed() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    let judgement = Judgement::Satisfy { evidence: asserted("all of the tests have passed") };
    let why = desk.refused(&Actor::Operator, Command::Judge { no, judgement });
    assert_eq!(why, Rejected::Insufficient(Insufficient::NeedsCheck("test".to_owned())));
}

#[test]
fn nobody_but_provost_has_receipts_of_checks() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    let forged = Evidence::Verified(Box::new(receipt("new", "test", CheckEnd::Exit(0))));
    let judgement = Judgement::Satisfy { evidence: forged };
    for actor in [Actor::Operator, member("boss"), Actor::Policy] {
        let command = Command::Judge { no, judgement: judgement.clone() };
        assert_eq!(desk.refused(&actor, command), Rejected::NothingToCheck);
    }
}

#[test]
fn a_check_that_passes_satisfies_and_one_that_fails_does_not() {
    for (end, word) in [(CheckEnd::Exit(0), "satisfied"), (CheckEnd::Exit(1), "accepted")] {
        let mut desk = Desk::paired();
        let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
        desk.done(&member("boss"), Command::Check { what: Checked::Criterion(no) });
        assert_eq!(desk.task.effects().len(), 1);
        let again = Command::Check { what: Checked::Criterion(no) };
        assert_eq!(desk.refused(&member("boss"), again), Rejected::Nothing);
        let receipt = Box::new(receipt("new", "test", end));
        desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt: receipt.clone() });
        assert_eq!(desk.task.criteria[0].state.word(), word);
        assert_eq!(desk.task.effects(), []);
        let late = Command::CheckDone { no: 1, receipt };
        assert_eq!(desk.refused(&Actor::Provost, late), Rejected::Nothing);
    }
}

#[test]
fn what_was_rejected_while_its_check_ran_stays_rejected() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    desk.done(&member("boss"), Command::Check { what: Checked::Criterion(no) });
    let judgement = Judgement::Reject { because: A_REASON.to_owned() };
    desk.done(&Actor::Operator, Command::Judge { no, judgement });
    let receipt = Box::new(receipt("new", "test", CheckEnd::Exit(0)));
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt });
    assert_eq!(desk.task.criteria[0].state.word(), "rejected");
}
