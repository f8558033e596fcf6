//! Reactions: what the project wants done by itself when a session is quiet, stalled, asks, or comes to a limit.
//!
//! An occasion begins when what it is about holds, and is over when that no longer does. Which occasion a session is
//! in, and how often it was answered, is folded from its events, so that a crash between changes nothing: a reaction
//! is one event, and what it does follows from that event alone.

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

/// What is reacted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// A turn is open, and nothing was heard since.
    Quiet,
    Stalled,
    NeedsInput,
    /// So many hundredths of the context are taken.
    Context {
        percent: u32,
    },
    /// The account may not go on.
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

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Nothing but the hook, which every reaction has.
    Notify,
    Nudge {
        text: String,
    },
    /// The agent leaves its turn and is told this.
    Interrupt {
        text: String,
    },
    Compact,
    /// The account's limit is waited for, which a session does by itself: this bounds it and tells of it.
    ResumeLater,
    /// Another agent goes on with the work.
    HandOver {
        agent: Box<Agent>,
        /// What it is told besides.
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

    /// Says whether it is an answer to such an occasion at all.
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

/// A reaction as a session was opened with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reaction {
    pub name: String,
    pub on: On,
    /// How long it has to hold first, and how far apart the answers to one occasion are.
    pub after_ms: u64,
    pub act: Act,
    /// How often one occasion is answered.
    pub times: u32,
    /// How often it happens in one attempt.
    pub total: u32,
}

/// The agent that goes on, and what it is told besides what the work is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    pub agent: Box<Agent>,
    pub text: Option<String>,
}

/// What was reacted to: the reaction, and which of its occasions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occasion {
    pub reaction: String,
    pub no: u32,
}

/// How a reaction stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reacted {
    /// Since when the occasion holds, on the clock that windows are measured by; none if it does not.
    pub since_ms: Option<u64>,
    /// Counts the occasions.
    pub occasion: u32,
    /// How often this one was answered.
    pub times: u32,
    /// How often any was in this attempt.
    pub total: u32,
    pub last_ms: u64,
}

/// Answers to one occasion are never closer than this.
const APART_MS: u64 = 1_000;

impl Session {
    /// Gives the next reaction that time alone makes due. Silence is decided with what the stream's reader heard.
    pub(super) fn react(&self, now: Moment) -> Option<Event> {
        self.due(|on| on != On::Quiet, now).next()
    }

    /// Gives the reactions to a silence that lasts.
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

    /// Gives what will be reacted to, and when.
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

    /// Gives when a silence has lasted for long enough to be reacted to.
    pub(super) fn quiet_deadline(&self) -> Option<(u64, Due)> {
        let launch = self.running()?.id;
        let dues = self.dues().filter(|(_, one)| one.on == On::Quiet);
        dues.map(|(at, _)| (at, Due::Silence(launch))).min_by_key(|(at, _)| *at)
    }

    /// Says whether this can be done to the session now. Whom somebody else started is told something at most, and
    /// nothing is done to what was decided or is being ended.
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

    /// Keeps which occasions hold, after each event.
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

    /// Says whether a nudge waits though what it was for is over. One that is on its way to an agent with a protocol
    /// arrives; into a terminal nothing is typed before the turn ends, and then nobody needs it.
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

    /// Says since when an occasion holds.
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

    /// Gives when an agent at work was heard last. Waiting for a person, for the account or for a stopped process
    /// is no silence.
    fn silent_since(&self) -> Option<u64> {
        let launch = self.running().filter(|launch| launch.attempt == self.attempt().no)?;
        let works = matches!(launch.stream.turn, TurnState::Open { .. })
            && launch.stream.closed.is_none()
            && self.limited.is_none()
            && !launch.watch.suspended
            && !self.is_blocked();
        works.then_some(launch.stream.heard.mono_ms)
    }

    /// Does what a reaction is for.
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

// Another agent goes on.
impl Session {
    /// The agent that is taken off is ended first, and all of it is gone before another begins.
    pub(super) fn hand_over(&self) -> Option<Event> {
        let begun = self.launches.iter().any(|launch| launch.why == LaunchWhy::HandedOver);
        if self.handed_over && !begun && !self.attempt().is_decided() {
            let owed = LaunchOwed { launch: self.next_launch(), why: LaunchWhy::HandedOver };
            return Some(owed.into());
        }
        let heir = self.handing_over.as_ref().filter(|_| self.is_handing_over())?;
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

    /// Says whether another agent is about to go on, so that the end of this one's process is none of the work.
    pub(super) fn is_handing_over(&self) -> bool {
        // What the agent said of its end while it was being ended counts.
        self.handing_over.is_some() && self.may_use_more()
    }

    /// The next process is that of another agent, in the same place, with what the former was asked.
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
