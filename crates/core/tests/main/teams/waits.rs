//! Waits depend only on the team's current state, not on who requested the check or when.

use provost_core::{
    team::{
        CheckEvent, CheckSubject, Event, EvidenceRequirement, FinishBlocker, TeamActor,
        TeamCommand, TeamSpec, TeamWaitResult, TeamWaitTarget,
    },
    verdict::CheckEnd,
    wait::WaitStatus,
};

use super::kit::{A_REASON, TestTeam, member, team_spec};
use crate::kit::receipt;

fn check(team: &mut TestTeam, by: &TeamActor) -> Vec<Event> {
    team.try_apply(by, TeamCommand::Check { what: CheckSubject::Criterion(1) }).unwrap_or_default()
}

fn check_done(no: u32, end: CheckEnd) -> TeamCommand {
    let receipt = Box::new(receipt("tree", "cargo test", end));
    TeamCommand::CheckDone { no, receipt, compared: None }
}

/// A team with a running check.
fn with_running_check() -> TestTeam {
    let mut team = TestTeam::paired();
    team.criterion(EvidenceRequirement::Verified { check: "cargo test".to_owned() });
    check(&mut team, &TeamActor::Operator);
    team
}

fn reason(status: WaitStatus<TeamWaitResult>) -> String {
    match status {
        WaitStatus::Impossible(reason) => reason,
        other @ (WaitStatus::Pending | WaitStatus::Done(_)) => panic!("{other:?}"),
    }
}

#[test]
fn running_check_is_pending_until_its_result() {
    let mut team = with_running_check();
    assert_eq!(team.task.wait_status(TeamWaitTarget::Check(1)), WaitStatus::Pending);
    assert_eq!(team.task.pending_check(&CheckSubject::Criterion(1)).map(|check| check.no), Some(1));
    team.apply(&TeamActor::Provost, check_done(1, CheckEnd::Exit(3)));
    let status = team.task.wait_status(TeamWaitTarget::Check(1));
    let WaitStatus::Done(TeamWaitResult::Checked { receipt }) = status else {
        panic!("{status:?}")
    };
    assert_eq!(receipt.end, CheckEnd::Exit(3));
}

#[test]
fn check_result_outlives_the_team() {
    let mut team = with_running_check();
    team.apply(&TeamActor::Provost, check_done(1, CheckEnd::Exit(0)));
    team.apply(&TeamActor::Operator, TeamCommand::Cancel { because: A_REASON.to_owned() });
    let status = team.task.wait_status(TeamWaitTarget::Check(1));
    assert!(matches!(status, WaitStatus::Done(TeamWaitResult::Checked { .. })), "{status:?}");
}

#[test]
fn check_of_cancelled_team_is_impossible() {
    let mut team = with_running_check();
    team.apply(&TeamActor::Operator, TeamCommand::Cancel { because: A_REASON.to_owned() });
    let why = reason(team.task.wait_status(TeamWaitTarget::Check(1)));
    assert!(why.contains("cancelled") && why.contains(A_REASON), "{why}");
}

#[test]
fn unrequested_check_is_impossible() {
    let team = with_running_check();
    let why = reason(team.task.wait_status(TeamWaitTarget::Check(2)));
    assert!(why.contains("never requested"), "{why}");
    let why = reason(team.task.wait_status(TeamWaitTarget::Audit(1)));
    assert!(why.contains("never requested"), "{why}");
}

#[test]
fn audit_is_pending_then_refused_or_finished() {
    let mut team =
        TestTeam::open(TeamSpec { checks: vec!["cargo test".to_owned()], ..team_spec() });
    team.bind("hand", provost_core::team::MemberRole::Worker, None);
    let finish = || TeamCommand::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
    team.apply(&TeamActor::Operator, finish());
    assert_eq!(team.task.wait_status(TeamWaitTarget::Audit(1)), WaitStatus::Pending);
    team.apply(&TeamActor::Provost, check_done(1, CheckEnd::Exit(1)));
    let status = team.task.wait_status(TeamWaitTarget::Audit(1));
    let WaitStatus::Done(TeamWaitResult::Refused { blockers }) = status else {
        panic!("{status:?}")
    };
    assert_eq!(blockers.iter().map(FinishBlocker::code).collect::<Vec<_>>(), ["check_failed"]);
    team.apply(&TeamActor::Operator, finish());
    assert_eq!(team.task.wait_status(TeamWaitTarget::Audit(2)), WaitStatus::Pending);
    let first = team.task.wait_status(TeamWaitTarget::Audit(1));
    assert!(matches!(first, WaitStatus::Done(TeamWaitResult::Refused { .. })), "{first:?}");
    team.apply(&TeamActor::Provost, check_done(2, CheckEnd::Exit(0)));
    for no in [1, 2] {
        let status = team.task.wait_status(TeamWaitTarget::Audit(no));
        assert_eq!(status, WaitStatus::Done(TeamWaitResult::Finished));
    }
}

#[test]
fn member_joining_a_check_gets_its_result() {
    let mut team = with_running_check();
    assert!(matches!(
        check(&mut team, &member("hand"))[..],
        [Event::Check(CheckEvent::CheckJoined(_))]
    ));
    assert_eq!(check(&mut team, &member("hand")), [], "it joined already");
    team.apply(&TeamActor::Provost, check_done(1, CheckEnd::Exit(0)));
    let count = |to: &str| team.task.messages.iter().filter(|one| one.to.name() == to).count();
    assert_eq!((count("hand"), count("boss"), count("operator")), (1, 1, 0));
}
