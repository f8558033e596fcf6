//! Automatic resumes and their bounds: crashes, usage limits, budgets and handshakes.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::{AgentRequest, BlockingMode, RequestKind, RequestReply, RequestStatus},
    session::{
        AgentInterface, AgentMessageKind, Budget, Cursor, Event, LaunchReason, ProcessExit,
        SendMode, SessionCommand, SessionEffect, SessionRejection, SessionSpec, StoppedBy,
        StreamSignal, TurnEnd, Usage,
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
    let mut bench = TestSession::running(spec);
    begin_work(&mut bench);
    bench
}

fn begin_work(bench: &mut TestSession) {
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    while let Some(SessionEffect::Deliver { message, .. }) = pending_delivery(bench) {
        bench.signal(StreamSignal::InputWritten { key: message });
    }
    bench.signal(StreamSignal::TurnStarted { turn: Some("turn".to_owned()) });
}

fn pending_delivery(bench: &TestSession) -> Option<SessionEffect> {
    bench
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
    let mut bench = TestSession::running(codex());
    assert_eq!(pending_delivery(&bench), None);
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    assert!(pending_delivery(&bench).is_some());
}

#[test]
fn missing_thread_name_fails_the_launch() {
    let mut bench = TestSession::running(codex());
    bench.advance_clock(59_999);
    assert_eq!(bench.state(), State::Working);
    bench.advance_clock(1);
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Launch)));
}

#[test]
fn handshake_timeout_restarts_with_new_daemon() {
    let mut bench = TestSession::new(codex());
    bench.apply(SessionCommand::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.advance_clock(3_600_000).start();
    assert_eq!(
        bench.state(),
        State::Working,
        "the timeout starts with the process, not with the request"
    );
    bench.now.mono_ms += 3_600_000;
    let launch = bench.launch();
    bench.apply(SessionCommand::LaunchFollowed { launch });
    bench.advance_clock(59_999);
    assert_eq!(bench.state(), State::Working, "a new daemon has as much time as the first");
    let waiting = bench.session.clone();
    bench.advance_clock(1);
    assert_eq!(bench.cause(), Some(Cause::Launch));
    bench.session = waiting;
    bench.signal(StreamSignal::Ready { thread: None });
    assert_eq!(
        bench.try_apply(SessionCommand::LaunchFollowed { launch }),
        Err(SessionRejection::NothingNew)
    );
}

#[test]
fn refusing_agent_fails_launch_with_reason() {
    let mut bench = TestSession::running(codex());
    bench.signal(StreamSignal::Refused { reason: "too old".to_owned() });
    let stopped = bench.session.attempt().stopped.clone().map(|(_, detail)| detail);
    assert_eq!(stopped.as_deref(), Some("too old"));
}

#[test]
fn crashed_agent_resumes_at_most_n_times() {
    let mut bench = working(codex());
    for resume in 1..=2 {
        bench.end(ProcessExit::Signal(9));
        assert_eq!(bench.session.launches.len(), resume + 1);
        assert_eq!(bench.session.launches[resume].why, LaunchReason::Crash);
        assert_eq!(bench.state(), State::Working);
        bench.start();
        let told = bench.session.messages.last().expect("it gets a continuation message").clone();
        assert_eq!(told.kind, AgentMessageKind::Continue);
        assert!(told.text.contains("signal 9") && told.text.contains("do it"), "{}", told.text);
        begin_work(&mut bench);
    }
    bench.end(ProcessExit::Signal(9)).settle();
    assert_eq!(bench.session.launches.len(), 3);
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn crashed_agent_is_not_sealed_before_tree_ends() {
    let mut bench = working(codex());
    bench.exit(ProcessExit::Signal(9), StoppedBy::Itself);
    assert_eq!(bench.session.deadline(), None, "only what is observed ends the wait");
    bench.advance_clock(3_600_000);
    assert!(!bench.sealed());
    let launch = bench.launch();
    bench.signal(StreamSignal::Closed).apply(SessionCommand::ProcessTreeGone {
        launch,
        leftovers: 1,
        verified: true,
    });
    assert_eq!(bench.session.launches[1].why, LaunchReason::Crash);
}

#[test]
fn agent_dead_before_input_gets_only_instruction() {
    let mut bench = TestSession::running(codex());
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) }).end(ProcessExit::Signal(9));
    let kinds: Vec<AgentMessageKind> = bench.session.messages.iter().map(|m| m.kind).collect();
    assert_eq!(kinds, [AgentMessageKind::Instruction]);
}

#[test]
fn unnamed_or_claimed_agent_is_not_resumed() {
    let mut bench = TestSession::running(codex());
    bench.end(ProcessExit::Signal(9));
    assert_eq!(bench.session.launches[1].why, LaunchReason::Retry, "it is begun anew, once");
    bench.start();
    bench.end(ProcessExit::Signal(9)).settle();
    assert_eq!((bench.session.launches.len(), bench.state()), (2, State::Failed));
    let mut bench = working(codex());
    bench.claim(provost_core::lifecycle::ClaimKind::Completed).end(ProcessExit::Exit(1)).settle();
    assert_eq!((bench.session.launches.len(), bench.state()), (1, State::Disputed));
}

#[test]
fn question_survives_its_process_approval_does_not() {
    for (kind, state, fate) in [
        (RequestKind::Question, State::NeedsInput, RequestStatus::Open),
        (RequestKind::Approval, State::Working, RequestStatus::Void),
    ] {
        let mut bench = working(codex());
        bench
            .signal(StreamSignal::RequestOpened(request_of_kind(kind)))
            .end(ProcessExit::Signal(9));
        bench.start();
        bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
        assert_eq!((bench.state(), bench.session.requests[0].status), (state, fate));
        if kind == RequestKind::Approval {
            let (request, reply) = (bench.session.requests[0].id, RequestReply::Deny);
            let late = bench.try_apply(SessionCommand::Answer { request, revision: 1, reply });
            let why = "the process that asked has ended";
            assert_eq!(late, Err(SessionRejection::RequestSettled(request, why)));
        }
        let told = bench.session.messages.iter().any(|m| m.kind == AgentMessageKind::Continue);
        assert_eq!(
            told,
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
        let mut bench = working(codex());
        bench.signal(StreamSignal::RequestOpened(request_of_kind(kind)));
        let request = bench.session.requests[0].id;
        bench
            .apply(SessionCommand::Answer { request, revision: 1, reply })
            .end(ProcessExit::Signal(9));
        bench.start();
        let lost: Vec<&Event> = bench.log.iter().map(|(_, event)| event).collect();
        let lost = lost.iter().any(|event| matches!(event, Event::MessageLost(_)));
        assert_eq!(
            lost,
            kind == RequestKind::Approval,
            "an approval is only for the process that asked"
        );
        assert_eq!(bench.session.launches.len(), 2);
    }
}

#[test]
fn stopped_session_keeps_question_voids_approval() {
    let withdrawn = || StreamSignal::RequestWithdrawn { native: "q".to_owned() };
    let answer = |bench: &TestSession, reply| SessionCommand::Answer {
        request: bench.session.requests[0].id,
        revision: 1,
        reply,
    };
    let mut bench = working(codex());
    bench
        .signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)))
        .apply(SessionCommand::Stop);
    let late = answer(&bench, RequestReply::Approve(provost_core::request::ApprovalScope::Once));
    let why = bench.try_apply(late).expect_err("the session was stopped").to_string();
    assert!(why.ends_with("no longer open: the session was stopped"), "{why}");
    let mut bench = working(codex());
    bench
        .signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Question)))
        .apply(SessionCommand::Stop);
    let again = SessionCommand::Observed {
        launch: bench.launch(),
        signal: withdrawn(),
        cursor: Cursor { offset: 1_000_000, skip: 0 },
    };
    assert_eq!(
        bench.try_apply(again),
        Err(SessionRejection::NothingNew),
        "it had to, since it ends"
    );
    let said = answer(&bench, RequestReply::Text("blue".to_owned()));
    let request = bench.session.requests[0].id;
    assert_eq!(bench.try_apply(said.clone()), Err(SessionRejection::BeingStopped(request)));
    bench
        .signal(turn_ended(TurnEnd::Interrupted))
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .settle();
    assert_eq!((bench.state(), bench.sealed()), (State::NeedsInput, false));
    bench.apply(said);
    assert_eq!(bench.session.launches[1].why, LaunchReason::Answer);
    let mut bench = working(codex());
    bench.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Question)));
    bench.apply(SessionCommand::Cancel { because: String::new() }).signal(withdrawn());
    assert_eq!(
        bench.session.requests[0].status,
        RequestStatus::Void,
        "the agent did not withdraw it"
    );
    let why =
        bench.try_apply(answer(&bench, RequestReply::Deny)).expect_err("it is over").to_string();
    assert!(why.ends_with("the session was cancelled"), "{why}");
}

#[test]
fn usage_limit_is_waited_out_then_resumed() {
    let mut bench = working(codex());
    let until = u64::try_from(bench.now.wall_ms).expect("later than 1970") + 3_600_000;
    bench.signal(turn_ended(TurnEnd::Limited {
        until_ms: Some(until),
        detail: "used up".to_owned(),
    }));
    let limited = |bench: &TestSession| bench.session.judgement().has(Flag::Limited);
    assert!(limited(&bench) && bench.state() == State::Working);
    bench.advance_clock(3_599_999);
    assert!(limited(&bench), "not before its time, and no silence is shown meanwhile");
    bench.advance_clock(bench.session.spec.bounds.limit_jitter_ms + 1);
    assert!(!limited(&bench));
    let last = bench.session.messages.last().expect("it gets a continuation message");
    assert_eq!(last.kind, AgentMessageKind::Continue);
    assert!(pending_delivery(&bench).is_some());
}

#[test]
fn usage_limit_is_waited_for_at_most_n_times() {
    let mut spec = codex();
    spec.bounds.limit_waits = 2;
    let mut bench = working(spec);
    let limit = || turn_ended(TurnEnd::Limited { until_ms: None, detail: "used up".to_owned() });
    for _ in 0..2 {
        bench.signal(limit());
        assert_eq!(bench.state(), State::Working);
        bench.advance_clock(16 * 60 * 1_000);
        begin_work(&mut bench);
    }
    bench.signal(limit()).settle();
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::AgentError)));
}

#[test]
fn a09_limit_slot_moves_the_wait_end() {
    let mut bench = working(codex());
    let slot = |bench: &mut TestSession, at_ms| {
        let now = bench.now;
        bench.session.evolve(now, &provost_core::session::LimitSlot { at_ms }.into());
    };
    slot(&mut bench, 7);
    assert_eq!((bench.session.limited.clone(), bench.session.released_ms), (None, None));
    bench.signal(turn_ended(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    assert_eq!(bench.session.limit_wait(), bench.session.limited.as_ref());
    let at = bench.now.mono_ms + 40_000_000;
    slot(&mut bench, at);
    bench.advance_clock(39_999_999);
    assert!(bench.session.limit_wait().is_some());
    bench.advance_clock(1);
    assert_eq!((bench.session.limit_wait(), bench.session.released_ms), (None, Some(at)));
}

#[test]
fn a09_jitter_derives_from_account_or_session() {
    let until = |account: Option<&str>, spread| {
        let mut spec = codex();
        spec.agent.carried.account = account.map(str::to_owned);
        spec.bounds.limit_jitter_ms = spread;
        let mut bench = working(spec);
        bench.signal(turn_ended(TurnEnd::Limited { until_ms: Some(0), detail: String::new() }));
        let told = bench.now.mono_ms;
        // A wait of 0 ms ends at once.
        bench.session.limit_wait().map_or(0, |wait| wait.until_mono_ms - told)
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
    let mut bench = working(codex());
    bench.signal(turn_ended(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    bench.apply(SessionCommand::Cancel { because: "enough".to_owned() });
    assert_eq!(bench.session.limit_wait(), None);
    bench.advance_clock(10 * 3_600_000);
    assert!(bench.session.messages.iter().all(|m| m.kind != AgentMessageKind::Continue));
}

#[test]
fn token_budget_stops_work_and_can_be_raised() {
    let mut spec = codex();
    spec.budget = Budget { tokens: Some(100), turns: None };
    let mut bench = working(spec);
    let use_up = |bench: &mut TestSession, input, output| {
        bench.signal(StreamSignal::Usage(Usage { input, output }));
    };
    use_up(&mut bench, 60, 39);
    assert_eq!(bench.state(), State::Working);
    use_up(&mut bench, 1, 0);
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Budget)));
    bench.signal(turn_ended(TurnEnd::Interrupted)).end(ProcessExit::Exit(0)).settle();
    assert!(bench.sealed());
    let raise = |tokens| SessionCommand::RaiseBudget { tokens: Some(tokens), turns: None };
    assert!(matches!(bench.try_apply(raise(100)), Err(SessionRejection::BudgetNotRaised(_))));
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let Err(SessionRejection::BudgetUsedUp(used_up)) = bench.try_apply(send("early", mode))
        else {
            panic!("an attempt would end as it begins")
        };
        let told = (used_up.detail.as_str(), used_up.raise_flags);
        assert_eq!(told, ("100 of 100 tokens are used", "--tokens N"));
    }
    bench.apply(raise(200));
    bench.apply(send("k", SendMode::Continue));
    bench.start();
    begin_work(&mut bench);
    assert_eq!(bench.state(), State::Working, "what was used before still counts, and is not all");
    use_up(&mut bench, 100, 0);
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn turn_budget_stops_after_last_turn() {
    let mut spec = codex();
    spec.budget = Budget { tokens: None, turns: Some(1) };
    let mut bench = working(spec);
    bench.advance_clock(1_000);
    assert_eq!(bench.state(), State::Working, "the one that was begun is within");
    bench.signal(turn_ended(TurnEnd::Ok));
    assert_eq!(bench.session.judgement().cause, Some(Cause::Budget));
}

#[test]
fn exhausted_budget_rejects_instruction_with_hint() {
    for (tokens, turns, raise) in [
        (Some(5), Some(1), Some("--tokens N --turns N")),
        (Some(5), None, Some("--tokens N")),
        (None, Some(1), Some("--turns N")),
        (Some(6), Some(2), None),
    ] {
        let mut spec = codex();
        spec.budget = Budget { tokens, turns };
        let mut bench = working(spec);
        bench.claim(ClaimKind::Completed);
        let usage = Some(Usage { input: 4, output: 1 });
        bench.signal(StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage, says: None });
        let steered = bench.decide(&send("steer", SendMode::Continue));
        assert!(steered.is_ok(), "what is said to the open attempt is decided by its own budget");
        bench.settle();
        assert_eq!(bench.state(), State::Completed, "the claim came within the budget");
        let told = match bench.decide(&send("next", SendMode::Continue)) {
            Err(SessionRejection::BudgetUsedUp(used_up)) => Some(used_up.raise_flags),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        };
        assert_eq!(told, raise);
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
        spec.exit0 = provost_core::session::ExitZeroPolicy::Completes;
        let mut bench = TestSession::running(spec);
        bench.signal(StreamSignal::TurnStarted { turn: None });
        if let Some(end) = end.clone() {
            let usage = Some(Usage { input: 3, output: 4 });
            bench.signal(StreamSignal::TurnEnded { turn: None, end, usage, says: None });
            assert_eq!(bench.session.usage, Usage { input: 3, output: 4 });
        }
        bench.end(ProcessExit::Exit(0)).settle();
        assert_eq!(bench.state(), state, "{end:?}");
    }
}

#[test]
fn repeated_warning_is_kept_once() {
    let mut bench = working(codex());
    let warned = StreamSignal::Warned { text: "no questions".to_owned() };
    bench.signal(warned.clone());
    let cursor = provost_core::session::Cursor { offset: 1_000_000, skip: 0 };
    let again = SessionCommand::Observed { launch: bench.launch(), signal: warned, cursor };
    assert_eq!(bench.try_apply(again), Err(SessionRejection::NothingNew));
    assert_eq!(bench.session.warnings, ["no questions"]);
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
        let mut bench = working(spec.clone());
        let found = |word| ProgramLookup { word, file: Some("/bin/x".to_owned()), refused: None };
        let programs = provost_core::policy::programs(command).into_iter().map(found).collect();
        let subject = provost_core::request::ApprovalSubject {
            command: Some(command.to_owned()),
            lookup: Some(CommandLookup { in_worktree: true, programs }),
            ..Default::default()
        };
        bench.signal(StreamSignal::RequestOpened(AgentRequest {
            subject: Some(Box::new(subject)),
            ..request_of_kind(RequestKind::Approval)
        }));
        let ruled = bench.log.iter().filter(|(_, e)| matches!(e, Event::RequestRuled(_))).count();
        assert_eq!(ruled, usize::from(reply.is_some()), "{command}");
        let given = bench.session.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(given, reply, "{command}");
        let state = if reply.is_some() { State::Working } else { State::NeedsInput };
        assert_eq!(bench.state(), state, "{command}");
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
        let mut bench = working(spec);
        bench.signal(StreamSignal::RequestOpened(request_of_kind(kind))).advance_clock(59_999);
        assert_eq!(bench.session.requests[0].status, RequestStatus::Open);
        bench.advance_clock(1);
        let denied = bench.session.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(denied, expires.then_some(RequestReply::Deny), "{kind:?} {approval_ms:?}");
        let fate = if expires { RequestStatus::Answered } else { RequestStatus::Open };
        assert_eq!(bench.session.requests[0].status, fate);
        bench.apply(SessionCommand::Cancel { because: String::new() }).advance_clock(60_000);
    }
}

#[test]
fn removed_conversation_is_not_resumed() {
    let mut bench = working(codex());
    assert_eq!(
        bench.try_apply(SessionCommand::ConversationRemoved),
        Err(SessionRejection::NothingNew),
        "it is in use"
    );
    bench.claim(ClaimKind::Completed).signal(turn_ended(TurnEnd::Ok)).settle();
    bench
        .end_by(ProcessExit::Signal(15), StoppedBy::Provost)
        .apply(SessionCommand::ConversationRemoved);
    assert_eq!(
        bench.try_apply(SessionCommand::ConversationRemoved),
        Err(SessionRejection::NothingNew),
        "once"
    );
    let gone = Err(SessionRejection::ConversationGone);
    assert_eq!(bench.try_apply(send("again", SendMode::Continue)), gone);
    assert_eq!((bench.state(), bench.session.attempts.len()), (State::Completed, 1));
}

#[test]
fn one_shot_session_resumes_only_after_it_ended() {
    let mut spec = codex();
    spec.agent.interface = interfaces::one_shot();
    let mut bench = TestSession::running(spec);
    let say = || send("again", SendMode::Continue);
    bench.signal(StreamSignal::Ready { thread: Some("t".to_owned()) });
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let early = bench.decide(&send("early", mode));
        assert_eq!(
            early,
            Err(SessionRejection::OneShotBusy("test".to_owned())),
            "not while it runs"
        );
    }
    bench.end(ProcessExit::Exit(0)).settle();
    let mut nameless = TestSession::running(bench.session.spec.clone());
    nameless.end(ProcessExit::Exit(0)).settle();
    assert_eq!(
        nameless.try_apply(say()),
        Err(SessionRejection::OneShotWithoutConversation("test".to_owned()))
    );
    bench.apply(say());
    assert_eq!((bench.session.attempts.len(), bench.session.launches.len()), (2, 2));
    assert_eq!(bench.session.attempt().no, 2);
}

#[test]
fn one_shot_live_after_seal_rejects_messages() {
    let mut spec = codex();
    spec.agent.interface = interfaces::one_shot();
    let mut bench = TestSession::running(spec);
    bench.apply(SessionCommand::Resolve {
        to: provost_core::session::ManualOutcome::Failed,
        because: String::new(),
    });
    assert!(bench.sealed() && bench.session.launches[0].may_be_running());
    let sent = bench.decide(&send("early", SendMode::Continue));
    assert_eq!(sent, Err(SessionRejection::OneShotBusy("test".to_owned())));
}

#[test]
fn only_crash_in_named_thread_resumes_after_drain() {
    let mut bench = working(codex());
    bench.exit(ProcessExit::Signal(9), StoppedBy::Itself);
    let launch = bench.launch();
    bench.apply(SessionCommand::ProcessTreeGone { launch, leftovers: 0, verified: true });
    assert_eq!(bench.session.launches.len(), 1, "its journal may still bring something");
    bench.signal(StreamSignal::Closed);
    assert_eq!(bench.session.launches.len(), 2);

    let ended = |end: ProcessExit, by: StoppedBy| {
        let mut bench = working(codex());
        bench.end_by(end, by);
        bench.session.launches.len()
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
    let mut bench = working(spec);
    bench.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)));
    let at = bench.session.requests[0].at.mono_ms + 60_000;
    assert_eq!(
        bench.session.deadline(),
        Some((at, provost_core::session::DeadlineKind::ApprovalExpiry))
    );
}

#[test]
fn warnings_are_capped() {
    let mut bench = working(codex());
    for no in 0..provost_core::limits::MAX_WARNINGS {
        bench.signal(StreamSignal::Warned { text: format!("warning {no}") });
    }
    let more = StreamSignal::Warned { text: "one more".to_owned() };
    assert_eq!(bench.try_signal(more), Err(SessionRejection::NothingNew));
    assert_eq!(bench.session.warnings.len(), provost_core::limits::MAX_WARNINGS);
}

#[test]
fn budget_can_only_be_raised() {
    let mut spec = codex();
    spec.budget = Budget { tokens: Some(100), turns: Some(5) };
    let bench = working(spec);
    let raise = |tokens, turns| bench.decide(&SessionCommand::RaiseBudget { tokens, turns });
    assert_eq!(raise(None, None), Err(SessionRejection::NothingNew));
    let told = |what: &str| Err(SessionRejection::BudgetNotRaised(what.to_owned()));
    assert_eq!(raise(None, Some(5)), told("5 turns"));
    assert_eq!(raise(Some(200), Some(4)), told("5 turns"));
    assert_eq!(raise(Some(100), Some(6)), told("100 tokens"));
    assert_eq!(raise(None, Some(6)).map(|events| events.len()), Ok(1));
}

#[test]
fn request_of_ended_session_names_why_it_is_void() {
    let mut bench = working(codex());
    bench.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)));
    let request = bench.session.requests[0].id;
    bench.apply(SessionCommand::Stop).end_by(ProcessExit::Signal(15), StoppedBy::Provost).settle();
    let answer = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    let settled = |why| Err(SessionRejection::RequestSettled(request, why));
    assert_eq!(bench.decide(&answer), settled("the session was stopped"));

    let mut spec = codex();
    spec.bounds.resumes = 0;
    let mut bench = working(spec);
    bench.signal(StreamSignal::RequestOpened(request_of_kind(RequestKind::Approval)));
    bench.end(ProcessExit::Signal(9)).settle();
    let request = bench.session.requests[0].id;
    let answer = SessionCommand::Answer { request, revision: 1, reply: RequestReply::Deny };
    assert_eq!(
        bench.decide(&answer),
        Err(SessionRejection::RequestSettled(request, "the session ended"))
    );
}
