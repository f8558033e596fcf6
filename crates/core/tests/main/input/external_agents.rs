//! External agents: what is observed of them, and what is never done to them.

use provost_core::{
    lifecycle::{Flag, State},
    request::{ApprovalScope, RequestReply},
    session::{
        AgentInterface, Event, ProcessEvent, RecordSignal, RecordSource, ScreenHint, ScreenSource,
        SessionCommand, SessionEffect, SessionRejection,
    },
};

use super::kit::*;
use crate::kit::TestSession;

#[test]
fn adopted_agent_exit_has_no_code() {
    let mut harness = adopted_session(adopted_spec(false));
    assert_eq!(harness.state(), State::Idle);
    harness.begin_turn(10, "a").advance_clock(1_000);
    assert_eq!(harness.state(), State::Working);
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    harness.settle();
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
    assert!(harness.has_flag(Flag::ExitCodeUnobserved) && harness.has_flag(Flag::Adopted));
    assert_eq!(harness.session.launches.len(), 1, "it is not started again");
}

#[test]
fn adopted_agent_without_record_is_flagged() {
    let mut spec = adopted_spec(true);
    let later = spec.clone();
    spec.adopted.as_mut().unwrap().rollout = Some("/r".to_owned());
    let harness = adopted_session(spec.clone());
    assert!(!harness.has_flag(Flag::TurnsUnobservable), "its record tells of them");
    let mut harness = adopted_session(later);
    assert!(harness.has_flag(Flag::TurnsUnobservable), "it has written nothing yet");
    let launch = harness.launch();
    let (by, what) = (RecordSource::Rollout, RecordSignal::ThreadNamed { thread: "t".to_owned() });
    harness.apply(SessionCommand::RecordRead { launch, by, place: 1, what });
    harness.begin_turn(10, "a");
    assert_eq!(
        (harness.state(), harness.has_flag(Flag::TurnsUnobservable)),
        (State::Working, false)
    );
    spec.agent.interface = AgentInterface::terminal_command();
    let mut harness = adopted_session(spec);
    assert_eq!((harness.state(), harness.has_flag(Flag::TurnsUnobservable)), (State::Idle, true));
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    harness.settle();
    assert!(!harness.has_flag(Flag::TurnsUnobservable), "it has ended");
}

#[test]
fn request_of_ended_adopted_agent_is_void() {
    let mut harness = adopted_session(adopted_spec(true));
    harness.begin_turn(10, "a").show(
        ScreenSource::Screen,
        20,
        ScreenHint::ShowsRequest(approval()),
    );
    assert_eq!(harness.state(), State::NeedsInput);
    let request = harness.session.requests[0].id;
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it was not ours".to_owned() });
    harness.settle();
    assert_eq!(harness.state(), State::ExitedWithoutClaim);
    assert!(harness.session.attempt().is_sealed());
    let answer = SessionCommand::Answer {
        request,
        revision: 1,
        reply: RequestReply::Approve(ApprovalScope::Once),
    };
    let why = || "the process that asked has ended".to_owned();
    assert_eq!(harness.try_apply(answer), Err(SessionRejection::RequestSettled(request, why())));
}

#[test]
fn adopted_agent_is_never_stopped() {
    let mut harness = adopted_session(adopted_spec(true));
    assert_eq!(harness.try_apply(SessionCommand::Stop), Err(SessionRejection::StopExternally));
    harness.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    harness.settle();
    assert_eq!(harness.state(), State::Cancelled);
    assert!(harness.session.attempt().is_sealed(), "its process need not end for that");
    let follows = |effect: &SessionEffect| matches!(effect, SessionEffect::Follow(_));
    assert!(!harness.session.effects().iter().any(follows), "it is no longer watched");
    assert!(
        harness
            .log
            .iter()
            .all(|(_, event)| !matches!(event, Event::Process(ProcessEvent::StopRequested(_))))
    );
}

#[test]
fn adopted_agent_without_pane_rejects_messages() {
    let mut harness = adopted_session(adopted_spec(false));
    assert_eq!(harness.try_apply(send("one", "hello")), Err(SessionRejection::NoChannel));
    let mut harness = adopted_session(adopted_spec(true));
    assert_eq!(harness.try_apply(send("one", "hello")), Ok(()));
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it left".to_owned() });
    assert_eq!(harness.try_apply(send("two", "hello")), Err(SessionRejection::ExternalAgentEnded));
}

#[test]
fn unobservable_adopted_agent_is_not_ended() {
    let mut harness = adopted_session(adopted_spec(false));
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessUnknown { launch, why: "could not look".to_owned() });
    harness.advance_clock(24 * 3_600_000);
    assert!(!harness.state().is_terminal());
    let mut unseen = TestSession::new(adopted_spec(false));
    unseen.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    let launch = unseen.launch();
    unseen.apply(SessionCommand::LaunchAdopted { launch, child: None });
    unseen.advance_clock(24 * 3_600_000);
    assert!(!unseen.state().is_terminal(), "it was adopted by its record alone");
    unseen.begin_turn(10, "a");
    assert_eq!(unseen.state(), State::Working);
}

#[test]
fn answer_to_adopted_agent_needs_live_pane() {
    for pane in [false, true] {
        let mut harness = adopted_session(adopted_spec(pane));
        harness.begin_turn(10, "a").record(20, RecordSignal::RequestOpened(approval()));
        let (launch, request) = (harness.launch(), harness.session.requests[0].id);
        let answer = || SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
        if !pane {
            assert_eq!(harness.try_apply(answer()), Err(SessionRejection::NoChannel));
        }
        harness.apply(SessionCommand::ProcessUnobserved { launch, why: "it left".to_owned() });
        let why = || "the process that asked has ended".to_owned();
        assert_eq!(
            harness.try_apply(answer()),
            Err(SessionRejection::RequestSettled(request, why()))
        );
        assert_eq!(harness.session.launches.len(), 1, "it is not started again");
    }
}
