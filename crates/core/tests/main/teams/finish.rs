//! Finishing a team: only if nothing is open, once, and with the checked tree.

use std::collections::BTreeSet;

use provost_core::{
    team::{
        BlockerWaiver, CriterionEvidence, CriterionJudgement, EpilogueStep, Event,
        EvidenceRequirement, FinishBlocker, FinishEvent, ManagerConfig, MoveKind, TeamActor,
        TeamCommand, TeamPhase, TeamRejection, TeamSpec,
    },
    verdict::{CheckEnd, Receipt},
};

use super::kit::{A_REASON, TestTeam, challenge, member, team_spec, template};
use crate::kit::receipt;

fn finish(team: &mut TestTeam) -> Vec<&'static str> {
    let events = team.apply(
        &member("boss"),
        TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    match events.first() {
        Some(Event::Finish(FinishEvent::FinishRefused(refused))) => {
            refused.blockers.iter().map(FinishBlocker::code).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn open_criterion_blocks_finish() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Asserted);
    assert_eq!(finish(&mut team), ["open_criterion"]);
    assert_eq!(team.task.phase, TeamPhase::Active);
    let because = A_REASON.to_owned();
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Judge { no, judgement: CriterionJudgement::Defer { because } },
    );
    assert_eq!(finish(&mut team), ["nothing_proved"]);
    team.satisfy_by_operator();
    assert_eq!(finish(&mut team), Vec::<&str>::new());
    assert_eq!(team.task.phase.as_str(), "done");
}

#[test]
fn proposed_criterion_blocks_finish() {
    let mut team = TestTeam::paired();
    let text = "the limit can be configured".to_owned();
    team.apply(
        &member("hand"),
        TeamCommand::Propose { text, rationale: None, needs: EvidenceRequirement::Asserted },
    );
    assert_eq!(finish(&mut team), ["open_criterion"]);
}

#[test]
fn second_finish_is_ignored() {
    let mut team = TestTeam::paired();
    team.satisfy_by_operator();
    finish(&mut team);
    let before = team.events.len();
    finish(&mut team);
    assert_eq!(team.events.len(), before);
    let because = A_REASON.to_owned();
    assert_eq!(
        team.reject(&TeamActor::Operator, TeamCommand::Cancel { because }),
        TeamRejection::TeamOver("done")
    );
}

#[test]
fn cancelled_team_cannot_be_finished() {
    let mut team = TestTeam::paired();
    let because = A_REASON.to_owned();
    team.apply(&TeamActor::Operator, TeamCommand::Cancel { because: because.clone() });
    assert_eq!(team.task.phase.as_str(), "cancelled");
    let why = team.reject(&TeamActor::Operator, TeamCommand::Finish { because, allow: Vec::new() });
    assert_eq!(why, TeamRejection::TeamOver("cancelled"));
}

#[test]
fn d17_recorded_stop_blocks_until_finish() {
    let mut team = TestTeam::paired();
    team.satisfy_by_operator();
    let because = A_REASON.to_owned();
    team.apply(&member("boss"), TeamCommand::RecordMove { kind: MoveKind::Stop, because });
    assert_eq!(team.task.readiness(|_| None), [FinishBlocker::DecidedNotFinished]);
    assert_eq!(finish(&mut team), Vec::<&str>::new());
    assert_eq!(team.task.readiness(|_| None), []);
}

#[test]
fn finish_needs_every_contract_step() {
    let epilogue: BTreeSet<EpilogueStep> =
        [EpilogueStep::Handover, EpilogueStep::SeparateReview].into();
    let config = ManagerConfig { epilogue, adversarial: true, ..ManagerConfig::default() };
    let mut team = TestTeam::paired();
    team.begin_loop(template(2));
    let change = TeamCommand::Configure { config: Box::new(config), expected: 0 };
    team.apply(&TeamActor::Operator, change);
    let blockers: Vec<&str> =
        team.task.blockers(|_| None).iter().map(FinishBlocker::code).collect();
    let all = [
        "contract_not_accepted",
        "epilogue_open",
        "epilogue_open",
        "not_challenged",
        "loop_incomplete",
    ];
    assert_eq!(blockers, all);
    team.apply(&member("boss"), TeamCommand::AcknowledgeContract { revision: 1 });
    for (step, by) in [(EpilogueStep::Handover, "boss"), (EpilogueStep::SeparateReview, "eye")] {
        let evidence = "the notes are in docs/limits.md".to_owned();
        team.apply(&member(by), TeamCommand::DoEpilogue { step, evidence });
    }
    team.apply(&member("eye"), TeamCommand::ChallengeWork { challenge: challenge() });
    team.show_all_evidence("one");
    assert_eq!(finish(&mut team), Vec::<&str>::new());
    let passed = Box::new(receipt("one", "test", CheckEnd::Exit(0)));
    team.apply(
        &TeamActor::Provost,
        TeamCommand::CheckDone { no: 1, receipt: passed, compared: None },
    );
    assert_eq!(team.task.phase.as_str(), "done");
    let ended = team.task.loop_state.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(provost_core::team::LoopEnd::Finished));
}

#[test]
fn finish_reruns_checks_on_final_tree() {
    let mut team = TestTeam::open(TeamSpec { checks: vec!["lint".to_owned()], ..team_spec() });
    team.bind("hand", provost_core::team::MemberRole::Worker, None);
    let no = team.criterion(EvidenceRequirement::Verified { check: "test".to_owned() });
    let done = |no, command: &str, end| TeamCommand::CheckDone {
        no,
        receipt: Box::new(receipt("tree", command, end)),
        compared: None,
    };
    let what = provost_core::team::CheckSubject::Criterion(no);
    team.apply(&TeamActor::Operator, TeamCommand::Check { what });
    team.apply(&TeamActor::Provost, done(1, "test", CheckEnd::Exit(0)));
    let because = A_REASON.to_owned();
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Finish { because: because.clone(), allow: Vec::new() },
    );
    assert_eq!(team.task.effects().len(), 2, "the check of the task, and that of the criterion");
    let again = TeamCommand::Finish { because, allow: Vec::new() };
    assert_eq!(team.reject(&TeamActor::Operator, again.clone()), TeamRejection::BeingAudited);
    team.apply(&TeamActor::Provost, done(2, "lint", CheckEnd::Exit(0)));
    assert_eq!(team.task.phase, TeamPhase::Active);
    team.apply(&TeamActor::Provost, done(3, "test", CheckEnd::Exit(1)));
    assert_eq!(team.task.phase, TeamPhase::Active);
    let codes: Vec<&str> = team.task.blockers.iter().map(FinishBlocker::code).collect();
    assert_eq!(codes, ["check_failed"]);
    team.apply(&TeamActor::Operator, again);
    team.apply(&TeamActor::Provost, done(4, "lint", CheckEnd::Exit(0)));
    team.apply(&TeamActor::Provost, done(5, "test", CheckEnd::Exit(0)));
    assert_eq!(team.task.phase.as_str(), "done");
    assert!(team.task.is_closed());
}

/// The name of a failed check alone does not help the member who has to fix it.
#[test]
fn failed_finish_check_reports_exit_and_output() {
    let checks = vec!["cargo test".to_owned()];
    let mut team = TestTeam::open(TeamSpec { checks, ..team_spec() });
    team.bind("hand", provost_core::team::MemberRole::Worker, None);
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    let long = "many words ".repeat(200);
    let tail = format!("{long}\nsh: 1: cargo: \u{1b}[31mnot \"found\"\n\n");
    let receipt = Receipt { tail, ..receipt("tree", "cargo test", CheckEnd::Exit(127)) };
    let receipt = Box::new(receipt);
    team.apply(&TeamActor::Provost, TeamCommand::CheckDone { no: 1, receipt, compared: None });
    let blocker = team.task.blockers[0].to_string();
    let how = "final tree: exit 127; last output: \"sh: 1: cargo: \\u{1b}[31mnot \\\"found\\\"\"";
    assert!(blocker.ends_with(how), "{blocker}");
    let kept = serde_json::to_value(&team.task.blockers[0]).unwrap();
    assert!(kept["tail"].as_str().unwrap().chars().count() <= 400, "{kept}");
    // Blockers recorded by older versions are read, without the new details.
    let old = r#"{"blocker":"check_failed","command":"a","output":"b"}"#;
    let old: FinishBlocker = serde_json::from_str(old).unwrap();
    assert!(old.to_string().ends_with("on the final tree"), "{old}");
}

#[test]
fn finish_rechecks_loop_evidence() {
    let mut team = TestTeam::paired();
    team.begin_loop(template(3));
    team.show_all_evidence("old");
    assert_eq!(finish(&mut team), [] as [&str; 0]);
    assert_eq!(team.task.phase, TeamPhase::Active, "not yet");
    let failed = Box::new(receipt("new", "test", CheckEnd::Exit(1)));
    team.apply(
        &TeamActor::Provost,
        TeamCommand::CheckDone { no: 1, receipt: failed, compared: None },
    );
    let codes: Vec<&str> = team.task.blockers.iter().map(FinishBlocker::code).collect();
    assert_eq!((team.task.phase.as_str(), codes), ("active", vec!["check_failed"]));
}

#[test]
fn criterion_opened_during_audit_blocks_finish() {
    let mut team = TestTeam::open(TeamSpec { checks: vec!["lint".to_owned()], ..team_spec() });
    team.bind("hand", provost_core::team::MemberRole::Worker, None);
    team.apply(
        &TeamActor::Operator,
        TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    team.criterion(EvidenceRequirement::Asserted);
    let receipt = Box::new(receipt("tree", "lint", CheckEnd::Exit(0)));
    team.apply(&TeamActor::Provost, TeamCommand::CheckDone { no: 1, receipt, compared: None });
    let codes: Vec<&str> = team.task.blockers.iter().map(FinishBlocker::code).collect();
    assert_eq!((team.task.phase.as_str(), codes), ("active", vec!["open_criterion"]));
}

#[test]
fn waiting_messages_are_cancelled_at_end() {
    let mut team = TestTeam::paired();
    let no = team.post(&member("boss"), "hand", "a");
    team.apply(&TeamActor::Operator, TeamCommand::Fail { because: A_REASON.to_owned() });
    assert_eq!(team.message_status(no).as_str(), "cancelled");
    assert_eq!(team.task.deadline(), None);
}

#[test]
fn satisfied_criterion_can_be_reopened() {
    let mut team = TestTeam::paired();
    let no = team.criterion(EvidenceRequirement::Asserted);
    let (text, by) = ("it was tried by hand and held".to_owned(), "hand".to_owned());
    let judgement =
        CriterionJudgement::Satisfy { evidence: CriterionEvidence::Asserted { text, by } };
    team.apply(&member("boss"), TeamCommand::Judge { no, judgement });
    let because = A_REASON.to_owned();
    team.apply(
        &member("boss"),
        TeamCommand::Judge { no, judgement: CriterionJudgement::Reopen { because } },
    );
    assert_eq!(finish(&mut team), ["open_criterion"]);
}

#[test]
fn leased_messages_are_cancelled_at_end() {
    let mut team = TestTeam::paired();
    let accepted = team.post(&member("boss"), "hand", "a");
    team.take("hand");
    let offered = team.post(&member("boss"), "hand", "b");
    team.next("hand").expect("it waits");
    let allow = BlockerWaiver::ALL.to_vec();
    team.apply(&TeamActor::Operator, TeamCommand::Finish { because: A_REASON.to_owned(), allow });
    assert_eq!(
        (team.message_status(accepted).as_str(), team.message_status(offered).as_str()),
        ("cancelled", "cancelled")
    );
    assert_eq!(team.task.deadline(), None);
    assert!(team.task.is_closed());
}

#[test]
fn further_work_clears_recorded_stop() {
    let move_ = |kind| TeamCommand::RecordMove { kind, because: A_REASON.to_owned() };
    let begin = TeamCommand::BeginLoop { template: Box::new(template(2)) };
    for command in [super::kit::post("hand", "more"), begin] {
        let mut team = TestTeam::paired();
        team.apply(&member("boss"), move_(MoveKind::Stop));
        team.apply(&member("hand"), super::kit::post("boss", "of another"));
        team.apply(&member("boss"), super::kit::post("operator", "told"));
        let decided = |team: &TestTeam| {
            team.task.readiness(|_| None).contains(&FinishBlocker::DecidedNotFinished)
        };
        assert!(decided(&team), "that has nothing more done");
        team.apply(&member("boss"), command);
        assert!(!decided(&team));
        team.apply(&member("boss"), move_(MoveKind::Stop));
        assert!(decided(&team), "it decided once more");
    }
}
