//! Automatic resumes and their bounds: crashes, usage limits, budgets and handshakes.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::{AgentRequest, BlockingMode, RequestKind, RequestReply, RequestStatus},
    session::{
        AgentInterface, AgentMessageKind, Budget, Cursor, Event, InputEvent, LaunchReason,
        ProcessExit, RequestEvent, SendMode, SessionCommand, SessionEffect, SessionRejection,
        SessionSpec, StoppedBy, StreamSignal, TurnEnd, Usage,
    },
};

use crate::interfaces;
use crate::kit::{TestSession, send, spec};

fn codex() -> SessionSpec {
    let mut spec = spec();
    spec.agent.interface = interfaces::server();
    spec
}

/// A session whose agent named its thread, received its instruction and is working.
fn working(spec: SessionSpec) -> TestSession {
    let mut harness = TestSession::running(spec);
    begin_work(&mut harness);
    harness
}

fn begin_work(harness: &mut TestSession) {
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    while let Some(SessionEffect::Deliver { message, .. }) = pending_delivery(harness) {
        harness.signal(StreamSignal::InputWritten { key: message });
    }
    harness.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
}

fn pending_delivery(harness: &TestSession) -> Option<SessionEffect> {
    harness
        .session
        .effects()
        .into_iter()
        .find(|effect| matches!(effect, SessionEffect::Deliver { .. }))
}

fn request_of_kind(kind: RequestKind) -> AgentRequest {
    AgentRequest {
        native: "q".to_owned(),
        kind,
        waiting: BlockingMode::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    }
}

fn turn_ended(end: TurnEnd) -> StreamSignal {
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
            harness.session.messages.last().expect("it gets a continuation message").clone();
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
    let kinds: Vec<AgentMessageKind> = harness.session.messages.iter().map(|m| m.kind).collect();
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
            harness.session.messages.iter().any(|m| m.kind == AgentMessageKind::Continue);
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
fn usage_limit_is_waited_out_then_resumed() {
    let mut harness = working(codex());
    let until = u64::try_from(harness.now.wall_ms).expect("later than 1970") + 3_600_000;
    harness.signal(turn_ended(TurnEnd::Limited {
        until_ms: Some(until),
        detail: "used up".to_owned(),
    }));
    let limited = |harness: &TestSession| harness.session.judgement().has(Flag::Limited);
    assert!(limited(&harness) && harness.state() == State::Working);
    harness.advance_clock(3_599_999);
    assert!(limited(&harness), "not before its time, and no silence is shown meanwhile");
    harness.advance_clock(harness.session.spec.bounds.limit_jitter_ms + 1);
    assert!(!limited(&harness));
    let last = harness.session.messages.last().expect("it gets a continuation message");
    assert_eq!(last.kind, AgentMessageKind::Continue);
    assert!(pending_delivery(&harness).is_some());
}

#[test]
fn usage_limit_is_waited_for_at_most_n_times() {
    let mut spec = codex();
    spec.bounds.limit_waits = 2;
    let mut harness = working(spec);
    let limit = || turn_ended(TurnEnd::Limited { until_ms: None, detail: "used up".to_owned() });
    for _ in 0..2 {
        harness.signal(limit());
        assert_eq!(harness.state(), State::Working);
        harness.advance_clock(16 * 60 * 1_000);
        begin_work(&mut harness);
    }
    harness.signal(limit()).settle();
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::AgentError)));
}

#[test]
fn a09_limit_slot_moves_the_wait_end() {
    let mut harness = working(codex());
    let slot = |harness: &mut TestSession, at_ms| {
        let now = harness.now;
        harness.session.evolve(now, &provost_core::session::LimitSlot { at_ms }.into());
    };
    slot(&mut harness, 7);
    assert_eq!((harness.session.limited.clone(), harness.session.released_ms), (None, None));
    harness.signal(turn_ended(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    assert_eq!(harness.session.limit_wait(), harness.session.limited.as_ref());
    let at = harness.now.mono_ms + 40_000_000;
    slot(&mut harness, at);
    harness.advance_clock(39_999_999);
    assert!(harness.session.limit_wait().is_some());
    harness.advance_clock(1);
    assert_eq!((harness.session.limit_wait(), harness.session.released_ms), (None, Some(at)));
}

#[test]
fn a09_jitter_derives_from_account_or_session() {
    let until = |account: Option<&str>, spread| {
        let mut spec = codex();
        spec.agent.profile.account = account.map(str::to_owned);
        spec.bounds.limit_jitter_ms = spread;
        let mut harness = working(spec);
        harness.signal(turn_ended(TurnEnd::Limited { until_ms: Some(0), detail: String::new() }));
        let reported_ms = harness.now.mono_ms;
        // A wait of 0 ms ends at once.
        harness.session.limit_wait().map_or(0, |wait| wait.until_mono_ms - reported_ms)
    };
    // FNV-1a of these texts; it must never change.
    assert_eq!(until(Some("a"), 10_000), 0xaf63_dc4c_8601_ec8c_u64 % 10_000);
    assert_eq!(until(Some("foobar"), 10_000), 0x8594_4171_f739_67e8_u64 % 10_000);
    assert_eq!(until(Some("foobar"), 0), 0);
    let own = working(codex()).session.id.jitter_ms(10_000);
    assert_eq!(until(None, 10_000), own);
}

#[test]
fn cancelled_session_ignores_limit_reset() {
    let mut harness = working(codex());
    harness.signal(turn_ended(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    harness.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    assert_eq!(harness.session.limit_wait(), None);
    harness.advance_clock(10 * 3_600_000);
    assert!(harness.session.messages.iter().all(|m| m.kind != AgentMessageKind::Continue));
}

#[test]
fn token_budget_stops_work_and_can_be_raised() {
    let mut spec = codex();
    spec.budget = Budget { tokens: Some(100), turns: None };
    let mut harness = working(spec);
    let use_up = |harness: &mut TestSession, input, output| {
        harness.signal(StreamSignal::Usage(Usage { input, output }));
    };
    use_up(&mut harness, 60, 39);
    assert_eq!(harness.state(), State::Working);
    use_up(&mut harness, 1, 0);
    let judged = harness.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Budget)));
    harness.signal(turn_ended(TurnEnd::Interrupted)).end(ProcessExit::Exit(0)).settle();
    assert!(harness.sealed());
    let raise = |tokens| SessionCommand::RaiseBudget { tokens: Some(tokens), turns: None };
    assert!(matches!(harness.try_apply(raise(100)), Err(SessionRejection::BudgetNotRaised(_))));
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let Err(SessionRejection::BudgetUsedUp(used_up)) = harness.try_apply(send("early", mode))
        else {
            panic!("an attempt would end as it begins")
        };
        assert_eq!(used_up.detail, "100 of 100 tokens are used");
        assert!(used_up.over_tokens && !used_up.over_turns);
    }
    harness.apply(raise(200));
    harness.apply(send("k", SendMode::Continue));
    harness.start();
    begin_work(&mut harness);
    assert_eq!(
        harness.state(),
        State::Working,
        "what was used before still counts, and is not all"
    );
    use_up(&mut harness, 100, 0);
    assert_eq!(harness.state(), State::Failed);
}

#[test]
fn turn_budget_stops_after_last_turn() {
    let mut spec = codex();
    spec.budget = Budget { tokens: None, turns: Some(1) };
    let mut harness = working(spec);
    harness.advance_clock(1_000);
    assert_eq!(harness.state(), State::Working, "the one that was begun is within");
    harness.signal(turn_ended(TurnEnd::Ok));
    assert_eq!(harness.session.judgement().cause, Some(Cause::Budget));
}

#[test]
fn exhausted_budget_rejects_instruction() {
    for (tokens, turns, over) in [
        (Some(5), Some(1), Some((true, true))),
        (Some(5), None, Some((true, false))),
        (None, Some(1), Some((false, true))),
        (Some(6), Some(2), None),
    ] {
        let mut spec = codex();
        spec.budget = Budget { tokens, turns };
        let mut harness = working(spec);
        harness.claim(ClaimKind::Completed);
        let usage = Some(Usage { input: 4, output: 1 });
        harness.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage, says: None });
        let steered = harness.decide(&send("steer", SendMode::Continue));
        assert!(steered.is_ok(), "what is said to the open attempt is decided by its own budget");
        harness.settle();
        assert_eq!(harness.state(), State::Completed, "the claim came within the budget");
        let exhausted = match harness.decide(&send("next", SendMode::Continue)) {
            Err(SessionRejection::BudgetUsedUp(used_up)) => {
                Some((used_up.over_tokens, used_up.over_turns))
            }
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        };
        assert_eq!(exhausted, over);
    }
}

#[test]
fn one_shot_exit_0_needs_a_successful_turn() {
    for (end, state) in [
        (Some(TurnEnd::Ok), State::Completed),
        (None, State::ExitedWithoutClaim),
        (Some(TurnEnd::Interrupted), State::ExitedWithoutClaim),
        (Some(TurnEnd::Error("no".to_owned())), State::Failed),
    ] {
        let mut spec = spec();
        spec.agent.interface = interfaces::one_shot();
        spec.exit_zero = provost_core::session::ExitZeroPolicy::Completes;
        let mut harness = TestSession::running(spec);
        harness.signal(StreamSignal::TurnStarted { turn: None });
        if let Some(end) = end.clone() {
            let usage = Some(Usage { input: 3, output: 4 });
            harness.signal(StreamSignal::TurnEnded { turn: None, end, usage, says: None });
            assert_eq!(harness.session.usage, Usage { input: 3, output: 4 });
        }
        harness.end(ProcessExit::Exit(0)).settle();
        assert_eq!(harness.state(), state, "{end:?}");
    }
}

#[test]
fn repeated_warning_is_kept_once() {
    let mut harness = working(codex());
    let warned = StreamSignal::Warned { text: "no questions".to_owned() };
    harness.signal(warned.clone());
    let cursor = provost_core::session::Cursor { offset: 1_000_000, skip: 0 };
    let again = SessionCommand::Observed { launch: harness.launch(), signal: warned, cursor };
    assert_eq!(harness.try_apply(again), Err(SessionRejection::NothingNew));
    assert_eq!(harness.session.warnings, ["no questions"]);
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
        let given = harness.session.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(given, reply, "{command}");
        let state = if reply.is_some() { State::Working } else { State::NeedsInput };
        assert_eq!(harness.state(), state, "{command}");
    }
}

#[test]
fn only_configured_approvals_expire() {
    for (kind, approval_ms, expires) in [
        (RequestKind::Approval, Some(60_000), true),
        (RequestKind::Approval, None, false),
        (RequestKind::Question, Some(60_000), false),
    ] {
        let mut spec = codex();
        spec.bounds.approval_ms = approval_ms;
        let mut harness = working(spec);
        harness.signal(StreamSignal::RequestOpened(request_of_kind(kind))).advance_clock(59_999);
        assert_eq!(harness.session.requests[0].status, RequestStatus::Open);
        harness.advance_clock(1);
        let denied = harness.session.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(denied, expires.then_some(RequestReply::Deny), "{kind:?} {approval_ms:?}");
        let fate = if expires { RequestStatus::Answered } else { RequestStatus::Open };
        assert_eq!(harness.session.requests[0].status, fate);
        harness.apply(SessionCommand::Cancel { because: String::new() }).advance_clock(60_000);
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
fn one_shot_session_resumes_only_after_it_ended() {
    let mut spec = codex();
    spec.agent.interface = interfaces::one_shot();
    let mut harness = TestSession::running(spec);
    let say = || send("again", SendMode::Continue);
    harness.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let early = harness.decide(&send("early", mode));
        assert_eq!(
            early,
            Err(SessionRejection::OneShotBusy("test".to_owned())),
            "not while it runs"
        );
    }
    harness.end(ProcessExit::Exit(0)).settle();
    let mut nameless = TestSession::running(harness.session.spec.clone());
    nameless.end(ProcessExit::Exit(0)).settle();
    assert_eq!(
        nameless.try_apply(say()),
        Err(SessionRejection::OneShotWithoutConversation("test".to_owned()))
    );
    harness.apply(say());
    assert_eq!((harness.session.attempts.len(), harness.session.launches.len()), (2, 2));
    assert_eq!(harness.session.attempt().no, 2);
}

#[test]
fn one_shot_live_after_seal_rejects_messages() {
    let mut spec = codex();
    spec.agent.interface = interfaces::one_shot();
    let mut harness = TestSession::running(spec);
    harness.apply(SessionCommand::Resolve {
        to: provost_core::session::ManualOutcome::Failed,
        because: String::new(),
    });
    assert!(harness.sealed() && harness.session.launches[0].may_be_running());
    let sent = harness.decide(&send("early", SendMode::Continue));
    assert_eq!(sent, Err(SessionRejection::OneShotBusy("test".to_owned())));
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
fn approval_expiry_is_a_deadline() {
    let mut spec = codex();
    (spec.bounds.approval_ms, spec.bounds.time_limit_ms) = (Some(60_000), None);
    let mut harness = working(spec);
    harness.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)));
    let at = harness.session.requests[0].at.mono_ms + 60_000;
    assert_eq!(
        harness.session.deadline(),
        Some((at, provost_core::session::DeadlineKind::ApprovalExpiry))
    );
}

#[test]
fn warnings_are_capped() {
    let mut harness = working(codex());
    for no in 0..provost_core::limits::MAX_WARNINGS {
        harness.signal(StreamSignal::Warned { text: format!("warning {no}") });
    }
    let more = StreamSignal::Warned { text: "one more".to_owned() };
    assert_eq!(harness.try_signal(more), Err(SessionRejection::NothingNew));
    assert_eq!(harness.session.warnings.len(), provost_core::limits::MAX_WARNINGS);
}

#[test]
fn budget_can_only_be_raised() {
    let mut spec = codex();
    spec.budget = Budget { tokens: Some(100), turns: Some(5) };
    let harness = working(spec);
    let raise = |tokens, turns| harness.decide(&SessionCommand::RaiseBudget { tokens, turns });
    assert_eq!(raise(None, None), Err(SessionRejection::NothingNew));
    let not_raised = |what: &str| Err(SessionRejection::BudgetNotRaised(what.to_owned()));
    assert_eq!(raise(None, Some(5)), not_raised("5 turns"));
    assert_eq!(raise(Some(200), Some(4)), not_raised("5 turns"));
    assert_eq!(raise(Some(100), Some(6)), not_raised("100 tokens"));
    assert_eq!(raise(None, Some(6)).map(|events| events.len()), Ok(1));
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
