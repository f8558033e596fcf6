//! The laws (invariants) of a session, written independently of the rules that uphold them.
//!
//! A [`SessionWatch`] checks every event together with the session before and after it, and every settled session. If a
//! law is broken, it returns a description.

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{LaunchId, RequestId},
    lifecycle::{Activity, ClaimKind, Flag, State, StopCause},
    limits::{MAX_REFUSALS, RUN_SETTLE_MS},
    request::{Request, RequestStatus},
    session::{
        AgentMessage, AgentMessageKind, Attempt, Cursor, DeadlineKind, DeliveryStatus, Event,
        HookEnd, HookEvent, HookKey, Launch, LaunchPhase, ReactionAction, RecordSource, Session,
        SessionEffect, SignalKind, StopReason, StopStep, TurnEnd, TypingState, WorkLocation,
    },
    shortage::Shortage,
    time::Moment,
    verdict::{CheckEnd, EmptyDiff, Verdict},
};

use crate::turn_watch::TurnWatch;

/// The description of a law that does not hold.
pub type BrokenLaw = String;

/// The part of a session's history that is needed to judge its current state.
#[derive(Clone, Debug, Default)]
pub struct SessionWatch {
    hooks: BTreeSet<HookKey>,
    kills: BTreeSet<LaunchId>,
    settled_requests: BTreeMap<(RequestId, u32), RequestStatus>,
    /// The working time of the current attempt, counted here independently of the session.
    worked_ms: u64,
    last_ms: u64,
    /// The number of reactions to each occasion, and in each attempt.
    reactions: BTreeMap<(String, u32), u32>,
    reactions_per_attempt: BTreeMap<(String, u32), u32>,
    turns: TurnWatch,
}

macro_rules! law {
    ($holds:expr, $($words:tt)+) => {
        if !$holds { return Err(format!($($words)+)); }
    };
}

impl SessionWatch {
    /// Starts watching a session that was just opened.
    pub fn start(session: &Session) -> SessionWatch {
        let hooks = session.hooks.iter().map(|hook| hook.key).collect();
        SessionWatch { hooks, last_ms: session.opened.mono_ms, ..SessionWatch::default() }
    }

    /// Checks one event.
    pub fn check_event(
        &mut self,
        before: &Session,
        at: Moment,
        event: &Event,
        after: &Session,
    ) -> Result<(), BrokenLaw> {
        self.count_time(before, at, event);
        sealed_is_final(before, event, after)?;
        seal_is_due(before, at, event)?;
        outcome_is_justified(event, before)?;
        decisions_persist(before, after)?;
        one_launch_lives(before, after)?;
        older_launches_are_fenced(before, event, after)?;
        lines_fold_once(before, event)?;
        records_fold_once(before, event)?;
        external_agents_are_not_stopped(before, event)?;
        evidence_is_about_the_tree(before, event)?;
        messages_settle_once(before, event, after)?;
        bounds_hold(after)?;
        turn_errors_are_claims(before, event, after)?;
        shortages_fail_nothing(before, event)?;
        self.requests_settle_once(after)?;
        self.hooks_fire_once(before, event, after)?;
        self.stops_go_in_order(before, at, event, after)?;
        self.time_limits_are_fair(before, event)?;
        self.reactions_are_bounded(before, event)?;
        self.turns.event(before, event, after)?;
        if matches!(event, Event::AttemptOpened(_)) {
            self.worked_ms = 0;
        }
        Ok(())
    }

    /// Checks a session that cannot advance at this time.
    pub fn check_settled(&self, session: &Session, now: Moment) -> Result<(), BrokenLaw> {
        law!(session.advance(now).is_none(), "the session is settled, yet it can advance");
        let deadline = session.deadline();
        if let Some((at, due)) = deadline {
            let silent = matches!(due, DeadlineKind::Silence(_));
            law!(at > now.mono_ms || silent, "a due {} changed nothing", due.as_str());
        }
        let effects = session.effects();
        law!(effects == session.effects(), "the same session has different pending effects");
        let keys: BTreeSet<String> = effects.iter().map(SessionEffect::key).collect();
        law!(keys.len() == effects.len(), "two effects share a key: {effects:?}");
        let state = session.judgement().state;
        let waits = session.attempt().is_sealed() || state == State::NeedsInput;
        law!(
            waits || deadline.is_some() || !effects.is_empty(),
            "the session is {} and waits for nothing",
            state.as_str()
        );
        no_input_without_pane(session, &effects)?;
        keys_reach_their_target(session, &effects)?;
        typed_input_settles(session, &effects)?;
        nothing_is_stranded(session, &effects)
    }

    fn count_time(&mut self, before: &Session, at: Moment, event: &Event) {
        let state = before.judgement().state;
        let running = before
            .current_launch()
            .is_some_and(|launch| matches!(launch.phase, LaunchPhase::Running { .. }));
        let worked = running && state != State::NeedsInput && !state.is_terminal();
        if worked && !before.attempt().is_sealed() {
            self.worked_ms += at.mono_ms.saturating_sub(self.last_ms);
        }
        self.last_ms = at.mono_ms;
        if let Event::StopEscalated(stop) = event
            && stop.step == StopStep::Kill
        {
            self.kills.insert(stop.launch);
        }
    }

    fn time_limits_are_fair(&self, before: &Session, event: &Event) -> Result<(), BrokenLaw> {
        let Event::AttemptStopped(stopped) = event else { return Ok(()) };
        let Some(limit) = before.spec.bounds.time_limit_ms else {
            law!(stopped.cause != StopCause::Timeout, "a time limit expired that was never set");
            return Ok(());
        };
        law!(
            stopped.cause != StopCause::Timeout || self.worked_ms >= limit,
            "the time limit of {limit} ms expired after {} ms of work: waiting was counted",
            self.worked_ms
        );
        Ok(())
    }

    /// The number of reactions to an occasion is limited, and no reaction touches a finished attempt or an external
    /// agent.
    fn reactions_are_bounded(&mut self, before: &Session, event: &Event) -> Result<(), BrokenLaw> {
        let Event::ReactionDone(done) = event else { return Ok(()) };
        let (name, attempt) = (&done.reaction, before.attempt());
        let known = before.spec.reactions.iter().find(|one| one.name == *name);
        let Some(reaction) = known else { return Err(format!("unknown reaction {name}")) };
        let times = self.reactions.entry((name.clone(), done.occasion)).or_default();
        *times += 1;
        law!(
            *times <= reaction.times,
            "occasion {} of {name} was handled too often",
            done.occasion
        );
        let all = self.reactions_per_attempt.entry((name.clone(), attempt.no)).or_default();
        *all += 1;
        law!(*all <= reaction.total, "{name} was carried out {all} times in one attempt");
        let over = attempt.is_sealed() || attempt.is_decided();
        law!(!over, "{name} was carried out on a finished attempt");
        let stopping = before.launches.last().is_some_and(|launch| launch.is_stopping());
        law!(!stopping, "{name} was carried out on a process that is being stopped");
        let notifies =
            matches!(reaction.act, ReactionAction::Notify | ReactionAction::Nudge { .. });
        let theirs = before.spec.adopted.is_some();
        law!(notifies || !theirs, "{name} touched an external agent");
        Ok(())
    }

    fn requests_settle_once(&mut self, after: &Session) -> Result<(), BrokenLaw> {
        for request in &after.requests {
            let key = (request.id, request.revision);
            match self.settled_requests.get(&key) {
                Some(fate) => {
                    law!(*fate == request.status, "request {} was settled twice", request.id);
                }
                None if request.status != RequestStatus::Open => {
                    self.settled_requests.insert(key, request.status);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn hooks_fire_once(
        &mut self,
        before: &Session,
        event: &Event,
        after: &Session,
    ) -> Result<(), BrokenLaw> {
        let fresh: Vec<HookKey> = after
            .hooks
            .iter()
            .map(|hook| hook.key)
            .filter(|key| before.hooks.iter().all(|hook| hook.key != *key))
            .collect();
        for key in &fresh {
            law!(self.hooks.insert(*key), "the hook key {} {} was used before", key.event, key.no);
        }
        let keys: BTreeSet<HookKey> = after.hooks.iter().map(|hook| hook.key).collect();
        law!(keys.len() == after.hooks.len(), "a hook key is pending twice");
        let wanted =
            required_hook(before, event).filter(|hook| after.spec.hooks.contains_key(hook));
        let terminal: Vec<HookEvent> =
            fresh.iter().map(|key| key.event).filter(|event| is_terminal(*event)).collect();
        law!(
            terminal == Vec::from_iter(wanted),
            "an outcome must be announced exactly once: wanted {wanted:?}, pending {terminal:?}"
        );
        Ok(())
    }

    fn stops_go_in_order(
        &self,
        before: &Session,
        at: Moment,
        event: &Event,
        after: &Session,
    ) -> Result<(), BrokenLaw> {
        if let Event::StopEscalated(stop) = event {
            let Some(was) = before.launch(stop.launch).and_then(|launch| launch.stop) else {
                return Err(format!(
                    "a stop of {} escalates, but was never requested",
                    stop.launch
                ));
            };
            let bounds = &before.spec.bounds;
            let (next, grace) = match was.step {
                StopStep::Interrupt => (StopStep::Terminate, 0),
                StopStep::Terminate => (StopStep::Kill, bounds.stop_grace_ms),
                StopStep::Kill => (StopStep::GivenUp, bounds.kill_grace_ms),
                StopStep::GivenUp => {
                    return Err("a stop continues after it was given up".to_owned());
                }
            };
            law!(stop.step == next, "a stop went from {:?} to {:?}", was.step, stop.step);
            law!(
                at.mono_ms >= was.since.mono_ms + grace,
                "a stop escalates before its grace period is over"
            );
        }
        for launch in &after.launches {
            let given_up = launch.stop.is_some_and(|stop| stop.step == StopStep::GivenUp);
            law!(
                !given_up || self.kills.contains(&launch.id),
                "{} was given up without a KILL",
                launch.id
            );
        }
        Ok(())
    }
}

/// Only `resolve` changes a sealed outcome, and nothing changes its record.
fn sealed_is_final(before: &Session, event: &Event, after: &Session) -> Result<(), BrokenLaw> {
    for (was, is) in before.attempts.iter().zip(&after.attempts) {
        if was.sealed.is_none() {
            continue;
        }
        law!(was.sealed == is.sealed, "the sealed record of attempt {} changed", was.no);
        law!(was.claim == is.claim, "a claim was applied to the sealed attempt {}", was.no);
        let resolved = matches!(event, Event::AttemptResolved(_));
        law!(
            was.resolutions == is.resolutions || (resolved && is.no == before.attempt().no),
            "the sealed attempt {} was resolved by something else",
            was.no
        );
    }
    let same = before.attempt().no == after.attempt().no && before.attempt().is_sealed();
    let (was, is) = (before.judgement(), after.judgement());
    law!(
        !same
            || matches!(event, Event::AttemptResolved(_))
            || (was.state, was.cause, was.rule) == (is.state, is.cause, is.rule),
        "a sealed {} became {}",
        was.state.as_str(),
        is.state.as_str()
    );
    Ok(())
}

/// An attempt is sealed only after a terminal state has lasted for its settle window, and only if no check is pending.
fn seal_is_due(before: &Session, at: Moment, event: &Event) -> Result<(), BrokenLaw> {
    let Event::AttemptSealed(sealed) = event else { return Ok(()) };
    let (attempt, judged) = (before.attempt(), before.judgement());
    law!(!attempt.is_sealed(), "attempt {} is sealed twice", attempt.no);
    law!(sealed.attempt == attempt.no, "an attempt other than the current one is sealed");
    law!(sealed.sealed.judgement.is_terminal(), "a live state is sealed");
    law!(
        sealed.sealed.judgement.state == judged.state,
        "a {} session is sealed as {}",
        judged.state.as_str(),
        sealed.sealed.judgement.state.as_str()
    );
    // If an attempt is superseded, the next one continues its preparation.
    let is_preparation = |effect: &_| matches!(effect, SessionEffect::PrepareWork { .. });
    let prepares =
        before.spec.work != WorkLocation::Plain && before.effects().iter().any(is_preparation);
    law!(attempt.superseded || !prepares, "sealed while its worktree is being made");
    if attempt.superseded || !attempt.resolutions.is_empty() {
        return Ok(());
    }
    let proof = before
        .effects()
        .into_iter()
        .find(|e| matches!(e, SessionEffect::TakeSnapshot { .. } | SessionEffect::RunCheck { .. }));
    law!(proof.is_none(), "sealed while {proof:?} is pending");
    let decided = attempt.cancelled.is_some() || attempt.stopped.is_some();
    // A check that only agents wrote proves nothing.
    let named_by_agents = &before.spec.check_terms.agent_checks;
    let unproved = before.spec.checks.iter().any(|check| !named_by_agents.contains(check))
        && judged.has(Flag::Unverified)
        && attempt.verifying.failed.is_none();
    law!(decided || !unproved, "sealed as unverified though checks are configured");
    let bounds = &before.spec.bounds;
    let good =
        before.spec.run.is_some() && matches!(judged.state, State::Succeeded | State::Completed);
    let window = match (judged.has(Flag::SettleFirst), good) {
        (true, _) => bounds.settle_ms.max(bounds.drain_ms),
        (false, true) => bounds.settle_ms.min(RUN_SETTLE_MS),
        (false, false) => bounds.settle_ms,
    };
    // A result that a run's checks verified also held while the checks were running.
    let claimed =
        if good && judged.state == State::Succeeded { attempt.claim.as_ref() } else { None };
    let since = claimed.map_or(attempt.since, |claim| claim.at);
    let waited = at.mono_ms.saturating_sub(since.mono_ms);
    law!(waited >= window, "sealed after {waited} ms, before the window of {window} ms was over");
    Ok(())
}

/// An attempt succeeds only with a claim and a passed verdict on the snapshot's tree. Only users can accept an attempt.
fn outcome_is_justified(event: &Event, before: &Session) -> Result<(), BrokenLaw> {
    let Event::AttemptSealed(sealed) = event else { return Ok(()) };
    let attempt = before.attempt();
    match sealed.sealed.judgement.state {
        State::Succeeded => success_is_verified(before, attempt, sealed.sealed.tree.as_ref()),
        State::Completed => {
            law!(attempt.claim_kind() == ClaimKind::Completed, "completed without a claim");
            Ok(())
        }
        State::Accepted => {
            law!(!attempt.resolutions.is_empty(), "accepted without a resolution");
            Ok(())
        }
        State::Cancelled => {
            let resolved = !attempt.resolutions.is_empty();
            law!(attempt.cancelled.is_some() || resolved, "cancelled without a request");
            Ok(())
        }
        State::Stopped => {
            let why = before.stop_reason();
            let ended = matches!(why, Some(StopReason::Operator | StopReason::TeamEnded));
            law!(ended, "stopped without a request");
            let claimed = matches!(attempt.claim_kind(), ClaimKind::Completed | ClaimKind::Failed);
            law!(!claimed, "stopped despite a claim");
            Ok(())
        }
        State::Superseded => {
            law!(attempt.superseded, "superseded without a newer attempt");
            Ok(())
        }
        State::Failed
        | State::ExitedWithoutClaim
        | State::Disputed
        | State::Working
        | State::Idle
        | State::NeedsInput
        | State::Finishing
        | State::Rework
        | State::Verifying
        | State::Stalled
        | State::Lost => Ok(()),
    }
}

fn success_is_verified(
    session: &Session,
    attempt: &Attempt,
    tree: Option<&provost_core::ids::TreeId>,
) -> Result<(), BrokenLaw> {
    law!(attempt.claim_kind() == ClaimKind::Completed, "succeeded without a claim");
    law!(attempt.verifying.confirmed, "succeeded without a second snapshot");
    let Some(tree) = tree else { return Err("succeeded without a tree".to_owned()) };
    let snapshot = attempt.verifying.snapshot.as_ref().map(|snapshot| &snapshot.tree);
    law!(snapshot == Some(tree), "succeeded for a tree other than the snapshot's");
    let changed = session.base_tree() != Some(tree);
    law!(changed || session.spec.empty_diff == EmptyDiff::Accepted, "succeeded without changes");
    law!(!session.spec.checks.is_empty(), "succeeded without any check");
    for check in &session.spec.checks {
        let green = attempt
            .verifying
            .receipts
            .iter()
            .any(|r| r.command == *check && r.tree == *tree && r.end == CheckEnd::Exit(0));
        law!(green, "succeeded although `{check}` did not pass on the tree");
    }
    Ok(())
}

/// Only a later `resolve` overrides a decision of the operator.
fn decisions_persist(before: &Session, after: &Session) -> Result<(), BrokenLaw> {
    let attempt = after.attempt();
    let same = before.attempt().no == attempt.no;
    law!(
        !same || before.attempt().cancelled.is_none() || attempt.cancelled.is_some(),
        "a cancel was undone"
    );
    let state = after.judgement().state;
    let open = attempt.resolutions.is_empty();
    law!(
        attempt.cancelled.is_none()
            || !open
            || attempt.sealed.is_some()
            || state == State::Cancelled,
        "a cancelled attempt is {}",
        state.as_str()
    );
    law!(state != State::Accepted || !open, "accepted without a resolution");
    Ok(())
}

fn one_launch_lives(before: &Session, after: &Session) -> Result<(), BrokenLaw> {
    let ids: BTreeSet<LaunchId> = after.launches.iter().map(|launch| launch.id).collect();
    law!(ids.len() == after.launches.len(), "two launches share an id");
    let living = after.launches.iter().filter(|launch| launch.may_be_running()).count();
    law!(living <= 1, "{living} launches are live at once");
    for (was, is) in before.launches.iter().zip(&after.launches) {
        law!(was.id == is.id, "a launch changed its id");
        law!(was.may_be_running() || is.has_ended(), "{} is live again", was.id);
        law!(was.may_be_running() || was.phase == is.phase, "the end of {} was rewritten", was.id);
    }
    Ok(())
}

/// An older launch never changes the attempt that a newer one serves.
///
/// The only exception is a request that the older launch made, because it may still withdraw that request.
fn older_launches_are_fenced(
    before: &Session,
    event: &Event,
    after: &Session,
) -> Result<(), BrokenLaw> {
    let Some(launch) = launch_of(event) else { return Ok(()) };
    if before.current_launch().is_none_or(|current| current.id == launch) {
        return Ok(());
    }
    let (was, is) = (before.attempt(), after.attempt());
    law!(
        was.claim == is.claim && was.verifying == is.verifying && was.stopped == is.stopped,
        "{} of the older {launch} changed the basis of the attempt",
        event.kind().0
    );
    law!(
        before.judgement().state == after.judgement().state,
        "{} of the older {launch} made {} of {}",
        event.kind().0,
        after.judgement().state.as_str(),
        before.judgement().state.as_str()
    );
    Ok(())
}

/// A journal line is folded only once, so its cursor is beyond that of the last folded line.
fn lines_fold_once(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    let Some((launch, cursor)) = cursor_of(event) else { return Ok(()) };
    let folded = before.launch(launch).map_or(Cursor::default(), |launch| launch.cursor);
    // Transcript entries are not in the journal; their position has its own law.
    let beside = before.spec.agent.interface.has_terminal() && cursor == folded;
    law!(cursor > folded || beside, "a line of {launch} at {cursor:?} was folded twice");
    Ok(())
}

/// A transcript line is folded once. A hook arrives once and has no position.
fn records_fold_once(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    if let Event::SignalRecorded(e) = event {
        let read = before.launch(e.launch).and_then(|launch| launch.watch.records.get(&e.by));
        let behind = read.is_none_or(|seen| e.place > seen.place) || e.by == RecordSource::Hook;
        law!(behind, "the record of {} at {} was folded twice", e.launch, e.place);
        let left = before.launch(e.launch).is_some_and(|launch| launch.watch.behind);
        let late = left && e.by == RecordSource::Rollout && e.said != SignalKind::Named;
        law!(!late, "the record of an abandoned conversation was folded at {}", e.place);
    }
    Ok(())
}

/// Provost never stops an external agent.
fn external_agents_are_not_stopped(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    if let Event::StopRequested(e) = event {
        let adopted = before.launch(e.launch).is_some_and(|launch| launch.adopted);
        law!(!adopted, "{} is to be stopped, but is an external agent", e.launch);
    }
    Ok(())
}

/// No keys are sent to an external agent that has no pane.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these effects only")]
fn no_input_without_pane(session: &Session, effects: &[SessionEffect]) -> Result<(), BrokenLaw> {
    let closed = session.spec.adopted.as_ref().is_some_and(|adopted| adopted.pane.is_none());
    if !closed {
        return Ok(());
    }
    for effect in effects {
        match effect {
            SessionEffect::Deliver { launch, message }
            | SessionEffect::PressAgain { launch, message } => {
                return Err(format!("{message} is to be typed to {launch}, which has no pane"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An answer is typed only for the latest request, and an interrupt is never typed while a request is open. A text is
/// typed only at an unattended prompt, with no open request and no turn in progress.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these effects only")]
fn keys_reach_their_target(session: &Session, effects: &[SessionEffect]) -> Result<(), BrokenLaw> {
    if !session.spec.agent.interface.has_terminal() {
        return Ok(());
    }
    for effect in effects {
        let (launch, key, again) = match effect {
            SessionEffect::Deliver { launch, message } => (launch, message, false),
            SessionEffect::PressAgain { launch, message } => (launch, message, true),
            _ => continue,
        };
        let message = session.messages.iter().find(|message| message.key == *key);
        let (Some(launch), Some(message)) = (session.launch(*launch), message) else {
            return Err(format!("{key} is typed without a running launch"));
        };
        let of_it = session.requests.iter().filter(|request| request.launch == launch.id);
        let open = of_it.clone().filter(|request| request.status == RequestStatus::Open).count();
        law!(launch.viewers == 0, "{key} is typed while a user is at the screen");
        if message.kind == AgentMessageKind::Answer {
            let asked = of_it.clone().find(|request| Some(request.id) == message.request);
            let newer = of_it.skip_while(|request| Some(request.id) != message.request).skip(1);
            let settled = |request: &Request| {
                let waits = |m: &AgentMessage| {
                    m.status == DeliveryStatus::Queued && m.request == Some(request.id)
                };
                request.status != RequestStatus::Open && !session.messages.iter().any(waits)
            };
            law!(
                asked.is_some_and(|request| request.status == RequestStatus::Answered),
                "{key} answers no open request"
            );
            law!(
                newer.into_iter().all(settled),
                "{key} is typed, although a newer request is open"
            );
            continue;
        }
        let shown = launch.watch.shown_signal();
        law!(open == 0 && shown != Some(SignalKind::Asks), "{key} would answer an open request");
        // A turn that is only expected starts with the typed text.
        let in_turn = launch.activity() == Activity::Active && !launch.stream.expected;
        law!(message.kind == AgentMessageKind::Interrupt || !in_turn, "{key} is typed into a turn");
        let typed = message.typed.map(|typed| typed.at.mono_ms);
        let turned = launch.watch.turn_changed_at.map(|at| at.mono_ms);
        law!(!again || turned <= typed, "{key} is sent again, although a turn has started since");
    }
    Ok(())
}

/// A deadline, or the end of a turn, settles unconfirmed typed input.
fn typed_input_settles(session: &Session, effects: &[SessionEffect]) -> Result<(), BrokenLaw> {
    let typed = |m: &&AgentMessage| m.status == DeliveryStatus::Queued && m.typed.is_some();
    let running = |launch: &&Launch| matches!(launch.phase, LaunchPhase::Running { .. });
    let Some(launch) = session.launches.last().filter(running) else { return Ok(()) };
    for message in session.messages.iter().filter(typed) {
        let pressed =
            effects.iter().any(|effect| matches!(effect, SessionEffect::PressAgain { .. }));
        // A message on the command line waits for the user to pass startup dialogs.
        let given = message.typed.is_some_and(|typed| typed.state == TypingState::CommandLine);
        let in_turn = matches!(launch.activity(), Activity::Active | Activity::Stale);
        let bounded = session.deadline().is_some() || pressed || given || in_turn;
        law!(bounded, "{} was typed, but nothing settles it", message.key);
    }
    Ok(())
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn evidence_is_about_the_tree(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    match event {
        Event::CheckFinished(e) => {
            let snapshot = before.attempt().verifying.snapshot.as_ref();
            let tree = snapshot.map(|snapshot| &snapshot.tree);
            law!(tree == Some(&e.receipt.tree), "evidence about another tree was accepted");
        }
        Event::SnapshotTaken(_) => {
            let unchecked =
                before.attempt().verifying.snapshot.is_some() && before.verdict() == Verdict::Open;
            law!(!unchecked, "a snapshot confirmed itself before any check");
        }
        _ => {}
    }
    Ok(())
}

/// A message is settled only once, unless the agent's program rejects it after delivery. It is then either lost or sent
/// again, for a limited number of times.
fn messages_settle_once(before: &Session, event: &Event, after: &Session) -> Result<(), BrokenLaw> {
    let refused = |key: &str| matches!(event, Event::MessageRefused(e) if e.key == key);
    let keys: BTreeSet<&str> = after.messages.iter().map(|message| message.key.as_str()).collect();
    law!(keys.len() == after.messages.len(), "two messages share a key");
    for (was, is) in before.messages.iter().zip(&after.messages) {
        law!(was.key == is.key, "a message was lost from the record");
        law!(
            was.status == DeliveryStatus::Queued || was.status == is.status || refused(&was.key),
            "the message {} was settled twice",
            was.key
        );
        law!(is.refusals < MAX_REFUSALS, "the message {} is sent forever", is.key);
    }
    Ok(())
}

fn bounds_hold(after: &Session) -> Result<(), BrokenLaw> {
    let (attempt, bounds) = (after.attempt(), &after.spec.bounds);
    law!(
        attempt.reworks <= bounds.rework,
        "work was sent back for rework {} times",
        attempt.reworks
    );
    law!(
        attempt.verifying.moved <= bounds.snapshots + 1,
        "a changing tree was snapshotted {} times",
        attempt.verifying.moved
    );
    Ok(())
}

/// An effect that lacked a resource does not count as failed, and it is not carried out while it waits for that
/// resource.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other event says that something failed")]
fn shortages_fail_nothing(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    let reason = match event {
        Event::WorkFailed(e) => Some(&e.reason),
        Event::LaunchFailed(e) => Some(&e.reason),
        Event::SnapshotFailed(e) => Some(&e.reason),
        Event::SetupFinished(e) => e.failure.as_ref(),
        Event::HookFinished(e) => match &e.end {
            HookEnd::NotStarted(why) | HookEnd::Uncertain(why) => Some(why),
            _ => None,
        },
        Event::CheckFinished(e) => match &e.receipt.end {
            CheckEnd::Unfinished(why) => Some(why),
            _ => None,
        },
        Event::EffectShortage(e) => {
            let pending = before.effects().iter().any(|effect| effect.key() == e.effect);
            law!(pending, "{} waits, but is not pending", e.effect);
            None
        }
        Event::EffectRetried(e) => {
            let done = before.effects().iter().any(|effect| effect.key() == e.effect);
            law!(!done, "{} is retried while it is in progress", e.effect);
            None
        }
        _ => None,
    };
    match reason.filter(|reason| Shortage::from_text(reason).is_some()) {
        Some(reason) => Err(format!("something failed for lack of a resource: {reason}")),
        None => Ok(()),
    }
}

fn turn_errors_are_claims(
    before: &Session,
    event: &Event,
    after: &Session,
) -> Result<(), BrokenLaw> {
    let Event::TurnEnded(turn) = event else { return Ok(()) };
    let current = before.current_launch().is_some_and(|launch| launch.id == turn.launch);
    let error = matches!(turn.end, TurnEnd::Error(_));
    // The end of the agent's own compaction is not a result of the work.
    let compacts = before.compacting().is_some_and(|asked| asked.turn);
    law!(
        !(error && current && !compacts)
            || before.attempt().is_sealed()
            || after.attempt().claim_kind() == ClaimKind::Failed,
        "a turn ended with an error that was ignored"
    );
    Ok(())
}

/// Every message has a route to its recipient, and every request can still be answered.
fn nothing_is_stranded(session: &Session, effects: &[SessionEffect]) -> Result<(), BrokenLaw> {
    let sealed = session.attempt().is_sealed();
    law!(!sealed || session.open_requests().count() == 0, "a request outlived its attempt");
    let queued = session.messages.iter().find(|message| message.status == DeliveryStatus::Queued);
    let Some(message) = queued else { return Ok(()) };
    // An idle agent may call tools after its attempt was sealed, and still receives the answers.
    let called = message.returned.is_some();
    // The conversation may be compacted before the next work begins.
    let compacts = message.kind == AgentMessageKind::Compact && session.is_parked();
    law!(!sealed || called || compacts, "the message {} outlived its attempt", message.key);
    let running = session.launches.last().is_none_or(|launch| launch.may_be_running());
    // The user's next message to an agent that needs input resumes the agent, which then receives
    // the queued messages, too.
    let person = session.judgement().state == State::NeedsInput;
    let expected = running || person || session.deadline().is_some() || !effects.is_empty();
    law!(expected, "the message {} is queued for a process that has ended", message.key);
    Ok(())
}

/// Returns the terminal hook that an event must trigger.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn required_hook(before: &Session, event: &Event) -> Option<HookEvent> {
    match event {
        Event::AttemptSealed(e) => Some(HookEvent::State(e.sealed.judgement.state)),
        Event::AttemptResolved(e) => {
            before.attempt().is_sealed().then_some(HookEvent::State(e.state))
        }
        _ => None,
    }
}

fn is_terminal(event: HookEvent) -> bool {
    match event {
        HookEvent::State(state) => state.is_terminal(),
        HookEvent::Opened | HookEvent::Started | HookEvent::LateClaim | HookEvent::Reaction => {
            false
        }
    }
}

/// Returns the launch whose stream or process an event concerns.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn launch_of(event: &Event) -> Option<LaunchId> {
    match event {
        Event::StreamReady(e) => Some(e.launch),
        Event::ThreadSwitched(e) => Some(e.launch),
        Event::TurnStarted(e) => Some(e.launch),
        Event::TurnEnded(e) => Some(e.launch),
        Event::StreamHeard(e) => Some(e.launch),
        Event::StreamSilent(e) => Some(e.launch),
        Event::StreamRetrying(e) => Some(e.launch),
        Event::StreamClosed(e) => Some(e.launch),
        Event::OutputOversized(e) => Some(e.launch),
        Event::OutputLost(e) => Some(e.launch),
        Event::ProgressReported(e) => Some(e.launch),
        Event::UsageReported(e) => Some(e.launch),
        Event::ContextReported(e) => Some(e.launch),
        Event::ContextCompacted(e) => Some(e.launch),
        Event::RequestOpened(e) => Some(e.launch),
        Event::ProcessEnded(e) => Some(e.launch),
        Event::ProcessUnknown(e) => Some(e.launch),
        Event::LaunchFollowed(e) => Some(e.launch),
        Event::ProcessSeen(e) => Some(e.launch),
        Event::ViewersChanged(e) => Some(e.launch),
        Event::ProcessUnobserved(e) => Some(e.launch),
        Event::ProcessTreeReaped(e) => Some(e.launch),
        Event::ClaimMade(e) => e.launch,
        _ => None,
    }
}

/// Returns the journal position at which an event was read.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn cursor_of(event: &Event) -> Option<(LaunchId, Cursor)> {
    match event {
        Event::StreamReady(e) => Some((e.launch, e.cursor)),
        Event::TurnStarted(e) => Some((e.launch, e.cursor)),
        Event::TurnEnded(e) => Some((e.launch, e.cursor)),
        Event::StreamRetrying(e) => Some((e.launch, e.cursor)),
        Event::OutputOversized(e) => Some((e.launch, e.cursor)),
        Event::ProgressReported(e) => Some((e.launch, e.cursor?)),
        Event::UsageReported(e) => Some((e.launch, e.cursor)),
        Event::ContextReported(e) => Some((e.launch, e.cursor)),
        Event::ContextCompacted(e) => Some((e.launch, e.cursor)),
        Event::RequestOpened(e) => Some((e.launch, e.cursor)),
        Event::ClaimMade(e) => Some((e.launch?, e.cursor?)),
        Event::FactReported(e) => Some((e.launch?, e.cursor?)),
        _ => None,
    }
}
