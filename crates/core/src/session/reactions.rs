//! Reactions: automatic actions that Provost takes when a session is quiet, stalls, asks something,
//! or reaches a limit.
//!
//! An occasion begins when its condition starts to hold and ends when the condition stops holding.
//! The current occasion and the number of responses are derived from the session's events, so a
//! crash changes nothing: a reaction is one event, and its action follows from that event alone.

use serde::{Deserialize, Serialize};

use super::{
    effect::{DeadlineKind, SessionEffect},
    event::{AgentReplaced, Event, LaunchRequested, ReactionDone, RequestSettled},
    hook::HookEvent,
    launch::{Launch, LaunchReason, StopReason, TurnState},
    spec::AgentSpec,
    state::{AgentMessage, AgentMessageKind, Session},
};
use crate::{lifecycle::State, limits::MAX_QUEUED, request::RequestStatus, time::Moment};

/// The condition that triggers a reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReactionTrigger {
    /// A turn is open, but the agent produces no output.
    Quiet,
    Stalled,
    NeedsInput,
    /// At least the given percentage of the context is used.
    Context {
        percent: u32,
    },
    /// The account reached its usage limit.
    UsageLimit,
}

impl ReactionTrigger {
    pub fn as_str(self) -> &'static str {
        match self {
            ReactionTrigger::Quiet => "quiet",
            ReactionTrigger::Stalled => "stalled",
            ReactionTrigger::NeedsInput => "needs_input",
            ReactionTrigger::Context { .. } => "context",
            ReactionTrigger::UsageLimit => "usage_limit",
        }
    }
}

/// The action of a reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReactionAction {
    /// Only runs the hook. All other actions run the hook as well.
    Notify,
    Nudge {
        text: String,
    },
    /// Interrupts the agent's turn, then sends this text.
    Interrupt {
        text: String,
    },
    Compact,
    /// Waits for the account's usage limit to pass. The session would also wait without this
    /// reaction, which limits the number of waits and runs the hook.
    ResumeLater,
    /// Hands the work over to another agent.
    HandOver {
        agent: Box<AgentSpec>,
        /// Additional text for the new agent.
        text: Option<String>,
    },
}

impl ReactionAction {
    pub fn as_str(&self) -> &'static str {
        match self {
            ReactionAction::Notify => "notify",
            ReactionAction::Nudge { .. } => "nudge",
            ReactionAction::Interrupt { .. } => "interrupt",
            ReactionAction::Compact => "compact",
            ReactionAction::ResumeLater => "resume_later",
            ReactionAction::HandOver { .. } => "hand_over",
        }
    }

    /// Whether the action makes sense in response to this condition.
    pub fn applies_to(&self, on: ReactionTrigger) -> bool {
        match self {
            ReactionAction::Notify | ReactionAction::HandOver { .. } => true,
            ReactionAction::Nudge { .. } => on != ReactionTrigger::UsageLimit,
            ReactionAction::Interrupt { .. } => matches!(
                on,
                ReactionTrigger::Quiet | ReactionTrigger::Stalled | ReactionTrigger::NeedsInput
            ),
            ReactionAction::Compact => matches!(on, ReactionTrigger::Context { .. }),
            ReactionAction::ResumeLater => on == ReactionTrigger::UsageLimit,
        }
    }
}

/// A reaction that is configured for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reaction {
    pub name: String,
    pub on: ReactionTrigger,
    /// The time that the condition must hold before the first response, and the minimum time
    /// between two responses to the same occasion.
    pub after_ms: u64,
    pub act: ReactionAction,
    /// The maximum number of responses to one occasion.
    pub times: u32,
    /// The maximum number of responses in one attempt.
    pub total: u32,
}

/// The agent that takes over, and a text that it receives in addition to the instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Successor {
    pub agent: Box<AgentSpec>,
    pub text: Option<String>,
}

/// One occasion of a reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occasion {
    pub reaction: String,
    pub no: u32,
}

/// The state of a reaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReactionState {
    /// The time at which the occasion began, on the monotonic clock. None if the condition does not
    /// hold.
    pub since_ms: Option<u64>,
    /// The number of occasions so far.
    pub occasion: u32,
    /// The number of responses to this occasion so far.
    pub times: u32,
    /// The number of responses in this attempt so far.
    pub total: u32,
    pub last_ms: u64,
}

/// The reactions of a session, and the handover that one of them may have caused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reactions {
    /// The state of each reaction in the spec, in the same order.
    #[serde(rename = "reacted", default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<ReactionState>,
    /// The agent that takes over once this agent's process is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handing_over: Option<Successor>,
    /// Whether the handover has happened. It happens at most once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handed_over: bool,
}

/// The minimum time between two responses to the same occasion.
const MIN_INTERVAL_MS: u64 = 1_000;

impl Session {
    /// Returns the next reaction that is due because time has passed. Reactions to silence also
    /// depend on the time of the last output, so `react_to_silence` decides them.
    pub(super) fn react(&self, now: Moment) -> Option<Event> {
        self.due_reactions(|on| on != ReactionTrigger::Quiet, now.mono_ms).next()
    }

    /// Returns the next reaction to the usage limit that was due before the wait ends.
    pub(super) fn react_to_limit(&self, end_ms: u64) -> Option<Event> {
        self.due_reactions(|on| on == ReactionTrigger::UsageLimit, end_ms).next()
    }

    /// Returns the reactions that are due because the silence has lasted long enough.
    pub(super) fn react_to_silence(&self, now: Moment) -> impl Iterator<Item = Event> {
        self.due_reactions(|on| on == ReactionTrigger::Quiet, now.mono_ms)
    }

    fn due_reactions(
        &self,
        which: impl Fn(ReactionTrigger) -> bool,
        now_ms: u64,
    ) -> impl Iterator<Item = Event> {
        let due = self.upcoming_reactions().filter(move |(at, one)| which(one.on) && now_ms >= *at);
        due.map(|(_, one)| {
            let occasion = self.reaction_state(&one.name).map_or(0, |reacted| reacted.occasion);
            ReactionDone { reaction: one.name.clone(), occasion }.into()
        })
    }

    /// Returns the upcoming reactions and when they are due.
    fn upcoming_reactions(&self) -> impl Iterator<Item = (u64, &Reaction)> {
        let pairs = self.spec.reactions.iter().zip(&self.reactions.states);
        pairs.filter_map(|(one, reacted)| {
            let left = reacted.times < one.times && reacted.total < one.total;
            let at = match reacted.times {
                0 => reacted.since_ms?.saturating_add(one.after_ms),
                _ => reacted.last_ms.saturating_add(one.after_ms.max(MIN_INTERVAL_MS)),
            };
            let holds = reacted.since_ms.is_some();
            (left && holds && self.can_perform(&one.act)).then_some((at, one))
        })
    }

    pub(super) fn reaction_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let dues = self.upcoming_reactions().filter(|(_, one)| one.on != ReactionTrigger::Quiet);
        dues.map(|(at, _)| (at, DeadlineKind::Reaction)).min_by_key(|(at, _)| *at)
    }

    /// Returns when the silence will have lasted long enough for a reaction.
    pub(super) fn quiet_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.running_launch()?.id;
        let dues = self.upcoming_reactions().filter(|(_, one)| one.on == ReactionTrigger::Quiet);
        dues.map(|(at, _)| (at, DeadlineKind::Silence(launch))).min_by_key(|(at, _)| *at)
    }

    /// Whether an action is currently possible. External agents can at most be notified or nudged.
    /// No action is possible if the attempt is decided or being stopped.
    fn can_perform(&self, act: &ReactionAction) -> bool {
        let attempt = self.attempt();
        if attempt.is_sealed() || attempt.is_decided() || self.reactions.handing_over.is_some() {
            return false;
        }
        let Some(launch) = self.running_launch().filter(|launch| launch.stop.is_none()) else {
            return *act == ReactionAction::Notify
                && !self.launches.iter().any(Launch::is_stopping);
        };
        let (interface, ours) = (&self.spec.agent.interface, self.spec.adopted.is_none());
        let reached = self.spec.adopted.as_ref().is_none_or(|adopted| adopted.pane.is_some());
        match act {
            ReactionAction::Notify => true,
            ReactionAction::Nudge { .. } => {
                self.spec.agent.accepts_input() && reached && self.has_queue_space()
            }
            ReactionAction::Interrupt { .. } => {
                let new = !launch.stream.interrupted
                    && !self.input.has_queued(AgentMessageKind::Interrupt);
                ours && interface.takes_instructions()
                    && launch.is_in_turn()
                    && new
                    && self.has_queue_space()
            }
            ReactionAction::Compact => {
                ours && interface.compaction().is_some()
                    && !self.is_compacting()
                    && self.may_continue_work()
            }
            ReactionAction::ResumeLater => ours,
            ReactionAction::HandOver { .. } => {
                ours && !interface.has_terminal()
                    && !self.reactions.handed_over
                    && self.may_continue_work()
            }
        }
    }

    fn has_queue_space(&self) -> bool {
        self.input.queued().count() < MAX_QUEUED
    }

    fn reaction_state(&self, name: &str) -> Option<&ReactionState> {
        let at = self.spec.reactions.iter().position(|one| one.name == name)?;
        self.reactions.states.get(at)
    }

    /// Updates the occasions. Called after each event.
    pub(super) fn update_occasions(&mut self, at: Moment) {
        for no in 0..self.spec.reactions.len().min(self.reactions.states.len()) {
            let known = self.reactions.states[no].since_ms;
            let since = self.condition_since(self.spec.reactions[no].on, known, at);
            let reacted = &mut self.reactions.states[no];
            if since.is_some() && since != known {
                reacted.occasion += 1;
                reacted.times = 0;
            }
            reacted.since_ms = since;
        }
    }

    /// Whether a nudge is still queued although its occasion is over. A nudge that is already on
    /// its way to an agent with a protocol still arrives. Nothing is typed into a terminal before
    /// the turn ends, and by then the nudge is no longer needed.
    pub(super) fn is_stale_nudge(&self, message: &AgentMessage) -> bool {
        let Some(Occasion { reaction, no }) = &message.occasion else { return false };
        let reacted = self.reaction_state(reaction);
        let holds = reacted.is_some_and(|one| one.since_ms.is_some() && one.occasion == *no);
        let on_its_way = || {
            let goes = |effect| matches!(effect, SessionEffect::Deliver { message: key, .. } if key == message.key);
            !self.spec.agent.interface.has_terminal() && self.next_delivery().is_some_and(goes)
        };
        !holds && message.typed.is_none() && !on_its_way()
    }

    /// Returns since when a condition has held.
    fn condition_since(&self, on: ReactionTrigger, known: Option<u64>, at: Moment) -> Option<u64> {
        let attempt = self.attempt();
        let shown = |state| (attempt.shown == state).then_some(attempt.since.mono_ms);
        match on {
            ReactionTrigger::Quiet => self.silent_since(),
            ReactionTrigger::Stalled => shown(State::Stalled),
            ReactionTrigger::NeedsInput => shown(State::NeedsInput),
            ReactionTrigger::Context { percent } => {
                let full =
                    self.conversation.context.is_some_and(|context| context.is_at_least(percent));
                full.then(|| known.unwrap_or(at.mono_ms))
            }
            ReactionTrigger::UsageLimit => {
                self.spending.limited.as_ref().map(|limited| limited.since.mono_ms)
            }
        }
    }

    /// Returns when a working agent last produced output. Time during which the agent waits for a
    /// user, waits at a usage limit or is suspended does not count as silence.
    fn silent_since(&self) -> Option<u64> {
        let launch = self.running_launch().filter(|launch| launch.attempt == self.attempt().no)?;
        let works = matches!(launch.stream.turn, TurnState::Open { .. })
            && launch.stream.closed.is_none()
            && self.spending.limited.is_none()
            && !launch.watch.suspended
            && !self.is_blocked();
        works.then_some(launch.stream.last_heard.mono_ms)
    }

    /// Carries out the action of a reaction.
    pub(super) fn carry_out(&mut self, done: &ReactionDone, at: Moment) {
        let Some(no) = self.spec.reactions.iter().position(|one| one.name == done.reaction) else {
            return;
        };
        let Some(reacted) = self.reactions.states.get_mut(no) else { return };
        reacted.times += 1;
        reacted.total += 1;
        reacted.last_ms = at.mono_ms;
        let total = reacted.total;
        self.queue_reaction_hook(HookEvent::Reaction, Some(done.reaction.clone()), at);
        let key = format!("{}-{}-{}", done.reaction, self.attempt().no, total);
        match self.spec.reactions[no].act.clone() {
            ReactionAction::Notify | ReactionAction::ResumeLater => {}
            ReactionAction::Nudge { text } => {
                let key = format!("nudge-{key}");
                self.queue_text(key.clone(), AgentMessageKind::Nudge, text);
                let (reaction, no) = (done.reaction.clone(), done.occasion);
                self.input.update(&key, |m| m.occasion = Some(Occasion { reaction, no }));
            }
            ReactionAction::Interrupt { text } => {
                self.queue_text(format!("leave-{key}"), AgentMessageKind::Interrupt, String::new());
                self.queue_text(format!("continue-{key}"), AgentMessageKind::Continue, text);
            }
            ReactionAction::Compact => {
                let text = self.compact_text().to_owned();
                self.queue_text(format!("compact-{key}"), AgentMessageKind::Compact, text);
            }
            ReactionAction::HandOver { agent, text } => {
                self.reactions.handing_over = Some(Successor { agent, text });
            }
        }
    }
}

// Handing the work over to another agent.
impl Session {
    /// Hands the work over. The previous agent is stopped first, and the next one starts only when
    /// the previous agent's process tree is gone.
    pub(super) fn hand_over(&self) -> Option<Event> {
        let begun = self.launches.iter().any(|launch| launch.why == LaunchReason::HandedOver);
        if self.reactions.handed_over && !begun && !self.attempt().is_decided() {
            let requested =
                LaunchRequested { launch: self.next_launch(), why: LaunchReason::HandedOver };
            return Some(requested.into());
        }
        if !self.is_handing_over() {
            return None;
        }
        let successor = self.reactions.handing_over.as_ref()?;
        let launch = self.current_launch()?;
        if launch.may_be_stopped() {
            return Some(self.stop_launch(launch.id, StopReason::HandedOver).into());
        }
        if launch.is_followed() || !launch.is_gone() {
            return None;
        }
        let void = |request: &crate::request::Request| {
            RequestSettled { request: request.id, status: RequestStatus::Void, cursor: None }.into()
        };
        let replaced = || {
            let (from, to) = (self.spec.agent.name.clone(), successor.agent.name.clone());
            AgentReplaced { from, to }.into()
        };
        Some(self.open_requests().next().map_or_else(replaced, void))
    }

    /// Whether another agent is about to take over. If so, the end of this agent's process is not
    /// an outcome.
    pub(super) fn is_handing_over(&self) -> bool {
        // A claim still counts if the agent made it while it was being stopped.
        self.reactions.handing_over.is_some() && self.may_continue_work()
    }

    /// Switches to the successor, which receives the same instruction and works in the same worktree.
    pub(super) fn switch_to_successor(&mut self, from: &str) {
        let Some(successor) = self.reactions.handing_over.take() else { return };
        self.spec.agent = *successor.agent;
        self.reactions.handed_over = true;
        (self.conversation.thread, self.conversation.context, self.spending.limited) =
            (None, None, None);
        let (no, instruction) = (self.attempt().no, self.attempt().instruction.clone());
        let attempt = self.attempt_mut();
        (attempt.claim, attempt.result_requested, attempt.awaits_user) = (None, None, false);
        let instruction = instruction.unwrap_or_default();
        let text = crate::prompt::hand_over(from, &instruction, successor.text.as_deref());
        self.queue_text(format!("handed-over-{no}"), AgentMessageKind::Instruction, text);
    }
}
