//! Requests inferred from the screen: shown with their source, ignored by policy rules, never mixed up.

use provost_core::{
    lifecycle::State,
    policy::{Matcher, Policy, PolicyRule, RuleDecision},
    request::{
        AgentRequest, ApprovalScope, ApprovalSubject, RequestKind, RequestReply, RequestStatus,
    },
    session::{DeliveryStatus, RecordSignal, ScreenHint, ScreenSource, SessionSpec, StreamSignal},
};

use crate::{
    input::kit::{WatchSignals as _, approval, pending_delivery, terminal_spec},
    kit::TestSession,
};

fn approval_for_command(command: &str) -> ScreenHint {
    let subject =
        ApprovalSubject { command: Some(command.to_owned()), ..ApprovalSubject::default() };
    ScreenHint::ShowsRequest(AgentRequest { subject: Some(Box::new(subject)), ..approval() })
}

fn requested_command(harness: &TestSession, no: usize) -> Option<&str> {
    harness.session.requests[no].asked.subject.as_deref()?.command.as_deref()
}

#[test]
fn screen_adds_subject_to_osc_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Osc, 20, ScreenHint::ShowsRequest(approval()));
    assert_eq!(requested_command(&harness, 0), None);
    harness.show(ScreenSource::Screen, 30, approval_for_command("ls"));
    assert_eq!((harness.session.requests.len(), requested_command(&harness, 0)), (1, Some("ls")));
    let request = &harness.session.requests[0];
    let subject = request.asked.subject.as_deref().unwrap();
    assert_eq!((request.revision, subject.inferred_from), (2, Some(ScreenSource::Screen)));
    harness.show(ScreenSource::Osc, 40, ScreenHint::Working);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn osc_refines_dialog_inferred_from_title() {
    let mut harness = TestSession::running(terminal_spec());
    let dialog = AgentRequest { kind: RequestKind::Dialog, ..approval() };
    harness.begin_turn(10, "a").show(ScreenSource::Title, 20, ScreenHint::ShowsRequest(dialog));
    harness.show(ScreenSource::Osc, 30, ScreenHint::ShowsRequest(approval()));
    let request = &harness.session.requests[0];
    assert_eq!((request.asked.kind, request.revision), (RequestKind::Approval, 2));
    harness.show(ScreenSource::Notify, 40, ScreenHint::ShowsRequest(approval()));
    assert_eq!(harness.session.requests[0].revision, 2, "that says nothing new");
}

#[test]
fn stale_screen_does_not_settle_osc_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Osc, 20, ScreenHint::ShowsRequest(approval()));
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    assert_eq!(harness.state(), State::NeedsInput, "its question is yet to be drawn");
    harness.show(ScreenSource::Osc, 40, ScreenHint::Working);
    assert_eq!(harness.state(), State::Working);
}

#[test]
fn screen_does_not_overwrite_recorded_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
    harness.show(ScreenSource::Screen, 30, approval_for_command("ls"));
    assert_eq!((harness.session.requests.len(), requested_command(&harness, 0)), (1, None));
}

#[test]
fn different_dialog_is_a_new_request() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Screen, 20, approval_for_command("ls"));
    harness.show(ScreenSource::Screen, 30, approval_for_command("rm -rf all"));
    let fates: Vec<RequestStatus> =
        harness.session.requests.iter().map(|request| request.status).collect();
    assert_eq!(fates, [RequestStatus::AnsweredElsewhere, RequestStatus::Open]);
    assert_eq!(requested_command(&harness, 1), Some("rm -rf all"));
}

#[test]
fn answer_is_not_reused_for_next_dialog() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Screen, 20, approval_for_command("ls"));
    let launch = harness.launch();
    harness.apply(provost_core::session::SessionCommand::ViewersChanged { launch, people: 1 });
    let (request, reply) =
        (harness.session.requests[0].id, RequestReply::Approve(ApprovalScope::Once));
    harness.apply(provost_core::session::SessionCommand::Answer { request, revision: 1, reply });
    harness.show(ScreenSource::Screen, 30, approval_for_command("rm -rf all"));
    harness.apply(provost_core::session::SessionCommand::ViewersChanged { launch, people: 0 });
    assert!(matches!(
        harness.session.input.messages[0].status,
        DeliveryStatus::Undeliverable { .. }
    ));
    assert_eq!((pending_delivery(&harness), harness.state()), (None, State::NeedsInput));
}

#[test]
fn next_dialog_confirms_typed_answer() {
    let mut harness = TestSession::running(terminal_spec());
    harness.begin_turn(10, "a").show(ScreenSource::Screen, 20, approval_for_command("ls"));
    let (request, reply) =
        (harness.session.requests[0].id, RequestReply::Approve(ApprovalScope::Once));
    harness.apply(provost_core::session::SessionCommand::Answer { request, revision: 1, reply });
    let key = pending_delivery(&harness).unwrap();
    harness.signal(StreamSignal::InputWritten { key }).show(
        ScreenSource::Screen,
        30,
        approval_for_command("rm -rf all"),
    );
    assert!(matches!(harness.session.input.messages[0].status, DeliveryStatus::Delivered { .. }));
    assert_eq!((harness.session.requests.len(), harness.state()), (2, State::NeedsInput));
}

#[test]
fn policy_ignores_inferred_requests() {
    let matches = Matcher::Command(vec!["ls".to_owned()]);
    let rules = vec![PolicyRule { decision: RuleDecision::Allow, matches }];
    let policy = Policy { rules, ..Policy::default() };
    let mut harness = TestSession::running(SessionSpec { policy, ..terminal_spec() });
    harness.begin_turn(10, "a").show(ScreenSource::Screen, 20, approval_for_command("ls"));
    assert_eq!((harness.state(), harness.session.input.messages.len()), (State::NeedsInput, 0));
    harness.show(ScreenSource::Screen, 30, ScreenHint::Working);
    let ScreenHint::ShowsRequest(asked) = approval_for_command("ls") else {
        unreachable!("it asks")
    };
    harness.record(40, RecordSignal::RequestOpened(asked));
    assert_eq!(
        harness.session.input.messages.len(),
        0,
        "a hook does not say where the command would run"
    );
}
