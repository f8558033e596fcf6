//! Control messages: interrupting a turn and compacting the conversation.
//!
//! Both are delivered like messages, so they arrive once. Their outcome shows in the agent's behaviour:
//! its turn ends, or its conversation is compacted. A compaction may be a turn to the agent, but it does
//! not count as work.

use serde::{Deserialize, Serialize};

use super::{
    command::Rejected,
    effect::Due,
    event::{ContextKept, Event, MessageDelivered, MessageLost, MessageQueued},
    launch::{Launch, TurnState},
    own_turns::may_be_repeated,
    reach::Receive,
    spec::{Afterwards, Driver},
    state::{Message, MessageFate, MessageKind, Session},
    typing::sayable,
};
use crate::{ids::LaunchId, time::Moment};

/// The text typed into a terminal to compact its conversation.
const COMPACT: &str = "/compact";

/// A requested compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacting {
    pub launch: LaunchId,
    pub since: Moment,
    /// Whether the agent began a turn for the compaction.
    pub turn: bool,
}

type Decision = Result<Vec<Event>, Rejected>;

impl Session {
    /// Interrupts the open turn. A text sent along begins the next turn.
    pub(super) fn interrupt(&self, key: &str, text: Option<&str>) -> Decision {
        let launch = self.within_reach()?;
        let agent = &self.spec.agent;
        if !agent.driver.has_protocol() {
            return Err(Rejected::HasNoTurns(agent.name.clone()));
        }
        if self.is_under_way(MessageKind::Interrupt) || launch.stream.interrupted {
            return Err(Rejected::Nothing);
        }
        if !launch.is_in_turn() {
            return Err(Rejected::NoTurn);
        }
        if self.knows(key) {
            return Err(Rejected::Nothing);
        }
        text.map_or(Ok(()), |text| sayable(agent.driver, text))?;
        let said = text.map(|text| queued(format!("{key}-text"), MessageKind::Steer, text));
        let interrupt = queued(key.to_owned(), MessageKind::Interrupt, "");
        Ok(std::iter::once(interrupt).chain(said).map(Event::from).collect())
    }

    /// Asks the agent to compact its conversation, as soon as no turn is open.
    pub(super) fn compact(&self, key: &str) -> Decision {
        if !self.rests_after_its_work() {
            self.within_reach()?;
        }
        let agent = &self.spec.agent;
        if !agent.driver.compacts() {
            return Err(Rejected::CannotCompact(agent.name.clone()));
        }
        if self.knows(key) || self.is_under_way(MessageKind::Compact) || self.compacting().is_some()
        {
            return Err(Rejected::Nothing);
        }
        Ok(vec![queued(key.to_owned(), MessageKind::Compact, self.compact_text()).into()])
    }

    /// Whether its work is over, and its process is idle and receives messages at once. A terminal does
    /// not count: typing may have to wait for a user to leave the screen.
    pub fn rests_after_its_work(&self) -> bool {
        let attempt = self.attempt();
        let waits = |launch: &Launch| {
            launch.stop.is_none() && !launch.adopted && launch.stream.turn == TurnState::Over
        };
        let stays = attempt.is_sealed()
            && self.spec.afterwards == Afterwards::Park
            && !self.spec.agent.driver.has_terminal();
        stays && !attempt.is_decided() && self.running().is_some_and(waits)
    }

    /// Returns the text that requests a compaction; empty where the protocol has its own request.
    pub(super) fn compact_text(&self) -> &'static str {
        if self.spec.agent.driver.has_terminal() { COMPACT } else { "" }
    }

    /// Returns the launch that can receive control messages.
    fn within_reach(&self) -> Result<&Launch, Rejected> {
        let attempt = self.attempt();
        match self.running() {
            _ if attempt.is_sealed() => Err(Rejected::Sealed(self.judgement().state.word())),
            _ if attempt.cancelled.is_some() => Err(Rejected::Cancelled),
            None => Err(Rejected::NotRunning),
            // An external agent receives everything through its pane.
            Some(_) if self.spec.adopted.is_some() && self.receives() != Receive::Typed => {
                Err(Rejected::NotTouched)
            }
            Some(launch) if launch.stop.is_some() || attempt.is_decided() => {
                Err(Rejected::Stopping)
            }
            Some(launch) => Ok(launch),
        }
    }

    /// Whether a message with this key exists: repeating it has no effect.
    pub(super) fn knows(&self, key: &str) -> bool {
        self.messages.iter().any(|message| message.key == key)
    }

    /// Whether a message of this kind is not delivered yet.
    pub(super) fn is_under_way(&self, kind: MessageKind) -> bool {
        self.messages.iter().any(|m| m.kind == kind && m.fate == MessageFate::Queued)
    }

    /// Returns the compaction requested of the running process.
    pub fn compacting(&self) -> Option<Compacting> {
        let runs = |asked: &Compacting| self.running().is_some_and(|one| one.id == asked.launch);
        self.compacting.filter(runs)
    }

    /// Whether a compaction is pending or in progress. Nothing else is asked of the agent meanwhile.
    pub fn is_compacting(&self) -> bool {
        self.compacting().is_some() || self.is_under_way(MessageKind::Compact)
    }

    /// Returns the next message for a launch. An interrupt goes before everything except answers, which
    /// settle requests that the interrupt would cancel. While an agent is being interrupted or compacts,
    /// it gets no other message, because it would process it in the turn that is about to end.
    pub(super) fn next_message(&self, launch: &Launch) -> Option<&Message> {
        let mut queued = self.messages.iter().filter(|m| m.fate == MessageFate::Queued);
        if let Some(interrupt) = queued.clone().find(|m| m.kind == MessageKind::Interrupt) {
            if let Some(answer) = queued.clone().find(|m| m.kind == MessageKind::Answer) {
                return Some(answer);
            }
            // An app-server interrupts a turn by its id.
            let named = self.spec.agent.driver != Driver::Codex || launch.turn().is_some();
            return named.then_some(interrupt);
        }
        if launch.stream.interrupted || self.compacting().is_some() {
            return None;
        }
        // An agent that takes over gets its instruction before all other messages.
        let first = |m: &&Message| m.kind == MessageKind::Instruction && may_be_repeated(launch, m);
        if let Some(instruction) = queued.clone().find(first) {
            return Some(instruction);
        }
        queued.find(|m| {
            let compacts = m.kind == MessageKind::Compact;
            (!compacts || launch.stream.turn == TurnState::Over) && may_be_repeated(launch, m)
        })
    }

    /// Drops messages that no longer apply: for a turn or conversation that is over, or an answer no
    /// longer awaited.
    pub(super) fn drop_what_is_moot(&self) -> Option<Event> {
        let launch = self.running();
        let in_turn = launch.is_some_and(Launch::is_in_turn);
        let goes_on = launch.is_some() && self.may_use_more();
        let moot = |message: &Message| match message.kind {
            MessageKind::Interrupt => (!in_turn).then_some("the turn ended first"),
            MessageKind::Compact => (!goes_on).then_some("the conversation ended first"),
            MessageKind::Answer => self.why_moot(message),
            MessageKind::Nudge => {
                self.nudges_in_vain(message).then_some("its occasion ended first")
            }
            MessageKind::Instruction
            | MessageKind::Steer
            | MessageKind::Rework
            | MessageKind::ResultWanted
            | MessageKind::Returned
            | MessageKind::Continue => None,
        };
        let mut queued = self.messages.iter().filter(|m| m.fate == MessageFate::Queued);
        let (message, why) = queued.find_map(|message| Some((message, moot(message)?)))?;
        let (key, reason) = (message.key.clone(), why.to_owned());
        // The end of the turn may be read before the key press is recorded.
        let interrupts = message.kind == MessageKind::Interrupt;
        let pressed = if interrupts { message.typed } else { None };
        Some(match pressed {
            Some(typed) => MessageDelivered { key, launch: typed.launch }.into(),
            None => MessageLost { key, reason }.into(),
        })
    }

    pub(super) fn compaction_deadline(&self) -> Option<(u64, Due)> {
        // A turn begun for it is subject to the usual silence window until the attempt is sealed.
        let watched = |asked: &Compacting| asked.turn && !self.attempt().is_sealed();
        let asked = self.compacting().filter(|asked| !watched(asked))?;
        Some((asked.since.deadline(self.spec.bounds.stale_ms), Due::Compaction))
    }

    /// Gives up a compaction that the agent shows no sign of.
    pub(super) fn give_up_the_compaction(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.compaction_deadline()?;
        let launch = self.compacting()?.launch;
        let reason = "the agent did not start to compact its conversation".to_owned();
        (now.mono_ms >= at).then(|| ContextKept { launch, reason, cursor: None }.into())
    }
}

// Folding their effects.
impl Session {
    /// Counts a turn of work. A turn that the agent begins to compact its conversation does not count.
    pub(super) fn begin_turn(&mut self, launch: LaunchId) {
        match self.compacting.as_mut().filter(|asked| asked.launch == launch) {
            Some(asked) => asked.turn = true,
            None => {
                self.turns = self.turns.saturating_add(1);
                let attempt = self.attempt_mut();
                (attempt.held, attempt.refusals) = (false, 0);
                attempt.last_turn.take_if(|_| attempt.result_asked.is_none());
                self.void_verdict(launch);
            }
        }
    }

    /// Expects the text sent with an interrupt to begin the next turn. Typed text waits for the prompt
    /// first.
    pub(super) fn go_on_with_what_waits(&mut self, at: Moment) {
        let waits = |m: &Message| {
            let says = matches!(m.kind, MessageKind::Steer | MessageKind::Continue);
            says && m.fate == MessageFate::Queued
        };
        if self.messages.iter().any(waits) && !self.spec.agent.driver.has_terminal() {
            self.expect_a_turn(at);
        }
    }

    /// Records that a message reached the agent: an interrupt or a compaction is now in progress.
    pub(super) fn begin_what_was_asked(&mut self, key: &str, launch: LaunchId, at: Moment) {
        match self.kind_of(key) {
            Some(MessageKind::Interrupt) => {
                self.on_launch(launch, |launch| launch.stream.interrupted = launch.is_in_turn());
            }
            Some(MessageKind::Compact) => {
                self.compacting = Some(Compacting { launch, since: at, turn: false });
            }
            Some(
                MessageKind::Instruction
                | MessageKind::Steer
                | MessageKind::Nudge
                | MessageKind::Rework
                | MessageKind::ResultWanted
                | MessageKind::Continue,
            ) => self.expect_its_turn(key, launch, at),
            // They belong to an existing turn, or to none.
            Some(MessageKind::Answer | MessageKind::Returned) | None => {}
        }
    }

    /// Expects a message to an idle agent to begin a turn, if the protocol guarantees that. Until then
    /// the agent counts as working on it: anything else it received would join the same turn, and a
    /// crash would leave something to resume.
    fn expect_its_turn(&mut self, key: &str, launch: LaunchId, at: Moment) {
        let rests = |one: &Launch| {
            let free = one.stream.turn == TurnState::Over || one.stream.own_turn.is_some();
            one.id == launch && free
        };
        let begins = self.spec.agent.driver.begins_turns() && !self.attempt().is_sealed();
        if begins && self.launches.last().is_some_and(rests) {
            let text = self.messages.iter().find(|m| m.key == key).map(|m| m.text.clone());
            self.expect_a_turn(at);
            self.on_launch(launch, |launch| {
                // It begins that turn, or joins the one that the agent begins by itself.
                (launch.stream.told, launch.stream.own_turn) = (text, None);
            });
        }
    }

    /// Drops the text that belongs to a failed interrupt: the agent was not interrupted.
    pub(super) fn forget_what_went_with(&mut self, interrupt: &str, reason: &str) {
        if let Some(name) = interrupt.strip_prefix("leave-") {
            let key = format!("continue-{name}");
            let waits = |m: &Message| m.key == key && m.fate == MessageFate::Queued;
            if self.messages.iter().any(waits) {
                let reason = reason.to_owned();
                self.settle_message(&key, MessageFate::Undeliverable { reason });
            }
        }
    }
}

fn queued(key: String, kind: MessageKind, text: &str) -> MessageQueued {
    MessageQueued { key, kind, text: text.to_owned(), request: None, reply: None }
}
