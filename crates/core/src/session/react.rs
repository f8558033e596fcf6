//! Reactions: automatic actions when a session is quiet, stalled, asks, or reaches a limit.
//!
//! An occasion begins when its condition holds, and ends when the condition no longer does. The current
//! occasion and the number of responses are folded from the session's events, so a crash changes
//! nothing: a reaction is one event, and its action follows from that event alone.

use serde::{Deserialize, Serialize};

use super::{
    effect::{Due, Effect},
    event::{AgentReplaced, Event, LaunchOwed, ReactionDone, RequestSettled},
    hook::HookEvent,
    launch::{Launch, LaunchWhy, StopWhy, TurnState},
    spec::Agent,
    state::{Message, MessageFate, MessageKind, Session},
};
use crate::{lifecycle::State, limits::MAX_QUEUED, request::Fate, time::Moment};

/// The condition of a reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// A turn is open, and the agent is silent.
    Quiet,
    Stalled,
    NeedsInput,
    /// The context is full to this percentage.
    Context {
        percent: u32,
    },
    /// The account reached its usage limit.
    UsageLimit,
}

impl On {
    pub fn word(self) -> &'static str {
        match self {
            On::Quiet => "quiet",
            On::Stalled => "stalled",
            On::NeedsInput => "needs_input",
            On::Context { .. } => "context",
            On::UsageLimit => "usage_limit",
        }
    }
}

/// The action of a reaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Only the hook, which every reaction runs.
    Notify,
    Nudge {
        text: String,
    },
    /// The agent's turn is interrupted, and this text is sent.
    Interrupt {
        text: String,
    },
    Compact,
    /// The session waits for the account's usage limit. It does so without a reaction too; this limits
    /// the waits and runs the hook.
    ResumeLater,
    /// Another agent takes over the work.
    HandOver {
        agent: Box<Agent>,
        /// Additional text for it.
        text: Option<String>,
    },
}

impl Act {
    pub fn word(&self) -> &'static str {
        match self {
            Act::Notify => "notify",
            Act::Nudge { .. } => "nudge",
            Act::Interrupt { .. } => "interrupt",
            Act::Compact => "compact",
            Act::ResumeLater => "resume_later",
            Act::HandOver { .. } => "hand_over",
        }
    }

    /// Whether the action makes sense for this condition.
    pub fn answers(&self, on: On) -> bool {
        match self {
            Act::Notify | Act::HandOver { .. } => true,
            Act::Nudge { .. } => on != On::UsageLimit,
            Act::Interrupt { .. } => matches!(on, On::Quiet | On::Stalled | On::NeedsInput),
            Act::Compact => matches!(on, On::Context { .. }),
            Act::ResumeLater => on == On::UsageLimit,
        }
    }
}

/// A configured reaction of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reaction {
    pub name: String,
    pub on: On,
    /// How long the condition must hold first, and the minimum time between responses to one occasion.
    pub after_ms: u64,
    pub act: Act,
    /// The maximum number of responses to one occasion.
    pub times: u32,
    /// The maximum number of responses in one attempt.
    pub total: u32,
}

/// The agent that takes over, and additional text besides the instruction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    pub agent: Box<Agent>,
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
pub struct Reacted {
    /// The start of the occasion on the monotonic clock; none if the condition does not hold.
    pub since_ms: Option<u64>,
    /// The number of occasions so far.
    pub occasion: u32,
    /// The number of responses to this occasion.
    pub times: u32,
    /// The number of responses in this attempt.
    pub total: u32,
    pub last_ms: u64,
}

/// The minimum time between two responses to one occasion.
const APART_MS: u64 = 1_000;

impl Session {
    /// Returns the next reaction that time alone makes due. Silence is decided with what the stream's
    /// reader heard.
    pub(super) fn react(&self, now: Moment) -> Option<Event> {
        self.due(|on| on != On::Quiet, now).next()
    }

    /// Returns the reactions to a lasting silence.
    pub(super) fn react_to_silence(&self, now: Moment) -> impl Iterator<Item = Event> {
        self.due(|on| on == On::Quiet, now)
    }

    fn due(&self, which: impl Fn(On) -> bool, now: Moment) -> impl Iterator<Item = Event> {
        let due = self.dues().filter(move |(at, one)| which(one.on) && now.mono_ms >= *at);
        due.map(|(_, one)| {
            let occasion = self.reacted_of(&one.name).map_or(0, |reacted| reacted.occasion);
            ReactionDone { reaction: one.name.clone(), occasion }.into()
        })
    }

    /// Returns the upcoming reactions with their times.
    fn dues(&self) -> impl Iterator<Item = (u64, &Reaction)> {
        let pairs = self.spec.reactions.iter().zip(&self.reacted);
        pairs.filter_map(|(one, reacted)| {
            let left = reacted.times < one.times && reacted.total < one.total;
            let at = match reacted.times {
                0 => reacted.since_ms?.saturating_add(one.after_ms),
                _ => reacted.last_ms.saturating_add(one.after_ms.max(APART_MS)),
            };
            let holds = reacted.since_ms.is_some();
            (left && holds && self.may(&one.act)).then_some((at, one))
        })
    }

    pub(super) fn reaction_deadline(&self) -> Option<(u64, Due)> {
        let dues = self.dues().filter(|(_, one)| one.on != On::Quiet);
        dues.map(|(at, _)| (at, Due::Reaction)).min_by_key(|(at, _)| *at)
    }

    /// Returns when a silence has lasted long enough for a reaction.
    pub(super) fn quiet_deadline(&self) -> Option<(u64, Due)> {
        let launch = self.running()?.id;
        let dues = self.dues().filter(|(_, one)| one.on == On::Quiet);
        dues.map(|(at, _)| (at, Due::Silence(launch))).min_by_key(|(at, _)| *at)
    }

    /// Whether an action is possible now. External agents can at most be notified or nudged, and nothing
    /// is done to an attempt that was decided or is being stopped.
    fn may(&self, act: &Act) -> bool {
        let attempt = self.attempt();
        if attempt.is_sealed() || attempt.is_decided() || self.handing_over.is_some() {
            return false;
        }
        let Some(launch) = self.running().filter(|launch| launch.stop.is_none()) else {
            return *act == Act::Notify && !self.launches.iter().any(Launch::is_being_ended);
        };
        let (driver, ours) = (self.spec.agent.driver, self.spec.adopted.is_none());
        let reached = self.spec.adopted.as_ref().is_none_or(|adopted| adopted.pane.is_some());
        match act {
            Act::Notify => true,
            Act::Nudge { .. } => self.spec.agent.listens() && reached && self.has_room(),
            Act::Interrupt { .. } => {
                let new = !launch.stream.interrupted && !self.is_under_way(MessageKind::Interrupt);
                ours && driver.has_protocol() && launch.is_in_turn() && new && self.has_room()
            }
            Act::Compact => {
                ours && driver.compacts() && !self.is_compacting() && self.may_use_more()
            }
            Act::ResumeLater => ours,
            Act::HandOver { .. } => {
                ours && !driver.has_terminal() && !self.handed_over && self.may_use_more()
            }
        }
    }

    fn has_room(&self) -> bool {
        self.messages.iter().filter(|m| m.fate == MessageFate::Queued).count() < MAX_QUEUED
    }

    fn reacted_of(&self, name: &str) -> Option<&Reacted> {
        let at = self.spec.reactions.iter().position(|one| one.name == name)?;
        self.reacted.get(at)
    }

    /// Updates the occasions after each event.
    pub(super) fn keep_occasions(&mut self, at: Moment) {
        for no in 0..self.spec.reactions.len().min(self.reacted.len()) {
            let known = self.reacted[no].since_ms;
            let since = self.holds(self.spec.reactions[no].on, known, at);
            let reacted = &mut self.reacted[no];
            if since.is_some() && since != known {
                reacted.occasion += 1;
                reacted.times = 0;
            }
            reacted.since_ms = since;
        }
    }

    /// Whether a nudge still waits though its occasion is over. One on its way to an agent with a
    /// protocol still arrives; into a terminal nothing is typed before the turn ends, and then it is not
    /// needed any more.
    pub(super) fn nudges_in_vain(&self, message: &Message) -> bool {
        let Some(Occasion { reaction, no }) = &message.occasion else { return false };
        let reacted = self.reacted_of(reaction);
        let holds = reacted.is_some_and(|one| one.since_ms.is_some() && one.occasion == *no);
        let on_its_way = || {
            let goes = |effect| matches!(effect, Effect::Deliver { message: key, .. } if key == message.key);
            !self.spec.agent.driver.has_terminal() && self.deliveries().is_some_and(goes)
        };
        !holds && message.typed.is_none() && !on_its_way()
    }

    /// Returns since when a condition holds.
    fn holds(&self, on: On, known: Option<u64>, at: Moment) -> Option<u64> {
        let attempt = self.attempt();
        let shown = |state| (attempt.shown == state).then_some(attempt.since.mono_ms);
        match on {
            On::Quiet => self.silent_since(),
            On::Stalled => shown(State::Stalled),
            On::NeedsInput => shown(State::NeedsInput),
            On::Context { percent } => {
                let full = self.context.is_some_and(|context| context.is_at(percent));
                full.then(|| known.unwrap_or(at.mono_ms))
            }
            On::UsageLimit => self.limited.as_ref().map(|limited| limited.since.mono_ms),
        }
    }

    /// Returns when a working agent was heard last. Waiting for a user, a usage limit or a suspended
    /// process does not count as silence.
    fn silent_since(&self) -> Option<u64> {
        let launch = self.running().filter(|launch| launch.attempt == self.attempt().no)?;
        let works = matches!(launch.stream.turn, TurnState::Open { .. })
            && launch.stream.closed.is_none()
            && self.limited.is_none()
            && !launch.watch.suspended
            && !self.is_blocked();
        works.then_some(launch.stream.heard.mono_ms)
    }

    /// Carries out the action of a reaction.
    pub(super) fn carry_out(&mut self, done: &ReactionDone, at: Moment) {
        let Some(no) = self.spec.reactions.iter().position(|one| one.name == done.reaction) else {
            return;
        };
        let Some(reacted) = self.reacted.get_mut(no) else { return };
        reacted.times += 1;
        reacted.total += 1;
        reacted.last_ms = at.mono_ms;
        let total = reacted.total;
        self.owe_hook_of(HookEvent::Reaction, Some(done.reaction.clone()), at);
        let key = format!("{}-{}-{}", done.reaction, self.attempt().no, total);
        match self.spec.reactions[no].act.clone() {
            Act::Notify | Act::ResumeLater => {}
            Act::Nudge { text } => {
                let key = format!("nudge-{key}");
                self.say(key.clone(), MessageKind::Nudge, text);
                let (reaction, no) = (done.reaction.clone(), done.occasion);
                self.on_message(&key, |m| m.occasion = Some(Occasion { reaction, no }));
            }
            Act::Interrupt { text } => {
                self.say(format!("leave-{key}"), MessageKind::Interrupt, String::new());
                self.say(format!("continue-{key}"), MessageKind::Continue, text);
            }
            Act::Compact => {
                let text = self.compact_text().to_owned();
                self.say(format!("compact-{key}"), MessageKind::Compact, text);
            }
            Act::HandOver { agent, text } => {
                self.handing_over = Some(Heir { agent, text });
            }
        }
    }
}

// Handing over to another agent.
impl Session {
    /// Hands the work over. The previous agent is stopped first, and its process tree is gone before the
    /// next one starts.
    pub(super) fn hand_over(&self) -> Option<Event> {
        let begun = self.launches.iter().any(|launch| launch.why == LaunchWhy::HandedOver);
        if self.handed_over && !begun && !self.attempt().is_decided() {
            let owed = LaunchOwed { launch: self.next_launch(), why: LaunchWhy::HandedOver };
            return Some(owed.into());
        }
        if !self.is_handing_over() {
            return None;
        }
        let heir = self.handing_over.as_ref()?;
        let launch = self.current_launch()?;
        if launch.may_be_ended() {
            return Some(self.stop_launch(launch.id, StopWhy::HandedOver).into());
        }
        if launch.is_followed() || !launch.is_gone() {
            return None;
        }
        let void = |request: &crate::request::Request| {
            RequestSettled { request: request.id, fate: Fate::Void, cursor: None }.into()
        };
        let replaced = || {
            let (from, to) = (self.spec.agent.name.clone(), heir.agent.name.clone());
            AgentReplaced { from, to }.into()
        };
        Some(self.open_requests().next().map_or_else(replaced, void))
    }

    /// Whether another agent is about to take over, so that the end of this agent's process is not an
    /// outcome.
    pub(super) fn is_handing_over(&self) -> bool {
        // A claim that the agent made while it was being stopped counts.
        self.handing_over.is_some() && self.may_use_more()
    }

    /// Switches to the successor, in the same worktree and with the same instruction.
    pub(super) fn take_over(&mut self, from: &str) {
        let Some(heir) = self.handing_over.take() else { return };
        self.spec.agent = *heir.agent;
        self.handed_over = true;
        (self.thread, self.context, self.limited) = (None, None, None);
        let (no, instruction) = (self.attempt().no, self.attempt().instruction.clone());
        let attempt = self.attempt_mut();
        (attempt.claim, attempt.result_asked, attempt.held) = (None, None, false);
        let instruction = instruction.unwrap_or_default();
        let text = crate::prompt::hand_over(from, &instruction, heir.text.as_deref());
        self.say(format!("handed-over-{no}"), MessageKind::Instruction, text);
    }
}
