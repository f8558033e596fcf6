//! Finishing a team: only if nothing is open, once, and with the checked tree.

use std::collections::BTreeSet;

use provost_core::{
    task::{
        Actor, Allowance, Blocker, Command, Config, Epilogue, Event, Evidence, Judgement, MoveKind,
        Needs, Phase, Rejected, TaskSpec,
    },
    verdict::{CheckEnd, Receipt},
};

use super::kit::{A_REASON, Desk, attack, member, task_spec, template};
use crate::kit::receipt;

fn finish(desk: &mut Desk) -> Vec<&'static str> {
    let events = desk
        .done(&member("boss"), Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() });
    match events.first() {
        Some(Event::FinishRefused(refused)) => refused.blockers.iter().map(Blocker::code).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_task_with_an_open_criterion_is_not_finished() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Asserted);
    assert_eq!(finish(&mut desk), ["open_criterion"]);
    assert_eq!(desk.task.phase, Phase::Active);
    let because = A_REASON.to_owned();
    desk.done(&Actor::Operator, Command::Judge { no, judgement: Judgement::Defer { because } });
    assert_eq!(finish(&mut desk), ["nothing_proved"]);
    desk.prove();
    assert_eq!(finish(&mut desk), Vec::<&str>::new());
    assert_eq!(desk.task.phase.word(), "done");
}

#[test]
fn what_is_only_proposed_is_open_too() {
    let mut desk = Desk::paired();
    let text = "the limit can be configured".to_owned();
    desk.done(&member("hand"), Command::Propose { text, rationale: None, needs: Needs::Asserted });
    assert_eq!(finish(&mut desk), ["open_criterion"]);
}

#[test]
fn to_finish_twice_is_to_finish_once() {
    let mut desk = Desk::paired();
    desk.prove();
    finish(&mut desk);
    let before = desk.events.len();
    finish(&mut desk);
    assert_eq!(desk.events.len(), before);
    let because = A_REASON.to_owned();
    assert_eq!(desk.refused(&Actor::Operator, Command::Cancel { because }), Rejected::Over("done"));
}

#[test]
fn to_stop_is_not_to_be_done() {
    let mut desk = Desk::paired();
    let because = A_REASON.to_owned();
    desk.done(&Actor::Operator, Command::Cancel { because: because.clone() });
    assert_eq!(desk.task.phase.word(), "cancelled");
    let why = desk.refused(&Actor::Operator, Command::Finish { because, allow: Vec::new() });
    assert_eq!(why, Rejected::Over("cancelled"));
}

#[test]
fn d17_a_last_move_is_a_blocker_until_the_task_is_finished() {
    let mut desk = Desk::paired();
    desk.prove();
    let because = A_REASON.to_owned();
    desk.done(&member("boss"), Command::RecordMove { kind: MoveKind::Stop, because });
    assert_eq!(desk.task.readiness(|_| None), [Blocker::DecidedNotFinished]);
    assert_eq!(finish(&mut desk), Vec::<&str>::new());
    assert_eq!(desk.task.readiness(|_| None), []);
}

#[test]
fn everything_that_the_contract_asks_for_is_done_first() {
    let epilogue: BTreeSet<Epilogue> = [Epilogue::Handover, Epilogue::SeparateReview].into();
    let config = Config { epilogue, adversarial: true, ..Config::default() };
    let mut desk = Desk::paired();
    desk.begin_loop(template(2));
    let change = Command::Configure { config: Box::new(config), expected: 0 };
    desk.done(&Actor::Operator, change);
    let blockers: Vec<&str> = desk.task.blockers(|_| None).iter().map(Blocker::code).collect();
    let all = [
        "contract_unacknowledged",
        "epilogue_open",
        "epilogue_open",
        "not_attacked",
        "loop_incomplete",
    ];
    assert_eq!(blockers, all);
    desk.done(&member("boss"), Command::AcknowledgeContract { revision: 1 });
    for (step, by) in [(Epilogue::Handover, "boss"), (Epilogue::SeparateReview, "eye")] {
        let evidence = "the notes are in docs/limits.md".to_owned();
        desk.done(&member(by), Command::DoEpilogue { step, evidence });
    }
    desk.done(&member("eye"), Command::AttackWork { attack: attack() });
    desk.show_all("one");
    assert_eq!(finish(&mut desk), Vec::<&str>::new());
    let passed = Box::new(receipt("one", "test", CheckEnd::Exit(0)));
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt: passed, compared: None });
    assert_eq!(desk.task.phase.word(), "done");
    let ended = desk.task.looped.as_ref().and_then(|looped| looped.ended.clone());
    assert_eq!(ended, Some(provost_core::task::LoopEnd::Finished));
}

#[test]
fn finishing_runs_the_checks_again_on_the_tree_that_is_finished() {
    let mut desk = Desk::open(TaskSpec { checks: vec!["lint".to_owned()], ..task_spec() });
    desk.bind("hand", provost_core::task::Role::Worker, None);
    let no = desk.criterion(Needs::Verified { check: "test".to_owned() });
    let done = |no, command: &str, end| Command::CheckDone {
        no,
        receipt: Box::new(receipt("tree", command, end)),
        compared: None,
    };
    let what = provost_core::task::Checked::Criterion(no);
    desk.done(&Actor::Operator, Command::Check { what });
    desk.done(&Actor::Provost, done(1, "test", CheckEnd::Exit(0)));
    let because = A_REASON.to_owned();
    desk.done(&Actor::Operator, Command::Finish { because: because.clone(), allow: Vec::new() });
    assert_eq!(desk.task.effects().len(), 2, "the check of the task, and that of the criterion");
    let again = Command::Finish { because, allow: Vec::new() };
    assert_eq!(desk.refused(&Actor::Operator, again.clone()), Rejected::BeingAudited);
    desk.done(&Actor::Provost, done(2, "lint", CheckEnd::Exit(0)));
    assert_eq!(desk.task.phase, Phase::Active);
    desk.done(&Actor::Provost, done(3, "test", CheckEnd::Exit(1)));
    assert_eq!(desk.task.phase, Phase::Active);
    let codes: Vec<&str> = desk.task.blockers.iter().map(Blocker::code).collect();
    assert_eq!(codes, ["check_failed"]);
    desk.done(&Actor::Operator, again);
    desk.done(&Actor::Provost, done(4, "lint", CheckEnd::Exit(0)));
    desk.done(&Actor::Provost, done(5, "test", CheckEnd::Exit(0)));
    assert_eq!(desk.task.phase.word(), "done");
    assert!(desk.task.is_closed());
}

/// The name of a failed check alone does not help the member who has to fix it.
#[test]
fn a_check_that_keeps_a_task_from_being_finished_is_told_with_its_end_and_what_it_printed() {
    let checks = vec!["cargo test".to_owned()];
    let mut desk = Desk::open(TaskSpec { checks, ..task_spec() });
    desk.bind("hand", provost_core::task::Role::Worker, None);
    desk.done(
        &Actor::Operator,
        Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    let long = "many words ".repeat(200);
    let tail = format!("{long}\nsh: 1: cargo: \u{1b}[31mnot \"found\"\n\n");
    let receipt = Receipt { tail, ..receipt("tree", "cargo test", CheckEnd::Exit(127)) };
    let receipt = Box::new(receipt);
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt, compared: None });
    let told = desk.task.blockers[0].to_string();
    let how = "final tree: exit 127; last output: \"sh: 1: cargo: \\u{1b}[31mnot \\\"found\\\"\"";
    assert!(told.ends_with(how), "{told}");
    let kept = serde_json::to_value(&desk.task.blockers[0]).unwrap();
    assert!(kept["tail"].as_str().unwrap().chars().count() <= 400, "{kept}");
    // Blockers recorded by older versions are read, without the new details.
    let old = r#"{"blocker":"check_failed","command":"a","output":"b"}"#;
    let old: Blocker = serde_json::from_str(old).unwrap();
    assert!(old.to_string().ends_with("on the final tree"), "{old}");
}

#[test]
fn what_a_loops_evidence_rests_on_is_checked_again_on_the_tree_that_is_finished() {
    let mut desk = Desk::paired();
    desk.begin_loop(template(3));
    desk.show_all("old");
    assert_eq!(finish(&mut desk), [] as [&str; 0]);
    assert_eq!(desk.task.phase, Phase::Active, "not yet");
    let failed = Box::new(receipt("new", "test", CheckEnd::Exit(1)));
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt: failed, compared: None });
    let codes: Vec<&str> = desk.task.blockers.iter().map(Blocker::code).collect();
    assert_eq!((desk.task.phase.word(), codes), ("active", vec!["check_failed"]));
}

#[test]
fn what_becomes_open_during_the_audit_counts() {
    let mut desk = Desk::open(TaskSpec { checks: vec!["lint".to_owned()], ..task_spec() });
    desk.bind("hand", provost_core::task::Role::Worker, None);
    desk.done(
        &Actor::Operator,
        Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() },
    );
    desk.criterion(Needs::Asserted);
    let receipt = Box::new(receipt("tree", "lint", CheckEnd::Exit(0)));
    desk.done(&Actor::Provost, Command::CheckDone { no: 1, receipt, compared: None });
    let codes: Vec<&str> = desk.task.blockers.iter().map(Blocker::code).collect();
    assert_eq!((desk.task.phase.word(), codes), ("active", vec!["open_criterion"]));
}

#[test]
fn what_still_waits_when_a_task_ends_is_called_off() {
    let mut desk = Desk::paired();
    let no = desk.post(&member("boss"), "hand", "a");
    desk.done(&Actor::Operator, Command::Fail { because: A_REASON.to_owned() });
    assert_eq!(desk.standing(no).word(), "cancelled");
    assert_eq!(desk.task.deadline(), None);
}

#[test]
fn a_satisfied_criterion_can_be_doubted() {
    let mut desk = Desk::paired();
    let no = desk.criterion(Needs::Asserted);
    let (text, by) = ("it was tried by hand and held".to_owned(), "hand".to_owned());
    let judgement = Judgement::Satisfy { evidence: Evidence::Asserted { text, by } };
    desk.done(&member("boss"), Command::Judge { no, judgement });
    let because = A_REASON.to_owned();
    desk.done(&member("boss"), Command::Judge { no, judgement: Judgement::Reopen { because } });
    assert_eq!(finish(&mut desk), ["open_criterion"]);
}

#[test]
fn what_somebody_has_when_a_task_ends_is_settled() {
    let mut desk = Desk::paired();
    let accepted = desk.post(&member("boss"), "hand", "a");
    desk.take("hand");
    let offered = desk.post(&member("boss"), "hand", "b");
    desk.next("hand").expect("it waits");
    let allow = Allowance::ALL.to_vec();
    desk.done(&Actor::Operator, Command::Finish { because: A_REASON.to_owned(), allow });
    assert_eq!(
        (desk.standing(accepted).word(), desk.standing(offered).word()),
        ("cancelled", "cancelled")
    );
    assert_eq!(desk.task.deadline(), None);
    assert!(desk.task.is_closed());
}

#[test]
fn a_manager_that_has_more_done_did_not_decide_to_stop() {
    let move_ = |kind| Command::RecordMove { kind, because: A_REASON.to_owned() };
    let begin = Command::BeginLoop { template: Box::new(template(2)) };
    for goes_on in [super::kit::post("hand", "more"), begin] {
        let mut desk = Desk::paired();
        desk.done(&member("boss"), move_(MoveKind::Stop));
        desk.done(&member("hand"), super::kit::post("boss", "of another"));
        desk.done(&member("boss"), super::kit::post("operator", "told"));
        let decided =
            |desk: &Desk| desk.task.readiness(|_| None).contains(&Blocker::DecidedNotFinished);
        assert!(decided(&desk), "that has nothing more done");
        desk.done(&member("boss"), goes_on);
        assert!(!decided(&desk));
        desk.done(&member("boss"), move_(MoveKind::Stop));
        assert!(decided(&desk), "it decided once more");
    }
}
