//! Criteria: legal state changes and meaningful receipts only.

use provost_core::{
    team::{
        CheckPurpose, CheckSubject, CriterionEvent, CriterionEvidence, CriterionJudgement,
        CriterionSource, CriterionState, Event, EvidenceRequirement, FinishEvent,
        InsufficientEvidence, ManagerConfig, MemberRole, TeamAction, TeamActor, TeamCommand,
        TeamRejection, TextTooShort,
    },
    verdict::CheckEnd,
};

use super::kit::{A_REASON, TestTeam, member};
use crate::kit::receipt;

fn asserted(text: &str) -> CriterionEvidence {
    CriterionEvidence::Asserted { text: text.to_owned(), by: "hand".to_owned() }
}

fn judgements() -> Vec<CriterionJudgement> {
    let because = A_REASON.to_owned();
    vec![
        CriterionJudgement::Accept,
        CriterionJudgement::Satisfy { evidence: asserted("it was tried by hand and held") },
        CriterionJudgement::Defer { because: because.clone() },
        CriterionJudgement::Reject { because: because.clone() },
        CriterionJudgement::Reopen { because },
    ]
}

#[test]
fn criterion_state_table_holds() {
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
            let found = after.as_ref().map_or("-", |after| after.as_str());
            assert_eq!(found, word, "{} by {}", state.as_str(), judgement.as_str());
        }
    }
}

#[test]
fn criterion_records_its_source() {
    let mut team = TestTeam::paired();
    for (actor, source) in [
        (TeamActor::Operator, CriterionSource::User),
        (member("boss"), CriterionSource::Manager),
        (member("hand"), CriterionSource::Worker),
        (member("eye"), CriterionSource::Audit),
    ] {
        let text = "every limit is told in the answer".to_owned();
        let events = team.apply(
            &actor,
            TeamCommand::Propose { text, rationale: None, needs: EvidenceRequirement::Asserted },
        );
        let Some(Event::Criterion(CriterionEvent::CriterionProposed(proposed))) = events.first()
        else {
            panic!("proposed")
        };
        assert_eq!(proposed.source, source);
    }
}

#[test]
fn d12_meaningless_text_satisfies_nothing() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Asserted);
    for text in ["", " ", "x", "ok", "..............", "done."] {
        let judgement = CriterionJudgement::Satisfy { evidence: asserted(text) };
        let why = team.reject(&member("boss"), TeamCommand::Judge { no, judgement });
        let expected = InsufficientEvidence::SaysNothing(TextTooShort(text.to_owned()));
        assert_eq!(why, TeamRejection::Insufficient(expected));
    }
    let judgement =
        CriterionJudgement::Satisfy { evidence: asserted("called it 11 times, the last waited") };
    team.apply(&member("boss"), TeamCommand::Judge { no, judgement });
    assert!(!team.task.criteria[0].is_open());
}

#[test]
fn assertion_does_not_replace_a_check() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
    let judgement =
        CriterionJudgement::Satisfy { evidence: asserted("all of the tests have passed") };
    let why = team.reject(&TeamActor::Operator, TeamCommand::Judge { no, judgement });
    assert_eq!(
        why,
        TeamRejection::Insufficient(InsufficientEvidence::NeedsCheck("test".to_owned()))
    );
}

#[test]
fn only_provost_provides_check_receipts() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
    let forged = CriterionEvidence::Verified(Box::new(receipt("new", "test", CheckEnd::Exit(0))));
    let judgement = CriterionJudgement::Satisfy { evidence: forged };
    for actor in [TeamActor::Operator, member("boss"), TeamActor::Policy] {
        let command = TeamCommand::Judge { no, judgement: judgement.clone() };
        assert_eq!(team.reject(&actor, command), TeamRejection::NothingToCheck);
    }
}

#[test]
fn only_a_passing_check_satisfies() {
    for (end, word) in [(CheckEnd::Exit(0), "satisfied"), (CheckEnd::Exit(1), "accepted")] {
        let mut team = TestTeam::paired();
        let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
        team.apply(&member("boss"), TeamCommand::Check { what: CheckSubject::Criterion(no) });
        assert_eq!(team.task.effects().len(), 1);
        let again = TeamCommand::Check { what: CheckSubject::Criterion(no) };
        assert_eq!(team.reject(&member("boss"), again), TeamRejection::NothingNew);
        let receipt = Box::new(receipt("new", "test", end));
        team.apply(
            &TeamActor::Provost,
            TeamCommand::CheckDone { no: 1, receipt: receipt.clone(), compared: None },
        );
        assert_eq!(team.task.criteria[0].state.as_str(), word);
        assert_eq!(team.task.effects(), []);
        let late = TeamCommand::CheckDone { no: 1, receipt, compared: None };
        assert_eq!(team.reject(&TeamActor::Provost, late), TeamRejection::NothingNew);
    }
}

#[test]
fn check_uses_requesting_or_first_worker() {
    for (actor, worker) in
        [(member("second"), "second"), (member("hand"), "hand"), (member("boss"), "hand")]
    {
        let mut team = TestTeam::paired();
        team.bind("second", MemberRole::Worker, None);
        let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
        team.apply(&actor, TeamCommand::Check { what: CheckSubject::Criterion(no) });
        assert_eq!(team.task.checks[0].worker, worker, "{actor:?}");
    }
}

#[test]
fn running_and_failed_checks_are_visible() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
    let purpose = CheckPurpose::Criterion(no);
    for (check, end) in (1..).zip([CheckEnd::Exit(1), CheckEnd::TimeLimit, CheckEnd::Exit(0)]) {
        team.apply(&member("boss"), TeamCommand::Check { what: CheckSubject::Criterion(no) });
        assert!(team.task.is_being_checked(&purpose));
        let receipt = Box::new(receipt("new", "test", end.clone()));
        team.apply(
            &TeamActor::Provost,
            TeamCommand::CheckDone { no: check, receipt, compared: None },
        );
        assert!(!team.task.is_being_checked(&purpose));
        let failed = team.task.failed_check(&purpose);
        let failed = failed.map(|failed| (failed.worker.as_str(), failed.receipt.end.clone()));
        assert_eq!(failed, (end != CheckEnd::Exit(0)).then_some(("hand", end)));
    }
}

#[test]
fn demand_needs_permission_to_judge() {
    let mut team = TestTeam::paired();
    let text = "every limit is told in the answer".to_owned();
    let demand = TeamCommand::ProposeAccepted {
        text,
        rationale: None,
        needs: EvidenceRequirement::Asserted,
    };
    let why = team.reject(&member("hand"), demand.clone());
    assert_eq!(why.to_string(), "a worker cannot judge criteria");
    team.apply(&member("boss"), demand.clone());
    assert_eq!(team.task.criteria[0].state, CriterionState::Accepted);
    let config = ManagerConfig { denied: [TeamAction::Propose].into(), ..ManagerConfig::default() };
    let change = TeamCommand::Configure { config: Box::new(config), expected: 0 };
    team.apply(&TeamActor::Operator, change);
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    assert_eq!(
        team.reject(&member("boss"), demand),
        TeamRejection::NotGranted(TeamAction::Propose)
    );
}

#[test]
fn too_short_text_is_rejected() {
    let mut team = TestTeam::paired();
    let propose = TeamCommand::Propose {
        text: "short".to_owned(),
        rationale: None,
        needs: EvidenceRequirement::Asserted,
    };
    let why = team.reject(&TeamActor::Operator, propose).to_string();
    assert_eq!(
        why,
        "\"short\" is too short: expected at least 12 letters or digits, at least 4 of them different"
    );
}

/// A manager cannot drop a criterion of the user.
#[test]
fn d12_manager_cannot_drop_user_criteria() {
    let mut team = TestTeam::paired();
    let demand = |text: &str| TeamCommand::ProposeAccepted {
        text: text.to_owned(),
        rationale: None,
        needs: EvidenceRequirement::Asserted,
    };
    team.apply(&TeamActor::Operator, demand("the licence is left as it is"));
    team.apply(&member("boss"), demand("what the manager asked for itself"));
    let lay_aside = |no, because: &str| {
        let because = because.to_owned();
        TeamCommand::Judge { no, judgement: CriterionJudgement::Reject { because } }
    };
    assert_eq!(team.reject(&member("boss"), lay_aside(1, "x")).code(), "text_too_short");
    for no in [1, 2] {
        team.apply(&member("boss"), lay_aside(no, A_REASON));
    }
    team.satisfy_by_operator();
    let finish = || TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
    let refused = team.apply(&member("boss"), finish());
    let [Event::Finish(FinishEvent::FinishRefused(refused))] = refused.as_slice() else {
        panic!("{refused:?}")
    };
    let codes: Vec<_> = refused.blockers.iter().map(|one| one.code()).collect();
    assert_eq!(codes, ["criterion_dropped"], "the manager's own is the manager's");
    // Reopened by the operator it is open; rejected by the operator it blocks nothing.
    let reopen = CriterionJudgement::Reopen { because: A_REASON.to_owned() };
    team.apply(&TeamActor::Operator, TeamCommand::Judge { no: 1, judgement: reopen });
    assert_eq!(
        team.task.blockers(|_| None).iter().map(|one| one.code()).collect::<Vec<_>>(),
        ["open_criterion"]
    );
    team.apply(&TeamActor::Operator, lay_aside(1, A_REASON));
    team.apply(&member("boss"), finish());
    assert!(team.task.phase.is_over());
}

#[test]
fn operator_may_finish_without_deferred_criterion() {
    let mut team = TestTeam::paired();
    let text = "the licence is left as it is".to_owned();
    let demand = TeamCommand::ProposeAccepted {
        text,
        rationale: None,
        needs: EvidenceRequirement::Asserted,
    };
    team.apply(&TeamActor::Operator, demand);
    let because = A_REASON.to_owned();
    let judgement = CriterionJudgement::Defer { because };
    team.apply(&member("boss"), TeamCommand::Judge { no: 1, judgement });
    team.satisfy_by_operator();
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    assert!(team.task.phase.is_over());
}

/// Managers are notified of a verdict on a worker's work, with the receipt.
#[test]
fn d6_managers_get_worker_check_results() {
    let mut team = TestTeam::paired();
    let needs = EvidenceRequirement::Verified { check: "make test".to_owned() };
    let text = "the tests of both callers pass".to_owned();
    team.apply(&TeamActor::Operator, TeamCommand::ProposeAccepted { text, rationale: None, needs });
    team.apply(&member("hand"), TeamCommand::Check { what: CheckSubject::Criterion(1) });
    let receipt = Box::new(receipt("tree", "make test", CheckEnd::Exit(2)));
    team.apply(&TeamActor::Provost, TeamCommand::CheckDone { no: 1, receipt, compared: None });
    let messages: Vec<_> =
        team.task.messages.iter().map(|m| (m.to.name(), m.text.clone())).collect();
    let [("hand", own), ("boss", copy)] = messages.as_slice() else { panic!("{messages:?}") };
    assert!(own.starts_with("check 1 for criterion 1: `make test` exit"), "{own}");
    assert_eq!(*copy, format!("hand (worker) requested this check\n{own}"));
}

#[test]
fn criterion_rejected_during_check_stays_rejected() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
    team.apply(&member("boss"), TeamCommand::Check { what: CheckSubject::Criterion(no) });
    let judgement = CriterionJudgement::Reject { because: A_REASON.to_owned() };
    team.apply(&TeamActor::Operator, TeamCommand::Judge { no, judgement });
    let receipt = Box::new(receipt("new", "test", CheckEnd::Exit(0)));
    team.apply(&TeamActor::Provost, TeamCommand::CheckDone { no: 1, receipt, compared: None });
    assert_eq!(team.task.criteria[0].state.as_str(), "rejected");
}

#[test]
fn repeated_characters_are_rejected() {
    let mut team = TestTeam::paired();
    for text in ["a".repeat(22), "ab".repeat(11), "1. 2. 1. 2. 1. 2. 1. 2. 1. 2. 1. 2.".to_owned()]
    {
        let propose =
            TeamCommand::Propose { text, rationale: None, needs: EvidenceRequirement::Asserted };
        assert_eq!(team.reject(&member("boss"), propose).code(), "text_too_short");
    }
}
