//! Waits depend only on the team's current state, not on who requested the check or when.

use provost_core::{
    task::{Actor, Awaited, Blocker, Checked, Command, Event, Needs, TaskSpec, WaitResult},
    verdict::CheckEnd,
    wait::WaitStatus,
};

use super::kit::{A_REASON, Desk, member, task_spec};
use crate::kit::receipt;

fn check(desk: &mut Desk, by: &Actor) -> Vec<Event> {
    desk.does(by, Command::Check { what: Checked::Criterion(1) }).unwrap_or_default()
}

fn done(no: u32, end: CheckEnd) -> Command {
    let receipt = Box::new(receipt("tree", "cargo test", end));
    Command::CheckDone { no, receipt, compared: None }
}

/// A team with a running check.
fn checked() -> Desk {
    let mut desk = Desk::paired();
    desk.criterion(Needs::Verified { check: "cargo test".to_owned() });
    check(&mut desk, &Actor::Operator);
    desk
}

fn reason(status: WaitStatus<WaitResult>) -> String {
    match status {
        WaitStatus::Impossible(reason) => reason,
        other @ (WaitStatus::Pending | WaitStatus::Done(_)) => panic!("{other:?}"),
    }
}

#[test]
fn running_check_is_pending_until_its_result() {
    let mut desk = checked();
    assert_eq!(desk.task.wait_status(Awaited::Check(1)), WaitStatus::Pending);
    assert_eq!(desk.task.pending_check(&Checked::Criterion(1)).map(|owed| owed.no), Some(1));
    desk.done(&Actor::Provost, done(1, CheckEnd::Exit(3)));
    let status = desk.task.wait_status(Awaited::Check(1));
    let WaitStatus::Done(WaitResult::Checked { receipt }) = status else { panic!("{status:?}") };
    assert_eq!(receipt.end, CheckEnd::Exit(3));
}

#[test]
fn result_of_a_check_outlives_the_task() {
    let mut desk = checked();
    desk.done(&Actor::Provost, done(1, CheckEnd::Exit(0)));
    desk.done(&Actor::Operator, Command::Cancel { because: A_REASON.to_owned() });
    let status = desk.task.wait_status(Awaited::Check(1));
    assert!(matches!(status, WaitStatus::Done(WaitResult::Checked { .. })), "{status:?}");
}

#[test]
fn check_of_a_cancelled_task_is_impossible() {
    let mut desk = checked();
    desk.done(&Actor::Operator, Command::Cancel { because: A_REASON.to_owned() });
    let why = reason(desk.task.wait_status(Awaited::Check(1)));
    assert!(why.contains("cancelled") && why.contains(A_REASON), "{why}");
}

#[test]
fn check_that_was_never_asked_for_is_impossible() {
    let desk = checked();
    let why = reason(desk.task.wait_status(Awaited::Check(2)));
    assert!(why.contains("never requested"), "{why}");
    let why = reason(desk.task.wait_status(Awaited::Audit(1)));
    assert!(why.contains("never requested"), "{why}");
}

#[test]
fn audit_is_pending_then_refused_or_finished() {
    let mut desk = Desk::open(TaskSpec { checks: vec!["cargo test".to_owned()], ..task_spec() });
    desk.bind("hand", provost_core::task::Role::Worker, None);
    let finish = || Command::Finish { because: A_REASON.to_owned(), allow: Vec::new() };
    desk.done(&Actor::Operator, finish());
    assert_eq!(desk.task.wait_status(Awaited::Audit(1)), WaitStatus::Pending);
    desk.done(&Actor::Provost, done(1, CheckEnd::Exit(1)));
    let status = desk.task.wait_status(Awaited::Audit(1));
    let WaitStatus::Done(WaitResult::Refused { blockers }) = status else { panic!("{status:?}") };
    assert_eq!(blockers.iter().map(Blocker::code).collect::<Vec<_>>(), ["check_failed"]);
    desk.done(&Actor::Operator, finish());
    assert_eq!(desk.task.wait_status(Awaited::Audit(2)), WaitStatus::Pending);
    let first = desk.task.wait_status(Awaited::Audit(1));
    assert!(matches!(first, WaitStatus::Done(WaitResult::Refused { .. })), "{first:?}");
    desk.done(&Actor::Provost, done(2, CheckEnd::Exit(0)));
    for no in [1, 2] {
        let status = desk.task.wait_status(Awaited::Audit(no));
        assert_eq!(status, WaitStatus::Done(WaitResult::Finished));
    }
}

#[test]
fn member_that_joins_a_check_is_told_its_result() {
    let mut desk = checked();
    assert!(matches!(check(&mut desk, &member("hand"))[..], [Event::CheckJoined(_)]));
    assert_eq!(check(&mut desk, &member("hand")), [], "it joined already");
    desk.done(&Actor::Provost, done(1, CheckEnd::Exit(0)));
    let told = |to: &str| desk.task.messages.iter().filter(|one| one.to.name() == to).count();
    assert_eq!((told("hand"), told("boss"), told("operator")), (1, 1, 0));
}
