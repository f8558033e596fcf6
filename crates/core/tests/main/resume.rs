//! Automatic resumes: crashes, handshakes and requests of processes that ended.

use provost_core::{
    lifecycle::{Cause, ClaimKind, State},
    request::{AgentRequest, BlockingMode, RequestKind, RequestReply, RequestStatus},
    session::{
        AgentInterface, AgentMessageKind, Cursor, Event, InputEvent, LaunchReason, ProcessExit,
        RequestEvent, SendMode, SessionCommand, SessionEffect, SessionRejection, SessionSpec,
        StoppedBy, StreamSignal, TurnEnd,
    },
};

use crate::interfaces;
use crate::kit::{TestSession, send, spec};

pub(crate) fn codex() -> SessionSpec {
    let mut spec = spec();
    spec.agent.interface = interfaces::server();
    spec
}

/// A session whose agent named its thread, received its instruction and is working.
pub(crate) fn working(spec: SessionSpec) -> TestSession {
    let mut harness = TestSession::running(spec);
    begin_work(&mut harness);
    harness
}

pub(crate) fn begin_work(harness: &mut TestSession) {
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    while let Some(SessionEffect::Deliver { message, .. }) = pending_delivery(harness) {
        harness.signal(StreamSignal::InputWritten { key: message });
    }
    harness.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
}

pub(crate) fn pending_delivery(harness: &TestSession) -> Option<SessionEffect> {
    harness
        .session
        .effects()
        .into_iter()
        .find(|effect| matches!(effect, SessionEffect::Deliver { .. }))
}

pub(crate) fn request_of_kind(kind: RequestKind) -> AgentRequest {
    AgentRequest {
        native: "q".to_owned(),
        kind,
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    }
}

pub(crate) fn turn_ended(end: TurnEnd) -> StreamSignal {
    StreamSignal::TurnEnded { turn: Some("turn".to_owned()), end, usage: None, says: None }
}

#[test]
fn messages_wait_until_thread_is_named() {
    let mut harness = TestSession::running(codex());
    assert_eq!(pending_delivery(&harness), None);
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    assert!(pending_delivery(&harness).is_some());
}

#[test]
fn missing_thread_name_fails_the_launch() {
    let mut harness = TestSession::running(codex());
    harness.advance_clock(59_999);
    assert_eq!(harness.state(), State::Working);
    harness.advance_clock(1);
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Launch)));
}

#[test]
fn handshake_timeout_restarts_with_new_daemon() {
    let mut harness = TestSession::new(codex());
    harness.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    harness.advance_clock(3_600_000).start();
    assert_eq!(
        harness.state(),
        State::Working,
        "the timeout starts with the process, not with the request"
    );
    harness.now.mono_ms += 3_600_000;
    let launch = harness.launch();
    harness.apply(SessionCommand::LaunchFollowed { launch });
    harness.advance_clock(59_999);
    assert_eq!(harness.state(), State::Working, "a new daemon has as much time as the first");
    let waiting = harness.session.clone();
    harness.advance_clock(1);
    assert_eq!(harness.cause(), Some(Cause::Launch));
    harness.session = waiting;
    harness.signal(StreamSignal::Ready { thread: None });
    assert_eq!(
        harness.try_apply(SessionCommand::LaunchFollowed { launch }),
        Err(SessionRejection::NothingNew)
    );
}

#[test]
fn refusing_agent_fails_launch_with_reason() {
    let mut harness = TestSession::running(codex());
    harness.signal(StreamSignal::Refused { reason: "too old".to_owned() });
    let stopped = harness.session.attempt().stopped.clone().map(|(_, detail)| detail);
    assert_eq!(stopped.as_deref(), Some("too old"));
}

#[test]
fn crashed_agent_resumes_at_most_n_times() {
    let mut harness = working(codex());
    for resume in 1..=2 {
        harness.end(ProcessExit::Signal(9));
        assert_eq!(harness.session.launches.len(), resume + 1);
        assert_eq!(harness.session.launches[resume].why, LaunchReason::Crash);
        assert_eq!(harness.state(), State::Working);
        harness.start();
        let message =
            harness.session.input.messages.last().expect("it gets a continuation message").clone();
        assert_eq!(message.kind, AgentMessageKind::Continue);
        assert!(
            message.text.contains("signal 9") && message.text.contains("do it"),
            "{}",
            message.text
        );
        begin_work(&mut harness);
    }
    harness.end(ProcessExit::Signal(9)).settle();
    assert_eq!(harness.session.launches.len(), 3);
    assert_eq!(harness.state(), State::Failed);
}

#[test]
fn crashed_agent_is_not_sealed_before_tree_ends() {
    let mut harness = working(codex());
    harness.exit(ProcessExit::Signal(9), StoppedBy::Itself);
    assert_eq!(harness.session.deadline(), None, "only what is observed ends the wait");
    harness.advance_clock(3_600_000);
    assert!(!harness.sealed());
    let launch = harness.launch();
    harness.signal(StreamSignal::Closed).apply(SessionCommand::ProcessTreeGone {
        launch,
        leftovers: 1,
        verified: true,
    });
    assert_eq!(harness.session.launches[1].why, LaunchReason::Crash);
}

#[test]
fn agent_dead_before_input_gets_only_instruction() {
    let mut harness = TestSession::running(codex());
    harness
        .signal(StreamSignal::Ready { thread: Some("t".to_owned()) })
        .end(ProcessExit::Signal(9));
    let kinds: Vec<AgentMessageKind> =
        harness.session.input.messages.iter().map(|m| m.kind).collect();
    assert_eq!(kinds, [AgentMessageKind::Instruction]);
}

#[test]
fn unnamed_or_claimed_agent_is_not_resumed() {
    let mut harness = TestSession::running(codex());
    harness.end(ProcessExit::Signal(9));
    assert_eq!(harness.session.launches[1].why, LaunchReason::Retry, "it is begun anew, once");
    harness.start();
    harness.end(ProcessExit::Signal(9)).settle();
    assert_eq!((harness.session.launches.len(), harness.state()), (2, State::Failed));
    let mut harness = working(codex());
    harness.claim(provost_core::lifecycle::ClaimKind::Completed).end(ProcessExit::Exit(1)).settle();
    assert_eq!((harness.session.launches.len(), harness.state()), (1, State::Disputed));
}

#[test]
fn question_survives_its_process_approval_does_not() {
    for (kind, state, fate) in [
        (RequestKind::Question, State::NeedsInput, RequestStatus::Open),
        (RequestKind::Approval, State::Working, RequestStatus::Void),
    ] {
        let mut harness = working(codex());
        harness
            .signal(StreamSignal::RequestOpened(request_of_kind(kind)))
            .end(ProcessExit::Signal(9));
        harness.start();
        harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
        assert_eq!((harness.state(), harness.session.requests[0].status), (state, fate));
        if kind == RequestKind::Approval {
            let (request, reply) = (harness.session.requests[0].id, RequestReply::Deny);
            let late = harness.try_apply(SessionCommand::Answer { request, revision: 1, reply });
            let why = "the process that asked has ended";
            assert_eq!(late, Err(SessionRejection::RequestSettled(request, why.to_owned())));
        }
        let continued =
            harness.session.input.messages.iter().any(|m| m.kind == AgentMessageKind::Continue);
        assert_eq!(
            continued,
            kind == RequestKind::Approval,
            "an agent that waits for an answer gets no continuation"
        );
    }
}

#[test]
fn undelivered_approval_is_lost_answer_is_kept() {
    for (kind, reply) in [
        (RequestKind::Approval, RequestReply::Approve(provost_core::request::ApprovalScope::Once)),
        (RequestKind::Question, RequestReply::Text("blue".to_owned())),
    ] {
        let mut harness = working(codex());
        harness.signal(StreamSignal::RequestOpened(request_of_kind(kind)));
        let request = harness.session.requests[0].id;
        harness
            .apply(SessionCommand::Answer { request, revision: 1, reply })
            .end(ProcessExit::Signal(9));
        harness.start();
        let lost: Vec<&Event> = harness.log.iter().map(|(_, event)| event).collect();
        let lost =
            lost.iter().any(|event| matches!(event, Event::Input(InputEvent::MessageLost(_))));
        assert_eq!(
            lost,
            kind == RequestKind::Approval,
            "an approval is only for the process that asked"
        );
        assert_eq!(harness.session.launches.len(), 2);
    }
}

#[test]
fn stopped_session_keeps_question_voids_approval() {
    let withdrawn = || StreamSignal::RequestWithdrawn { native: "q".to_owned() };
    let answer = |harness: &TestSession, reply| SessionCommand::Answer {
        request: harness.session.requests[0].id,
        revision: 1,
        reply,
    };
    let mut harness = working(codex());
    harness
        .signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)))
        .apply(SessionCommand::Stop);
    let late = answer(&harness, RequestReply::Approve(provost_core::request::ApprovalScope::Once));
    let why = harness.try_apply(late).expect_err("the session was stopped").to_string();
    assert!(why.ends_with("no longer open: the session was stopped"), "{why}");
    let mut harness = working(codex());
    harness
        .signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Question)))
        .apply(SessionCommand::Stop);
    let again = SessionCommand::Observed {
        launch: harness.launch(),
        signal: withdrawn(),
        cursor: Cursor { offset: 1_000_000, skip: 0 },
    };
    assert_eq!(
        harness.try_apply(again),
        Err(SessionRejection::NothingNew),
        "it had to, since it ends"
    );
    let blue = answer(&harness, RequestReply::Text("blue".to_owned()));
    let request = harness.session.requests[0].id;
    assert_eq!(harness.try_apply(blue.clone()), Err(SessionRejection::BeingStopped(request)));
    harness
        .signal(turn_ended(TurnEnd::Interrupted))
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .settle();
    assert_eq!((harness.state(), harness.sealed()), (State::NeedsInput, false));
    harness.apply(blue);
    assert_eq!(harness.session.launches[1].why, LaunchReason::Answer);
    let mut harness = working(codex());
    harness.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Question)));
    harness.apply(SessionCommand::Cancel { because: String::new() }).signal(withdrawn());
    assert_eq!(
        harness.session.requests[0].status,
        RequestStatus::Void,
        "the agent did not withdraw it"
    );
    let why = harness
        .try_apply(answer(&harness, RequestReply::Deny))
        .expect_err("it is over")
        .to_string();
    assert!(why.ends_with("the session was cancelled"), "{why}");
}

#[test]
fn policy_settles_approval_once_without_user() {
    use provost_core::{
        policy::{Matcher, PolicyRule, RuleDecision},
        request::{CommandLookup, ProgramLookup},
    };
    let mut spec = codex();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let rule =
        |decision, text: &str| PolicyRule { decision, matches: Matcher::Command(words(text)) };
    spec.policy.rules =
        vec![rule(RuleDecision::Allow, "cargo test"), rule(RuleDecision::Deny, "rm -rf")];
    for (command, reply) in [
        (
            "cargo test -p core",
            Some(RequestReply::Approve(provost_core::request::ApprovalScope::Once)),
        ),
        ("bash -lc 'cargo test && rm -rf /'", Some(RequestReply::Deny)),
        ("cargo build", None),
    ] {
        let mut harness = working(spec.clone());
        let found = |word| ProgramLookup { word, file: Some("/bin/x".to_owned()), refused: None };
        let programs = provost_core::policy::programs(command).into_iter().map(found).collect();
        let subject = provost_core::request::ApprovalSubject {
            command: Some(command.to_owned()),
            lookup: Some(CommandLookup { in_worktree: true, programs }),
            ..Default::default()
        };
        harness.signal(StreamSignal::RequestOpened(AgentRequest {
            subject: Some(Box::new(subject)),
            ..request_of_kind(RequestKind::Approval)
        }));
        let ruled = harness
            .log
            .iter()
            .filter(|(_, e)| matches!(e, Event::Request(RequestEvent::RequestRuled(_))))
            .count();
        assert_eq!(ruled, usize::from(reply.is_some()), "{command}");
        let given = harness.session.input.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(given, reply, "{command}");
        let state = if reply.is_some() { State::Working } else { State::NeedsInput };
        assert_eq!(harness.state(), state, "{command}");
    }
}

#[test]
fn removed_conversation_is_not_resumed() {
    let mut harness = working(codex());
    assert_eq!(
        harness.try_apply(SessionCommand::ConversationRemoved),
        Err(SessionRejection::NothingNew),
        "it is in use"
    );
    harness.claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok)).settle();
    harness
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .apply(SessionCommand::ConversationRemoved);
    assert_eq!(
        harness.try_apply(SessionCommand::ConversationRemoved),
        Err(SessionRejection::NothingNew),
        "once"
    );
    let gone = Err(SessionRejection::ConversationGone);
    assert_eq!(harness.try_apply(send("again", SendMode::Continue)), gone);
    assert_eq!((harness.state(), harness.session.attempts.len()), (State::Completed, 1));
}

#[test]
fn only_crash_in_named_thread_resumes_after_drain() {
    let mut harness = working(codex());
    harness.exit(ProcessExit::Signal(9), StoppedBy::Itself);
    let launch = harness.launch();
    harness.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert_eq!(harness.session.launches.len(), 1, "its journal may still bring something");
    harness.signal(StreamSignal::Closed);
    assert_eq!(harness.session.launches.len(), 2);

    let ended = |end: ProcessExit, by: StoppedBy| {
        let mut harness = working(codex());
        harness.end_by(end, by);
        harness.session.launches.len()
    };
    assert_eq!(ended(ProcessExit::Exit(0), StoppedBy::Itself), 1, "it left of its own will");
    assert_eq!(ended(ProcessExit::Signal(9), StoppedBy::Provost), 1, "it was ended");

    let mut nameless = TestSession::running(codex());
    nameless.end(ProcessExit::Signal(9));
    nameless.start();
    nameless.end(ProcessExit::Signal(9));
    let whys: Vec<LaunchReason> =
        nameless.session.launches.iter().map(|launch| launch.why).collect();
    assert_eq!(
        whys,
        [LaunchReason::First, LaunchReason::Retry],
        "no conversation is there to resume"
    );
    let mut talker = spec();
    talker.agent.interface = AgentInterface::json_lines();
    let mut talker = working(talker);
    talker.end(ProcessExit::Signal(9));
    assert_eq!(talker.session.launches.len(), 1, "it cannot take a conversation up again");
}

#[test]
fn stopped_or_cancelled_agent_is_not_resumed() {
    let mut stopped = working(codex());
    stopped.apply(SessionCommand::Stop);
    stopped.end_by(ProcessExit::Exit(1), StoppedBy::Itself);
    assert_eq!(stopped.session.launches.len(), 1, "its process was being stopped");
    let mut cancelled = working(codex());
    cancelled.exit(ProcessExit::Signal(9), StoppedBy::Itself);
    cancelled.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    let launch = cancelled.launch();
    cancelled.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    cancelled.signal(StreamSignal::Closed);
    assert_eq!(cancelled.session.launches.len(), 1, "it died before it was stopped");
}

#[test]
fn request_of_ended_session_names_why_it_is_void() {
    let mut harness = working(codex());
    harness.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)));
    let request = harness.session.requests[0].id;
    harness
        .apply(SessionCommand::Stop)
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .settle();
    let answer = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    let settled = |why: &str| Err(SessionRejection::RequestSettled(request, why.to_owned()));
    assert_eq!(harness.decide(&answer), settled("the session was stopped"));

    let mut spec = codex();
    spec.bounds.resumes = 0;
    let mut harness = working(spec);
    harness.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)));
    harness.end(ProcessExit::Signal(9)).settle();
    let request = harness.session.requests[0].id;
    let answer = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    assert_eq!(
        harness.decide(&answer),
        Err(SessionRejection::RequestSettled(request, "the session ended".to_owned()))
    );
}
