//! The laws (invariants) of a session, written independently of the rules that uphold them.
//!
//! A [`SessionWatch`] checks every event together with the session before and after it, and every settled session. If a
//! law is broken, the watch returns a description of the violation.

#[path = "session_laws/inputs.rs"]
mod inputs;
#[path = "session_laws/outcomes.rs"]
mod outcomes;

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{LaunchId, RequestId},
    lifecycle::{State, StopCause},
    request::RequestStatus,
    session::{
        AgentMessageKind, AttemptEvent, BudgetEvent, ConversationEvent, Cursor, DeadlineKind,
        DeliveryStatus, EffectEvent, Event, EvidenceEvent, HookEnd, HookEvent, HookKey, InputEvent,
        LaunchPhase, ProcessEvent, ReactionAction, RecordSource, ReportEvent, RequestEvent,
        Session, SessionChange, SessionEffect, SignalKind, StopStep, StreamEvent, TurnEvent,
        WorktreeEvent,
    },
    shortage::Shortage,
    time::Moment,
    verdict::CheckEnd,
};

use self::{
    inputs::{
        external_agents_are_not_stopped, keys_reach_their_target, messages_settle_once,
        no_input_without_pane, typed_input_settles,
    },
    outcomes::{
        decisions_persist, evidence_is_about_the_tree, outcome_is_justified, seal_is_due,
        sealed_is_final, turn_errors_are_claims,
    },
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
pub(crate) use law;

impl SessionWatch {
    /// Starts watching a session that was just opened.
    pub fn start(session: &Session) -> SessionWatch {
        let hooks = session.hook_log.pending.iter().map(|hook| hook.key).collect();
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
        if matches!(event, Event::Attempt(AttemptEvent::AttemptOpened(_))) {
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
        if let Event::Process(ProcessEvent::StopEscalated(stop)) = event
            && stop.step == StopStep::Kill
        {
            self.kills.insert(stop.launch);
        }
    }

    fn time_limits_are_fair(&self, before: &Session, event: &Event) -> Result<(), BrokenLaw> {
        let Event::Attempt(AttemptEvent::AttemptStopped(stopped)) = event else { return Ok(()) };
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
        let Event::Session(SessionChange::ReactionDone(done)) = event else { return Ok(()) };
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
            .hook_log
            .pending
            .iter()
            .map(|hook| hook.key)
            .filter(|key| before.hook_log.pending.iter().all(|hook| hook.key != *key))
            .collect();
        for key in &fresh {
            law!(self.hooks.insert(*key), "the hook key {} {} was used before", key.event, key.no);
        }
        let keys: BTreeSet<HookKey> = after.hook_log.pending.iter().map(|hook| hook.key).collect();
        law!(keys.len() == after.hook_log.pending.len(), "a hook key is pending twice");
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
        if let Event::Process(ProcessEvent::StopEscalated(stop)) = event {
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

/// An older launch never changes the attempt that a newer launch works on.
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

/// A journal line is folded only once, so the cursor of a new line is beyond the cursor of the last folded line.
fn lines_fold_once(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    let Some((launch, cursor)) = cursor_of(event) else { return Ok(()) };
    let folded = before.launch(launch).map_or(Cursor::default(), |launch| launch.cursor);
    // Transcript entries are not in the journal; their position has its own law.
    let beside = before.spec.agent.interface.has_terminal() && cursor == folded;
    law!(cursor > folded || beside, "a line of {launch} at {cursor:?} was folded twice");
    Ok(())
}

/// A transcript line is folded once. A hook event arrives once and has no position.
fn records_fold_once(before: &Session, event: &Event) -> Result<(), BrokenLaw> {
    if let Event::Input(InputEvent::SignalRecorded(e)) = event {
        let read = before.launch(e.launch).and_then(|launch| launch.watch.records.get(&e.by));
        let behind = read.is_none_or(|seen| e.place > seen.place) || e.by == RecordSource::Hook;
        law!(behind, "the record of {} at {} was folded twice", e.launch, e.place);
        let left = before.launch(e.launch).is_some_and(|launch| launch.watch.behind);
        let late = left && e.by == RecordSource::Rollout && e.said != SignalKind::Named;
        law!(!late, "the record of an abandoned conversation was folded at {}", e.place);
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
        Event::Worktree(WorktreeEvent::WorkFailed(e)) => Some(&e.reason),
        Event::Process(ProcessEvent::LaunchFailed(e)) => Some(&e.reason),
        Event::Evidence(EvidenceEvent::SnapshotFailed(e)) => Some(&e.reason),
        Event::Worktree(WorktreeEvent::SetupFinished(e)) => e.failure.as_ref(),
        Event::Session(SessionChange::HookFinished(e)) => match &e.end {
            HookEnd::NotStarted(why) | HookEnd::Uncertain(why) => Some(why),
            _ => None,
        },
        Event::Evidence(EvidenceEvent::CheckFinished(e)) => match &e.receipt.end {
            CheckEnd::Unfinished(why) => Some(why),
            _ => None,
        },
        Event::Effect(EffectEvent::EffectShortage(e)) => {
            let pending = before.effects().iter().any(|effect| effect.key() == e.effect);
            law!(pending, "{} waits, but is not pending", e.effect);
            None
        }
        Event::Effect(EffectEvent::EffectRetried(e)) => {
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

/// Every message has a route to its recipient, and every request can still be answered.
fn nothing_is_stranded(session: &Session, effects: &[SessionEffect]) -> Result<(), BrokenLaw> {
    let sealed = session.attempt().is_sealed();
    law!(!sealed || session.open_requests().count() == 0, "a request outlived its attempt");
    let queued =
        session.input.messages.iter().find(|message| message.status == DeliveryStatus::Queued);
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
        Event::Attempt(AttemptEvent::AttemptSealed(e)) => {
            Some(HookEvent::State(e.sealed.judgement.state))
        }
        Event::Attempt(AttemptEvent::AttemptResolved(e)) => {
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
        Event::Stream(StreamEvent::StreamReady(e)) => Some(e.launch),
        Event::Conversation(ConversationEvent::ThreadSwitched(e)) => Some(e.launch),
        Event::Turn(TurnEvent::TurnStarted(e)) => Some(e.launch),
        Event::Turn(TurnEvent::TurnEnded(e)) => Some(e.launch),
        Event::Stream(StreamEvent::StreamHeard(e)) => Some(e.launch),
        Event::Stream(StreamEvent::StreamSilent(e)) => Some(e.launch),
        Event::Stream(StreamEvent::StreamRetrying(e)) => Some(e.launch),
        Event::Stream(StreamEvent::StreamClosed(e)) => Some(e.launch),
        Event::Stream(StreamEvent::OutputOversized(e)) => Some(e.launch),
        Event::Stream(StreamEvent::OutputLost(e)) => Some(e.launch),
        Event::Report(ReportEvent::ProgressReported(e)) => Some(e.launch),
        Event::Budget(BudgetEvent::UsageReported(e)) => Some(e.launch),
        Event::Conversation(ConversationEvent::ContextReported(e)) => Some(e.launch),
        Event::Conversation(ConversationEvent::ContextCompacted(e)) => Some(e.launch),
        Event::Request(RequestEvent::RequestOpened(e)) => Some(e.launch),
        Event::Process(ProcessEvent::ProcessEnded(e)) => Some(e.launch),
        Event::Process(ProcessEvent::ProcessUnknown(e)) => Some(e.launch),
        Event::Process(ProcessEvent::LaunchFollowed(e)) => Some(e.launch),
        Event::Process(ProcessEvent::ProcessSeen(e)) => Some(e.launch),
        Event::Process(ProcessEvent::ViewersChanged(e)) => Some(e.launch),
        Event::Process(ProcessEvent::ProcessUnobserved(e)) => Some(e.launch),
        Event::Process(ProcessEvent::ProcessTreeReaped(e)) => Some(e.launch),
        Event::Report(ReportEvent::ClaimMade(e)) => e.launch,
        _ => None,
    }
}

/// Returns the journal position at which an event was read.
#[expect(clippy::wildcard_enum_match_arm, reason = "the law is about these events only")]
fn cursor_of(event: &Event) -> Option<(LaunchId, Cursor)> {
    match event {
        Event::Stream(StreamEvent::StreamReady(e)) => Some((e.launch, e.cursor)),
        Event::Turn(TurnEvent::TurnStarted(e)) => Some((e.launch, e.cursor)),
        Event::Turn(TurnEvent::TurnEnded(e)) => Some((e.launch, e.cursor)),
        Event::Stream(StreamEvent::StreamRetrying(e)) => Some((e.launch, e.cursor)),
        Event::Stream(StreamEvent::OutputOversized(e)) => Some((e.launch, e.cursor)),
        Event::Report(ReportEvent::ProgressReported(e)) => Some((e.launch, e.cursor?)),
        Event::Budget(BudgetEvent::UsageReported(e)) => Some((e.launch, e.cursor)),
        Event::Conversation(ConversationEvent::ContextReported(e)) => Some((e.launch, e.cursor)),
        Event::Conversation(ConversationEvent::ContextCompacted(e)) => Some((e.launch, e.cursor)),
        Event::Request(RequestEvent::RequestOpened(e)) => Some((e.launch, e.cursor)),
        Event::Report(ReportEvent::ClaimMade(e)) => Some((e.launch?, e.cursor?)),
        Event::Report(ReportEvent::FactReported(e)) => Some((e.launch?, e.cursor?)),
        _ => None,
    }
}
