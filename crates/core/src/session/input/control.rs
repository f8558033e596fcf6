//! Control messages, which interrupt a turn or compact the conversation.
//!
//! Control messages are delivered like other messages, so they arrive exactly once. Their effect
//! shows in what the agent does next: its turn ends, or its conversation is compacted. The agent
//! may treat a compaction as a turn, but it does not count as work.

use serde::{Deserialize, Serialize};

use crate::{
    ids::LaunchId,
    session::{
        command::SessionRejection,
        decide::CommandResult,
        effect::DeadlineKind,
        event::{CompactionFailed, Event, MessageDelivered, MessageLost, MessageQueued},
        input::{channel::ReceiveMode, own_turns::may_send_now, typing::check_typeable},
        interface::CompactionRequest,
        launch::{Launch, TurnState},
        spec::OnFinish,
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

/// A compaction that was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compaction {
    pub launch: LaunchId,
    pub since: Moment,
    /// Whether the agent started a turn for the compaction.
    pub turn: bool,
}

impl Session {
    /// Interrupts the open turn. If a text is given, it starts the next turn.
    pub(in crate::session) fn interrupt(&self, key: &str, text: Option<&str>) -> CommandResult {
        let launch = self.controllable_launch()?;
        let agent = &self.spec.agent;
        if !agent.interface.takes_instructions() {
            return Err(SessionRejection::HasNoTurns(agent.name.clone()));
        }
        if self.input.has_queued(AgentMessageKind::Interrupt) || launch.stream.interrupted {
            return Err(SessionRejection::NothingNew);
        }
        if !launch.is_in_turn() {
            return Err(SessionRejection::NoTurn);
        }
        if self.input.has(key) {
            return Err(SessionRejection::NothingNew);
        }
        text.map_or(Ok(()), |text| check_typeable(&agent.interface, text))?;
        let message =
            text.map(|text| queued_message(format!("{key}-text"), AgentMessageKind::Steer, text));
        let interrupt = queued_message(key.to_owned(), AgentMessageKind::Interrupt, "");
        Ok(std::iter::once(interrupt).chain(message).map(Event::from).collect())
    }

    /// Asks the agent to compact its conversation as soon as no turn is open.
    pub(in crate::session) fn compact(&self, key: &str) -> CommandResult {
        if !self.is_parked() {
            self.controllable_launch()?;
        }
        let agent = &self.spec.agent;
        if agent.interface.compaction().is_none() {
            return Err(SessionRejection::CannotCompact(agent.name.clone()));
        }
        if self.input.has(key)
            || self.input.has_queued(AgentMessageKind::Compact)
            || self.compacting().is_some()
        {
            return Err(SessionRejection::NothingNew);
        }
        Ok(vec![
            queued_message(key.to_owned(), AgentMessageKind::Compact, self.compact_text()).into(),
        ])
    }

    /// Whether the work is over, and the process is idle and can receive messages immediately. A
    /// session in a terminal does not qualify, because typing may have to wait until a user leaves
    /// the screen.
    pub fn is_parked(&self) -> bool {
        let attempt = self.attempt();
        let waits = |launch: &Launch| {
            launch.stop.is_none() && !launch.adopted && launch.stream.turn == TurnState::Over
        };
        let stays = attempt.is_sealed()
            && self.spec.on_finish == OnFinish::Park
            && !self.spec.agent.interface.has_terminal();
        stays && !attempt.is_decided() && self.running_launch().is_some_and(waits)
    }

    /// Returns the text that requests a compaction. Empty if the protocol has a dedicated request for it.
    pub(in crate::session) fn compact_text(&self) -> &str {
        match self.spec.agent.interface.compaction() {
            Some(CompactionRequest::Typed(command)) => command,
            Some(CompactionRequest::Message) | None => "",
        }
    }

    /// Returns the launch that can receive control messages, or why the session has none.
    fn controllable_launch(&self) -> Result<&Launch, SessionRejection> {
        let attempt = self.attempt();
        match self.running_launch() {
            _ if attempt.is_sealed() => {
                Err(SessionRejection::Sealed(self.judgement().state.as_str()))
            }
            _ if attempt.cancelled.is_some() => Err(SessionRejection::Cancelled),
            None => Err(SessionRejection::NotRunning),
            // An external agent can only be reached through its pane.
            Some(_) if self.spec.adopted.is_some() && self.receive_mode() != ReceiveMode::Typed => {
                Err(SessionRejection::ExternalAgent)
            }
            Some(launch) if launch.stop.is_some() || attempt.is_decided() => {
                Err(SessionRejection::Stopping)
            }
            Some(launch) => Ok(launch),
        }
    }

    /// Returns the compaction that was requested from the running process, if any.
    pub fn compacting(&self) -> Option<Compaction> {
        let runs =
            |asked: &Compaction| self.running_launch().is_some_and(|one| one.id == asked.launch);
        self.conversation.compacting.filter(runs)
    }

    /// Whether a compaction is pending or in progress. Until it is finished, the agent is asked for
    /// nothing else.
    pub fn is_compacting(&self) -> bool {
        self.compacting().is_some() || self.input.has_queued(AgentMessageKind::Compact)
    }

    /// Returns the next message for a launch. An interrupt goes first, except that answers precede
    /// it, because they settle requests that the interrupt would cancel. While an agent is being
    /// interrupted or is compacting, it receives no other message, because it would process the
    /// message in the turn that is about to end.
    pub(in crate::session) fn next_message(&self, launch: &Launch) -> Option<&AgentMessage> {
        let mut queued = self.input.queued();
        if let Some(interrupt) = queued.clone().find(|m| m.kind == AgentMessageKind::Interrupt) {
            if let Some(answer) = queued.clone().find(|m| m.kind == AgentMessageKind::Answer) {
                return Some(answer);
            }
            let named = !self.spec.agent.interface.names_turns() || launch.turn().is_some();
            return named.then_some(interrupt);
        }
        if launch.stream.interrupted || self.compacting().is_some() {
            return None;
        }
        // An agent that takes over the work receives its instruction before all other messages.
        let first =
            |m: &&AgentMessage| m.kind == AgentMessageKind::Instruction && may_send_now(launch, m);
        if let Some(instruction) = queued.clone().find(first) {
            return Some(instruction);
        }
        queued.find(|m| {
            let compacts = m.kind == AgentMessageKind::Compact;
            (!compacts || launch.stream.turn == TurnState::Over) && may_send_now(launch, m)
        })
    }

    /// Drops messages that no longer apply: messages for a turn or conversation that is over, and
    /// answers that the agent is no longer waiting for.
    pub(in crate::session) fn drop_stale_messages(&self) -> Option<Event> {
        let launch = self.running_launch();
        let in_turn = launch.is_some_and(Launch::is_in_turn);
        let continues = launch.is_some() && self.may_continue_work();
        let moot = |message: &AgentMessage| match message.kind {
            AgentMessageKind::Interrupt => (!in_turn).then_some("the turn ended first"),
            AgentMessageKind::Compact => (!continues).then_some("the conversation ended first"),
            AgentMessageKind::Answer => self.moot_reason(message),
            AgentMessageKind::Nudge => {
                self.is_stale_nudge(message).then_some("its occasion ended first")
            }
            AgentMessageKind::Instruction
            | AgentMessageKind::Steer
            | AgentMessageKind::Rework
            | AgentMessageKind::ResultWanted
            | AgentMessageKind::Returned
            | AgentMessageKind::Continue => None,
        };
        let mut queued = self.input.queued();
        let (message, why) = queued.find_map(|message| Some((message, moot(message)?)))?;
        let (key, reason) = (message.key.clone(), why.to_owned());
        // The end of the turn may be observed before the key press is recorded.
        let interrupts = message.kind == AgentMessageKind::Interrupt;
        let pressed = if interrupts { message.typed } else { None };
        Some(match pressed {
            Some(typed) => MessageDelivered { key, launch: typed.launch }.into(),
            None => MessageLost { key, reason }.into(),
        })
    }

    pub(in crate::session) fn compaction_deadline(&self) -> Option<(u64, DeadlineKind)> {
        // If the agent started a turn for the compaction, the usual silence window applies until
        // the attempt is sealed.
        let watched = |asked: &Compaction| asked.turn && !self.attempt().is_sealed();
        let asked = self.compacting().filter(|asked| !watched(asked))?;
        Some((asked.since.deadline(self.spec.bounds.stale_ms), DeadlineKind::Compaction))
    }

    /// Abandons a compaction if the agent shows no sign of it in time.
    pub(in crate::session) fn expire_compaction(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.compaction_deadline()?;
        let launch = self.compacting()?.launch;
        let reason = "the agent did not start to compact its conversation".to_owned();
        (now.mono_ms >= at).then(|| CompactionFailed { launch, reason, cursor: None }.into())
    }
}

// Applies events about control messages.
impl Session {
    /// Counts a turn as work, unless the agent started it to compact its conversation.
    pub(in crate::session) fn begin_turn(&mut self, launch: LaunchId) {
        match self.conversation.compacting.as_mut().filter(|asked| asked.launch == launch) {
            Some(asked) => asked.turn = true,
            None => {
                self.spending.turns = self.spending.turns.saturating_add(1);
                let attempt = self.attempt_mut();
                (attempt.awaits_user, attempt.refusals) = (false, 0);
                attempt.last_turn.take_if(|_| attempt.result_requested.is_none());
                self.void_verdict(launch);
            }
        }
    }

    /// Expects the text that was sent with an interrupt to start the next turn. Text that must be
    /// typed first has to wait for the prompt.
    pub(in crate::session) fn expect_queued_turn(&mut self, at: Moment) {
        let waits = |m: &AgentMessage| {
            let says = matches!(m.kind, AgentMessageKind::Steer | AgentMessageKind::Continue);
            says && m.status == DeliveryStatus::Queued
        };
        if self.input.messages.iter().any(waits) && !self.spec.agent.interface.has_terminal() {
            self.expect_turn(at);
        }
    }

    /// Records that a message reached the agent. If it was an interrupt or a compaction, the agent
    /// is now being interrupted or is compacting.
    pub(in crate::session) fn record_delivery(&mut self, key: &str, launch: LaunchId, at: Moment) {
        match self.input.kind_of(key) {
            Some(AgentMessageKind::Interrupt) => {
                self.update_launch(launch, |launch| {
                    launch.stream.interrupted = launch.is_in_turn()
                });
            }
            Some(AgentMessageKind::Compact) => {
                self.conversation.compacting = Some(Compaction { launch, since: at, turn: false });
            }
            Some(
                AgentMessageKind::Instruction
                | AgentMessageKind::Steer
                | AgentMessageKind::Nudge
                | AgentMessageKind::Rework
                | AgentMessageKind::ResultWanted
                | AgentMessageKind::Continue,
            ) => self.expect_turn_for(key, launch, at),
            // Messages of these kinds belong to an existing turn, or to none.
            Some(AgentMessageKind::Answer | AgentMessageKind::Returned) | None => {}
        }
    }

    /// Expects a message to an idle agent to start a turn, if the protocol guarantees that it does.
    /// Until the turn starts, the agent counts as working, because another message would join the
    /// same turn and because the agent would have to be resumed after a crash.
    fn expect_turn_for(&mut self, key: &str, launch: LaunchId, at: Moment) {
        let rests = |one: &Launch| {
            let free = one.stream.turn == TurnState::Over || one.stream.own_turn.is_some();
            one.id == launch && free
        };
        let begins =
            self.spec.agent.interface.confirms_input_by_turn() && !self.attempt().is_sealed();
        if begins && self.launches.last().is_some_and(rests) {
            let text = self.input.message(key).map(|m| m.text.clone());
            self.expect_turn(at);
            self.update_launch(launch, |launch| {
                // The text starts the expected turn, or joins a turn that the agent starts on its
                // own.
                (launch.stream.turn_input, launch.stream.own_turn) = (text, None);
            });
        }
    }

    /// Drops the text that was to follow an interrupt, because the interrupt failed.
    pub(in crate::session) fn drop_interrupt_text(&mut self, interrupt: &str, reason: &str) {
        if let Some(name) = interrupt.strip_prefix("leave-") {
            let key = format!("continue-{name}");
            let waits = |m: &AgentMessage| m.key == key && m.status == DeliveryStatus::Queued;
            if self.input.messages.iter().any(waits) {
                let reason = reason.to_owned();
                self.settle_message(&key, DeliveryStatus::Undeliverable { reason });
            }
        }
    }
}

fn queued_message(key: String, kind: AgentMessageKind, text: &str) -> MessageQueued {
    MessageQueued { key, kind, text: text.to_owned(), request: None, reply: None }
}
