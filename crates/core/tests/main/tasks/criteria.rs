//! Criteria: legal state changes and meaningful receipts only.

use provost_core::{
    task::{
        Action, Actor, Checked, Command, Config, CriterionState, Event, Evidence, Insufficient,
        Judgement, Needs, Purpose, Rejected, Role, SaysNothing, Source,
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
    // One row per state, with the columns accept, satisfy, defer, reject, reopen.
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
        let expected = Insufficient::SaysNothing(SaysNothing(text.to_owned()));
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
        desk.done(
            &Actor::Provost,
            Command::CheckDone { no: 1, receipt: receipt.clone(), compared: None },
        );
        assert_eq!(desk.task.criteria[0].state.word(), word);
        assert_eq!(desk.task.effects(), []);
        let late = Command::CheckDone { no: 1, receipt, compared: None };
        assert_eq!(desk.refused(&Actor::Provost, late), Rejected::Nothing);
    }
}

#[test]
fn a_worker_has_its_own_work_checked_and_all_others_that_of_the_first() {
    for (actor, worker) in
        [(member("second"), "second"), (member("hand"), "hand"), (member("boss"), "hand")]
    {
        let mut desk = Desk::paired();
        desk.bind("second", Role::Worker, None);
        let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
        desk.done(&actor, Command::Check { what: Checked::Criterion(no) });
        assert_eq!(desk.task.checks[0].worker, worker, "{actor:?}");
    }
}

#[test]
fn a_check_is_seen_while_it_runs_and_what_it_found_until_it_is_run_again() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    let purpose = Purpose::Criterion(no);
    for (check, end) in (1..).zip([CheckEnd::Exit(1), CheckEnd::TimeLimit, CheckEnd::Exit(0)]) {
        desk.done(&member("boss"), Command::Check { what: Checked::Criterion(no) });
        assert!(desk.task.is_being_checked(&purpose));
        let receipt = Box::new(receipt("new", "test", end.clone()));
        desk.done(&Actor::Provost, Command::CheckDone { no: check, receipt, compared: None });
        assert!(!desk.task.is_being_checked(&purpose));
        let failed = desk.task.failed_check(&purpose);
        let failed = failed.map(|failed| (failed.worker.as_str(), failed.receipt.end.clone()));
        assert_eq!(failed, (end != CheckEnd::Exit(0)).then_some(("hand", end)));
    }
}

#[test]
fn who_may_not_accept_what_it_demands_proposes_nothing() {
    let mut desk = Desk::paired();
    let text = "every limit is told in the answer".to_owned();
    let demand = Command::Demand { text, rationale: None, needs: Needs::Asserted };
    let why = desk.refused(&member("hand"), demand.clone());
    assert_eq!(why.to_string(), "a worker may not judge criteria");
    desk.done(&member("boss"), demand.clone());
    assert_eq!(desk.task.criteria[0].state, CriterionState::Accepted);
    let config = Config { denied: [Action::Propose].into(), ..Config::default() };
    let change = Command::Configure { config: Box::new(config), expected: 0 };
    desk.done(&Actor::Operator, change);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    assert_eq!(desk.refused(&member("boss"), demand), Rejected::NotGranted(Action::Propose));
}

#[test]
fn a_text_that_says_too_little_is_no_receipt() {
    let mut desk = Desk::paired();
    let propose =
        Command::Propose { text: "short".to_owned(), rationale: None, needs: Needs::Asserted };
    let why = desk.refused(&Actor::Operator, propose).to_string();
    assert_eq!(
        why,
        "\"short\" says too little: at least 12 letters or digits are needed, and not the same few"
    );
}

/// A manager cannot drop a criterion of the user.
#[test]
fn d12_a_manager_that_lays_aside_what_the_user_asked_for_does_not_finish_the_task() {
    let mut desk = Desk::paired();
    let demand = |text: &str| Command::Demand {
        text: text.to_owned(),
        rationale: None,
        needs: Needs::Asserted,
    };
    desk.done(&Actor::Operator, demand("the licence is left as it is"));
    desk.done(&member("boss"), demand("what the manager asked for itself"));
    let lay_aside = |no, because: &str| {
        let because = because.to_owned();
        Command::Judge { no, judgement: Judgement::Reject { because } }
    };
    assert_eq!(desk.refused(&member("boss"), lay_aside(1, "x")).code(), "says_nothing");
    for no in [1, 2] {
        desk.done(&member("boss"), lay_aside(no, A_REASON));
    }
    desk.prove();
    let finish = || Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
    let refused = desk.done(&member("boss"), finish());
    let [Event::FinishRefused(refused)] = refused.as_slice() else { panic!("{refused:?}") };
    let codes: Vec<_> = refused.blockers.iter().map(|one| one.code()).collect();
    assert_eq!(codes, ["criterion_dropped"], "the manager's own is the manager's");
    // Reopened by the operator it is open; rejected by the operator it blocks nothing.
    let reopen = Judgement::Reopen { because: A_REASON.to_owned() };
    desk.done(&Actor::Operator, Command::Judge { no: 1, judgement: reopen });
    assert_eq!(
        desk.task.blockers(|_| None).iter().map(|one| one.code()).collect::<Vec<_>>(),
        ["open_criterion"]
    );
    desk.done(&Actor::Operator, lay_aside(1, A_REASON));
    desk.done(&member("boss"), finish());
    assert!(desk.task.phase.is_over());
}

#[test]
fn what_the_operator_finishes_may_do_without_what_the_operator_asked_for() {
    let mut desk = Desk::paired();
    let text = "the licence is left as it is".to_owned();
    let demand = Command::Demand { text, rationale: None, needs: Needs::Asserted };
    desk.done(&Actor::Operator, demand);
    let because = A_REASON.to_owned();
    let judgement = Judgement::Defer { because };
    desk.done(&member("boss"), Command::Judge { no: 1, judgement });
    desk.prove();
    desk.done(
        &Actor::Operator,
        Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    assert!(desk.task.phase.is_over());
}

/// Managers are notified of a verdict on a worker's work, with the receipt.
#[test]
fn d6_what_a_worker_has_checked_is_told_to_its_managers_too() {
    let mut desk = Desk::paired();
    let needs = Needs::Verified { check: "make test".to_owned() };
    let text = "the tests of both callers pass".to_owned();
    desk.done(&Actor::Operator, Command::Demand { text, rationale: None, needs });
    desk.done(&member("hand"), Command::Check { what: Checked::Criterion(1) });
    let receipt = Box::new(receipt("tree", "make test", CheckEnd::Exit(2)));
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt, compared: None });
    let told: Vec<_> = desk.task.messages.iter().map(|m| (m.to.name(), m.text.clone())).collect();
    let [("hand", own), ("boss", told)] = told.as_slice() else { panic!("{told:?}") };
    assert!(own.starts_with("check 1 for criterion 1: `make test` exit"), "{own}");
    assert_eq!(*told, format!("hand (worker) had this checked\n{own}"));
}

#[test]
fn what_was_rejected_while_its_check_ran_stays_rejected() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    desk.done(&member("boss"), Command::Check { what: Checked::Criterion(no) });
    let judgement = Judgement::Reject { because: A_REASON.to_owned() };
    desk.done(&Actor::Operator, Command::Judge { no, judgement });
    let receipt = Box::new(receipt("new", "test", CheckEnd::Exit(0)));
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt, compared: None });
    assert_eq!(desk.task.criteria[0].state.word(), "rejected");
}

#[test]
fn one_letter_over_and_over_says_nothing() {
    let mut desk = Desk::paired();
    for text in ["a".repeat(22), "ab".repeat(11), "1. 2. 1. 2. 1. 2. 1. 2. 1. 2. 1. 2.".to_owned()]
    {
        let propose = Command::Propose { text, rationale: None, needs: Needs::Asserted };
        assert_eq!(desk.refused(&member("boss"), propose).code(), "says_nothing");
    }
}
