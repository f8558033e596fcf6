//! Limits of work: usage limits, budgets, one-shot work and expiring approvals.

use crate::resume::*;
use provost_core::{
    lifecycle::{Cause, ClaimKind, Flag, State},
    request::{RequestKind, RequestReply, RequestStatus},
    session::{
        AgentMessageKind, Budget, ProcessExit, SendMode, SessionCommand, SessionRejection,
        StreamSignal, TurnEnd, Usage,
    },
};

use crate::interfaces;
use crate::kit::{TestSession, send, spec};

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
    let last = harness.session.input.messages.last().expect("it gets a continuation message");
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
    assert_eq!(
        (harness.session.spending.limited.clone(), harness.session.spending.released_ms),
        (None, None)
    );
    harness.signal(turn_ended(TurnEnd::Limited { until_ms: None, detail: String::new() }));
    assert_eq!(harness.session.limit_wait(), harness.session.spending.limited.as_ref());
    let at = harness.now.mono_ms + 40_000_000;
    slot(&mut harness, at);
    harness.advance_clock(39_999_999);
    assert!(harness.session.limit_wait().is_some());
    harness.advance_clock(1);
    assert_eq!(
        (harness.session.limit_wait(), harness.session.spending.released_ms),
        (None, Some(at))
    );
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
    assert!(harness.session.input.messages.iter().all(|m| m.kind != AgentMessageKind::Continue));
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
            assert_eq!(harness.session.spending.usage, Usage { input: 3, output: 4 });
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
    assert_eq!(harness.session.reported.warnings, ["no questions"]);
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
        let denied =
            harness.session.input.messages.last().and_then(|message| message.reply.clone());
        assert_eq!(denied, expires.then_some(RequestReply::Deny), "{kind:?} {approval_ms:?}");
        let fate = if expires { RequestStatus::Answered } else { RequestStatus::Open };
        assert_eq!(harness.session.requests[0].status, fate);
        harness.apply(SessionCommand::Cancel { because: String::new() }).advance_clock(60_000);
    }
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
    assert_eq!(harness.session.reported.warnings.len(), provost_core::limits::MAX_WARNINGS);
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
