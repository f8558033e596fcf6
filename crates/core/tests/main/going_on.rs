//! Automatic resumes and their bounds: crashes, usage limits, budgets and handshakes.

use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::{Asked, Fate, Reply, RequestKind, Waiting},
    session::{
        Budget, Command, Cursor, Driver, Effect, End, EndedBy, Event, LaunchWhy, MessageKind,
        Rejected, SendMode, Signal, Spec, TurnEnd, Usage,
    },
};

use crate::kit::{Bench, send, spec};

fn codex() -> Spec {
    let mut spec = spec();
    spec.agent.driver = Driver::Codex;
    spec
}

/// A session whose agent named its thread, received its instruction and is working.
fn working(spec: Spec) -> Bench {
    let mut bench = Bench::running(spec);
    begin(&mut bench);
    bench
}

fn begin(bench: &mut Bench) {
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    while let Some(Effect::Deliver { message, .. }) = delivery(bench) {
        bench.signal(Signal::InputSeen { key: message });
    }
    bench.signal(Signal::TurnStarted { turn: Some("turn".to_owned()) });
}

fn delivery(bench: &Bench) -> Option<Effect> {
    bench.session.effects().into_iter().find(|effect| matches!(effect, Effect::Deliver { .. }))
}

fn asked(kind: RequestKind) -> Asked {
    Asked {
        native: "q".to_owned(),
        kind,
        waiting: Waiting::Blocking,
        title: String::new(),
        questions: Vec::new(),
        subject: None,
    }
}

fn over(end: TurnEnd) -> Signal {
    Signal::TurnEnded { turn: Some("turn".to_owned()), end, usage: None, says: None }
}

#[test]
fn nothing_is_said_before_the_agent_named_its_conversation() {
    let mut bench = Bench::running(codex());
    assert_eq!(delivery(&bench), None);
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    assert!(delivery(&bench).is_some());
}

#[test]
fn an_agent_that_never_names_its_conversation_fails_the_launch() {
    let mut bench = Bench::running(codex());
    bench.pass(59_999);
    assert_eq!(bench.state(), State::Working);
    bench.pass(1);
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Launch)));
}

#[test]
fn a_handshake_has_its_whole_time_while_somebody_is_there_to_shake_hands() {
    let mut bench = Bench::new(codex());
    bench.tell(Command::WorkPrepared { cwd: "/work".to_owned(), base: None });
    bench.pass(3_600_000).start();
    assert_eq!(
        bench.state(),
        State::Working,
        "the timeout starts with the process, not with the request"
    );
    bench.now.mono_ms += 3_600_000;
    let launch = bench.launch();
    bench.tell(Command::LaunchFollowed { launch });
    bench.pass(59_999);
    assert_eq!(bench.state(), State::Working, "a new daemon has as much time as the first");
    let waiting = bench.session.clone();
    bench.pass(1);
    assert_eq!(bench.cause(), Some(Cause::Launch));
    bench.session = waiting;
    bench.signal(Signal::Ready { thread: None });
    assert_eq!(bench.try_tell(Command::LaunchFollowed { launch }), Err(Rejected::Nothing));
}

#[test]
fn an_agent_that_refuses_fails_the_launch_with_its_reason() {
    let mut bench = Bench::running(codex());
    bench.signal(Signal::Refused { reason: "too old".to_owned() });
    let stopped = bench.session.attempt().stopped.clone().map(|(_, detail)| detail);
    assert_eq!(stopped.as_deref(), Some("too old"));
}

#[test]
fn an_agent_that_died_at_work_goes_on_n_times_and_not_once_more() {
    let mut bench = working(codex());
    for resume in 1..=2 {
        bench.end(End::Signal(9));
        assert_eq!(bench.session.launches.len(), resume + 1);
        assert_eq!(bench.session.launches[resume].why, LaunchWhy::Crash);
        assert_eq!(bench.state(), State::Working);
        bench.start();
        let told = bench.session.messages.last().expect("it gets a continuation message").clone();
        assert_eq!(told.kind, MessageKind::Continue);
        assert!(told.text.contains("signal 9") && told.text.contains("do it"), "{}", told.text);
        begin(&mut bench);
    }
    bench.end(End::Signal(9)).settle();
    assert_eq!(bench.session.launches.len(), 3);
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn an_agent_that_died_at_work_is_not_sealed_while_its_tree_is_going() {
    let mut bench = working(codex());
    bench.exit(End::Signal(9), EndedBy::Itself);
    assert_eq!(bench.session.deadline(), None, "only what is observed ends the wait");
    bench.pass(3_600_000);
    assert!(!bench.sealed());
    let launch = bench.launch();
    bench.signal(Signal::Closed).tell(Command::TreeGone { launch, leftovers: 1, verified: true });
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Crash);
}

#[test]
fn an_agent_that_died_before_it_heard_anything_is_only_told_its_instruction() {
    let mut bench = Bench::running(codex());
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) }).end(End::Signal(9));
    let kinds: Vec<MessageKind> = bench.session.messages.iter().map(|m| m.kind).collect();
    assert_eq!(kinds, [MessageKind::Instruction]);
}

#[test]
fn an_agent_without_a_conversation_does_not_go_on_and_neither_does_one_that_claimed() {
    let mut bench = Bench::running(codex());
    bench.end(End::Signal(9));
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Retry, "it is begun anew, once");
    bench.start();
    bench.end(End::Signal(9)).settle();
    assert_eq!((bench.session.launches.len(), bench.state()), (2, State::Failed));
    let mut bench = working(codex());
    bench.claim(provost_core::lifecycle::ClaimKind::Completed).end(End::Exit(1)).settle();
    assert_eq!((bench.session.launches.len(), bench.state()), (1, State::Disputed));
}

#[test]
fn a_question_outlives_the_process_that_asked_and_an_approval_does_not() {
    for (kind, state, fate) in [
        (RequestKind::Question, State::NeedsInput, Fate::Open),
        (RequestKind::Approval, State::Working, Fate::Void),
    ] {
        let mut bench = working(codex());
        bench.signal(Signal::Asked(asked(kind))).end(End::Signal(9));
        bench.start();
        bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
        assert_eq!((bench.state(), bench.session.requests[0].fate), (state, fate));
        if kind == RequestKind::Approval {
            let (request, reply) = (bench.session.requests[0].id, Reply::Deny);
            let late = bench.try_tell(Command::Answer { request, revision: 1, reply });
            let why = "the process that asked has ended";
            assert_eq!(late, Err(Rejected::RequestSettled(request, why)));
        }
        let told = bench.session.messages.iter().any(|m| m.kind == MessageKind::Continue);
        assert_eq!(
            told,
            kind == RequestKind::Approval,
            "an agent that waits for an answer gets no continuation"
        );
    }
}

#[test]
fn an_approval_that_did_not_arrive_in_time_is_lost_and_an_answer_is_not() {
    for (kind, reply) in [
        (RequestKind::Approval, Reply::Approve(provost_core::request::Scope::Once)),
        (RequestKind::Question, Reply::Text("blue".to_owned())),
    ] {
        let mut bench = working(codex());
        bench.signal(Signal::Asked(asked(kind)));
        let request = bench.session.requests[0].id;
        bench.tell(Command::Answer { request, revision: 1, reply }).end(End::Signal(9));
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
fn what_is_asked_of_a_stopped_session_is_a_question_to_answer_or_an_approval_that_is_void() {
    let withdrawn = || Signal::Withdrawn { native: "q".to_owned() };
    let answer = |bench: &Bench, reply| Command::Answer {
        request: bench.session.requests[0].id,
        revision: 1,
        reply,
    };
    let mut bench = working(codex());
    bench.signal(Signal::Asked(asked(RequestKind::Approval))).tell(Command::Stop);
    let late = answer(&bench, Reply::Approve(provost_core::request::Scope::Once));
    let why = bench.try_tell(late).expect_err("the session was stopped").to_string();
    assert!(why.ends_with("no longer open: the session was stopped"), "{why}");
    let mut bench = working(codex());
    bench.signal(Signal::Asked(asked(RequestKind::Question))).tell(Command::Stop);
    let again = Command::Observed {
        launch: bench.launch(),
        signal: withdrawn(),
        cursor: Cursor { offset: 1_000_000, skip: 0 },
    };
    assert_eq!(bench.try_tell(again), Err(Rejected::Nothing), "it had to, since it ends");
    let said = answer(&bench, Reply::Text("blue".to_owned()));
    let request = bench.session.requests[0].id;
    assert_eq!(bench.try_tell(said.clone()), Err(Rejected::BeingStopped(request)));
    bench.signal(over(TurnEnd::Interrupted)).end_by(End::Signal(15), EndedBy::Provost).settle();
    assert_eq!((bench.state(), bench.sealed()), (State::NeedsInput, false));
    bench.tell(said);
    assert_eq!(bench.session.launches[1].why, LaunchWhy::Answer);
    let mut bench = working(codex());
    bench.signal(Signal::Asked(asked(RequestKind::Question)));
    bench.tell(Command::Cancel { because: String::new() }).signal(withdrawn());
    assert_eq!(bench.session.requests[0].fate, Fate::Void, "the agent did not withdraw it");
    let why = bench.try_tell(answer(&bench, Reply::Deny)).expect_err("it is over").to_string();
    assert!(why.ends_with("the session was cancelled"), "{why}");
}

#[test]
fn a_limit_of_the_account_is_waited_for_and_the_work_goes_on_by_itself() {
    let mut bench = working(codex());
    let until = u64::try_from(bench.now.wall_ms).expect("later than 1970") + 3_600_000;
    bench.signal(over(TurnEnd::Limited { until_ms: Some(until), detail: "used up".to_owned() }));
    let limited = |bench: &Bench| bench.session.judgement().has(Flag::Limited);
    assert!(limited(&bench) && bench.state() == State::Working);
    bench.pass(3_599_999);
    assert!(limited(&bench), "not before its time, and no silence is shown meanwhile");
    bench.pass(bench.session.spec.bounds.limit_jitter_ms + 1);
    assert!(!limited(&bench));
    let last = bench.session.messages.last().expect("it gets a continuation message");
    assert_eq!(last.kind, MessageKind::Continue);
    assert!(delivery(&bench).is_some());
}

#[test]
fn a_limit_is_waited_for_n_times_and_not_once_more() {
    let mut spec = codex();
    spec.bounds.limit_waits = 2;
    let mut bench = working(spec);
    let limit = || over(TurnEnd::Limited { until_ms: None, detail: "used up".to_owned() });
    for _ in 0..2 {
        bench.signal(limit());
        assert_eq!(bench.state(), State::Working);
        bench.pass(16 * 60 * 1_000);
        begin(&mut bench);
    }
    bench.signal(limit()).settle();
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::AgentError)));
}

#[test]
fn a09_a_slot_moves_the_end_of_the_wait_and_is_nothing_without_one() {
    let mut bench = working(codex());
    let slot = |bench: &mut Bench, at_ms| {
        let now = bench.now;
        bench.session.evolve(now, &provost_core::session::LimitSlot { at_ms }.into());
    };
    slot(&mut bench, 7);
    assert_eq!((bench.session.limited.clone(), bench.session.released_ms), (None, None));
    bench.signal(over(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    assert_eq!(bench.session.wait(), bench.session.limited.as_ref());
    let at = bench.now.mono_ms + 40_000_000;
    slot(&mut bench, at);
    bench.pass(39_999_999);
    assert!(bench.session.wait().is_some());
    bench.pass(1);
    assert_eq!((bench.session.wait(), bench.session.released_ms), (None, Some(at)));
}

#[test]
fn a09_the_jitter_is_the_accounts_and_without_one_the_sessions_own() {
    let until = |account: Option<&str>, spread| {
        let mut spec = codex();
        spec.agent.carried.account = account.map(str::to_owned);
        spec.bounds.limit_jitter_ms = spread;
        let mut bench = working(spec);
        bench.signal(over(TurnEnd::Limited { until_ms: Some(0), detail: String::new() }));
        let told = bench.now.mono_ms;
        // A wait of 0 ms ends at once.
        bench.session.wait().map_or(0, |wait| wait.until_mono_ms - told)
    };
    // FNV-1a of these texts; it must never change.
    assert_eq!(until(Some("a"), 10_000), 0xaf63_dc4c_8601_ec8c_u64 % 10_000);
    assert_eq!(until(Some("foobar"), 10_000), 0x8594_4171_f739_67e8_u64 % 10_000);
    assert_eq!(until(Some("foobar"), 0), 0);
    let own = working(codex()).session.id.jitter_ms(10_000);
    assert_eq!(until(None, 10_000), own);
}

#[test]
fn a_limit_ends_nothing_for_a_cancelled_session() {
    let mut bench = working(codex());
    bench.signal(over(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    bench.tell(Command::Cancel { because: "enough".to_owned() });
    assert_eq!(bench.session.wait(), None);
    bench.pass(10 * 3_600_000);
    assert!(bench.session.messages.iter().all(|m| m.kind != MessageKind::Continue));
}

#[test]
fn a_budget_counts_deltas_stops_when_it_is_reached_and_can_be_raised() {
    let mut spec = codex();
    spec.budget = Budget { tokens: Some(100), turns: None };
    let mut bench = working(spec);
    let use_up = |bench: &mut Bench, input, output| {
        bench.signal(Signal::Usage(Usage { input, output }));
    };
    use_up(&mut bench, 60, 39);
    assert_eq!(bench.state(), State::Working);
    use_up(&mut bench, 1, 0);
    let judged = bench.session.judgement();
    assert_eq!((judged.state, judged.cause), (State::Failed, Some(Cause::Budget)));
    bench.signal(over(TurnEnd::Interrupted)).end(End::Exit(0)).settle();
    assert!(bench.sealed());
    let raise = |tokens| Command::RaiseBudget { tokens: Some(tokens), turns: None };
    assert!(matches!(bench.try_tell(raise(100)), Err(Rejected::BudgetNotRaised(_))));
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let Err(Rejected::BudgetUsedUp(used_up)) = bench.try_tell(send("early", mode)) else {
            panic!("an attempt would end as it begins")
        };
        let told = (used_up.detail.as_str(), used_up.raise);
        assert_eq!(told, ("100 of 100 tokens are used", "--tokens N"));
    }
    bench.tell(raise(200));
    bench.tell(send("k", SendMode::Continue));
    bench.start();
    begin(&mut bench);
    assert_eq!(bench.state(), State::Working, "what was used before still counts, and is not all");
    use_up(&mut bench, 100, 0);
    assert_eq!(bench.state(), State::Failed);
}

#[test]
fn no_turn_is_begun_beyond_the_budget_of_turns() {
    let mut spec = codex();
    spec.budget = Budget { tokens: None, turns: Some(1) };
    let mut bench = working(spec);
    bench.pass(1_000);
    assert_eq!(bench.state(), State::Working, "the one that was begun is within");
    bench.signal(over(TurnEnd::Ok));
    assert_eq!(bench.session.judgement().cause, Some(Cause::Budget));
}

#[test]
fn a_used_up_budget_takes_no_new_instruction_and_says_which_to_raise() {
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
        bench.signal(Signal::TurnEnded { turn: None, end: TurnEnd::Ok, usage, says: None });
        let steered = bench.decide(&send("steer", SendMode::Continue));
        assert!(steered.is_ok(), "what is said to the open attempt is decided by its own budget");
        bench.settle();
        assert_eq!(bench.state(), State::Completed, "the claim came within the budget");
        let told = match bench.decide(&send("next", SendMode::Continue)) {
            Err(Rejected::BudgetUsedUp(used_up)) => Some(used_up.raise),
            Err(other) => panic!("{other}"),
            Ok(_) => None,
        };
        assert_eq!(told, raise);
    }
}

#[test]
fn exit_0_of_a_one_shot_agent_counts_only_with_a_turn_that_ended_well() {
    for (end, state) in [
        (Some(TurnEnd::Ok), State::Completed),
        (None, State::EndedUnclaimed),
        (Some(TurnEnd::Interrupted), State::EndedUnclaimed),
        (Some(TurnEnd::Error("no".to_owned())), State::Failed),
    ] {
        let mut spec = spec();
        spec.agent.driver = Driver::CodexExec;
        spec.exit0 = provost_core::session::Exit0::IsDone;
        let mut bench = Bench::running(spec);
        bench.signal(Signal::TurnStarted { turn: None });
        if let Some(end) = end.clone() {
            let usage = Some(Usage { input: 3, output: 4 });
            bench.signal(Signal::TurnEnded { turn: None, end, usage, says: None });
            assert_eq!(bench.session.usage, Usage { input: 3, output: 4 });
        }
        bench.end(End::Exit(0)).settle();
        assert_eq!(bench.state(), state, "{end:?}");
    }
}

#[test]
fn a_warning_is_kept_once() {
    let mut bench = working(codex());
    let warned = Signal::Warned { text: "no questions".to_owned() };
    bench.signal(warned.clone());
    let cursor = provost_core::session::Cursor { offset: 1_000_000, skip: 0 };
    let again = Command::Observed { launch: bench.launch(), signal: warned, cursor };
    assert_eq!(bench.try_tell(again), Err(Rejected::Nothing));
    assert_eq!(bench.session.warnings, ["no questions"]);
}

#[test]
fn an_approval_that_the_policy_settles_is_settled_once_and_needs_no_person() {
    use provost_core::{
        policy::{Decision, Matcher, Rule},
        request::{CommandLookup, ProgramLookup},
    };
    let mut spec = codex();
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let rule = |decision, text: &str| Rule { decision, matches: Matcher::Command(words(text)) };
    spec.policy.rules = vec![rule(Decision::Allow, "cargo test"), rule(Decision::Deny, "rm -rf")];
    for (command, reply) in [
        ("cargo test -p core", Some(Reply::Approve(provost_core::request::Scope::Once))),
        ("bash -lc 'cargo test && rm -rf /'", Some(Reply::Deny)),
        ("cargo build", None),
    ] {
        let mut bench = working(spec.clone());
        let found = |word| ProgramLookup { word, file: Some("/bin/x".to_owned()), refused: None };
        let programs = provost_core::policy::programs(command).into_iter().map(found).collect();
        let subject = provost_core::request::Subject {
            command: Some(command.to_owned()),
            lookup: Some(CommandLookup { in_worktree: true, programs }),
            ..Default::default()
        };
        bench.signal(Signal::Asked(Asked {
            subject: Some(Box::new(subject)),
            ..asked(RequestKind::Approval)
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
fn an_approval_expires_only_if_that_was_asked_for_and_a_question_never() {
    for (kind, approval_ms, expires) in [
        (RequestKind::Approval, Some(60_000), true),
        (RequestKind::Approval, None, false),
        (RequestKind::Question, Some(60_000), false),
    ] {
        let mut spec = codex();
        spec.bounds.approval_ms = approval_ms;
        let mut bench = working(spec);
        bench.signal(Signal::Asked(asked(kind))).pass(59_999);
        assert_eq!(bench.session.requests[0].fate, Fate::Open);
        bench.pass(1);
        let denied = bench.session.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(denied, expires.then_some(Reply::Deny), "{kind:?} {approval_ms:?}");
        let fate = if expires { Fate::Answered } else { Fate::Open };
        assert_eq!(bench.session.requests[0].fate, fate);
        bench.tell(Command::Cancel { because: String::new() }).pass(60_000);
    }
}

#[test]
fn a_conversation_that_was_removed_is_not_gone_on_with() {
    let mut bench = working(codex());
    assert_eq!(bench.try_tell(Command::StoreRemoved), Err(Rejected::Nothing), "it is in use");
    bench.claim(ClaimKind::Completed).signal(over(TurnEnd::Ok)).settle();
    bench.end_by(End::Signal(15), EndedBy::Provost).tell(Command::StoreRemoved);
    assert_eq!(bench.try_tell(Command::StoreRemoved), Err(Rejected::Nothing), "once");
    let gone = Err(Rejected::ConversationGone);
    assert_eq!(bench.try_tell(send("again", SendMode::Continue)), gone);
    assert_eq!((bench.state(), bench.session.attempts.len()), (State::Completed, 1));
}

#[test]
fn work_done_at_once_is_gone_on_with_in_its_conversation_once_it_has_ended() {
    let mut spec = codex();
    spec.agent.driver = Driver::CodexExec;
    let mut bench = Bench::running(spec);
    let say = || send("again", SendMode::Continue);
    bench.signal(Signal::Ready { thread: Some("t".to_owned()) });
    for mode in [SendMode::Continue, SendMode::Supersede] {
        let early = bench.decide(&send("early", mode));
        assert_eq!(early, Err(Rejected::WorksOnce("test".to_owned())), "not while it runs");
    }
    bench.end(End::Exit(0)).settle();
    let mut nameless = Bench::running(bench.session.spec.clone());
    nameless.end(End::Exit(0)).settle();
    assert_eq!(nameless.try_tell(say()), Err(Rejected::WorkedOnce("test".to_owned())));
    bench.tell(say());
    assert_eq!((bench.session.attempts.len(), bench.session.launches.len()), (2, 2));
    assert_eq!(bench.session.attempt().no, 2);
}

#[test]
fn work_done_at_once_whose_process_lives_after_its_seal_takes_nothing_yet() {
    let mut spec = codex();
    spec.agent.driver = Driver::CodexExec;
    let mut bench = Bench::running(spec);
    bench.tell(Command::Resolve {
        to: provost_core::session::Resolve::Failed,
        because: String::new(),
    });
    assert!(bench.sealed() && bench.session.launches[0].may_live());
    let sent = bench.decide(&send("early", SendMode::Continue));
    assert_eq!(sent, Err(Rejected::WorksOnce("test".to_owned())));
}

#[test]
fn only_a_crash_at_work_in_a_named_conversation_is_gone_on_with_once_all_was_heard() {
    let mut bench = working(codex());
    bench.exit(End::Signal(9), EndedBy::Itself);
    let launch = bench.launch();
    bench.tell(Command::TreeGone { launch, leftovers: 0, verified: true });
    assert_eq!(bench.session.launches.len(), 1, "its journal may still bring something");
    bench.signal(Signal::Closed);
    assert_eq!(bench.session.launches.len(), 2);

    let ended = |end: End, by: EndedBy| {
        let mut bench = working(codex());
        bench.end_by(end, by);
        bench.session.launches.len()
    };
    assert_eq!(ended(End::Exit(0), EndedBy::Itself), 1, "it left of its own will");
    assert_eq!(ended(End::Signal(9), EndedBy::Provost), 1, "it was ended");

    let mut nameless = Bench::running(codex());
    nameless.end(End::Signal(9));
    nameless.start();
    nameless.end(End::Signal(9));
    let whys: Vec<LaunchWhy> = nameless.session.launches.iter().map(|launch| launch.why).collect();
    assert_eq!(whys, [LaunchWhy::First, LaunchWhy::Retry], "no conversation is there to resume");
    let mut talker = spec();
    talker.agent.driver = Driver::Jsonl;
    let mut talker = working(talker);
    talker.end(End::Signal(9));
    assert_eq!(talker.session.launches.len(), 1, "it cannot take a conversation up again");
}

#[test]
fn who_was_told_to_stop_or_was_cancelled_does_not_go_on_however_it_ends() {
    let mut stopped = working(codex());
    stopped.tell(Command::Stop);
    stopped.end_by(End::Exit(1), EndedBy::Itself);
    assert_eq!(stopped.session.launches.len(), 1, "its process was being stopped");
    let mut cancelled = working(codex());
    cancelled.exit(End::Signal(9), EndedBy::Itself);
    cancelled.tell(Command::Cancel { because: "enough".to_owned() });
    let launch = cancelled.launch();
    cancelled.tell(Command::TreeGone { launch, leftovers: 0, verified: true });
    cancelled.signal(Signal::Closed);
    assert_eq!(cancelled.session.launches.len(), 1, "it died before it was stopped");
}

#[test]
fn an_approval_that_expires_is_a_deadline() {
    let mut spec = codex();
    (spec.bounds.approval_ms, spec.bounds.time_limit_ms) = (Some(60_000), None);
    let mut bench = working(spec);
    bench.signal(Signal::Asked(asked(RequestKind::Approval)));
    let at = bench.session.requests[0].at.mono_ms + 60_000;
    assert_eq!(bench.session.deadline(), Some((at, provost_core::session::Due::Expiry)));
}

#[test]
fn so_many_warnings_are_kept_and_no_more() {
    let mut bench = working(codex());
    for no in 0..provost_core::limits::MAX_WARNINGS {
        bench.signal(Signal::Warned { text: format!("warning {no}") });
    }
    let more = Signal::Warned { text: "one more".to_owned() };
    assert_eq!(bench.try_signal(more), Err(Rejected::Nothing));
    assert_eq!(bench.session.warnings.len(), provost_core::limits::MAX_WARNINGS);
}

#[test]
fn a_budget_is_raised_by_what_is_named_and_above_what_there_is() {
    let mut spec = codex();
    spec.budget = Budget { tokens: Some(100), turns: Some(5) };
    let bench = working(spec);
    let raise = |tokens, turns| bench.decide(&Command::RaiseBudget { tokens, turns });
    assert_eq!(raise(None, None), Err(Rejected::Nothing));
    let told = |what: &str| Err(Rejected::BudgetNotRaised(what.to_owned()));
    assert_eq!(raise(None, Some(5)), told("5 turns"));
    assert_eq!(raise(Some(200), Some(4)), told("5 turns"));
    assert_eq!(raise(Some(100), Some(6)), told("100 tokens"));
    assert_eq!(raise(None, Some(6)).map(|events| events.len()), Ok(1));
}

#[test]
fn a_request_of_the_newest_process_is_void_because_the_session_ended() {
    let mut bench = working(codex());
    bench.signal(Signal::Asked(asked(RequestKind::Approval)));
    let request = bench.session.requests[0].id;
    bench.tell(Command::Stop).end_by(End::Signal(15), EndedBy::Provost).settle();
    let answer = Command::Answer { request, revision: 1, reply: Reply::Deny };
    let settled = |why| Err(Rejected::RequestSettled(request, why));
    assert_eq!(bench.decide(&answer), settled("the session was stopped"));

    let mut spec = codex();
    spec.bounds.resumes = 0;
    let mut bench = working(spec);
    bench.signal(Signal::Asked(asked(RequestKind::Approval)));
    bench.end(End::Signal(9)).settle();
    let request = bench.session.requests[0].id;
    let answer = Command::Answer { request, revision: 1, reply: Reply::Deny };
    assert_eq!(bench.decide(&answer), Err(Rejected::RequestSettled(request, "the session ended")));
}
