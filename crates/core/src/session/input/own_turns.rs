//! Turns that the agent starts on its own, and messages that its program rejects because of them.
//!
//! An agent may start turns on its own while it pursues a goal, for input that a user queued, and
//! for messages from sub-agents. These turns are part of its work, so the agent is neither asked
//! for a result nor stopped while one of them is open or about to start. A message that such a turn
//! blocks waits until the turn is over.

use std::borrow::Cow;

use crate::{
    ids::LaunchId,
    lifecycle::StopCause,
    limits::{MAX_REFUSALS, OWN_TURN_MS},
    rules::rules,
    session::{
        command::SessionRejection,
        decide::CommandResult,
        effect::DeadlineKind,
        event::{AttemptStopped, Event, GoalChanged, MessageRefused, TurnMissing},
        launch::{Cursor, Launch, LaunchPhase, TurnState},
        state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
    },
    time::Moment,
};

impl AgentMessage {
    /// Returns the key under which the message is written to the agent. The key changes after each
    /// rejection.
    pub fn write_key(&self) -> Cow<'_, str> {
        match self.refusals {
            0 => Cow::Borrowed(&self.key),
            refusals => Cow::Owned(format!("{}+{refusals}", self.key)),
        }
    }

    /// Whether the attempt cannot continue without the message.
    fn is_required(&self) -> bool {
        match self.kind {
            AgentMessageKind::Instruction
            | AgentMessageKind::Rework
            | AgentMessageKind::ResultWanted
            | AgentMessageKind::Continue => true,
            AgentMessageKind::Steer
            | AgentMessageKind::Answer
            | AgentMessageKind::Returned
            | AgentMessageKind::Nudge
            | AgentMessageKind::Interrupt
            | AgentMessageKind::Compact => false,
        }
    }
}

/// Whether a message can be sent now. A message that was rejected before waits until no turn blocks it.
pub(in crate::session) fn may_send_now(launch: &Launch, message: &AgentMessage) -> bool {
    let free = launch.turn().is_none() && launch.stream.own_turn.is_none();
    message.refusals == 0 || free
}

impl Session {
    /// Returns the message that was written to the agent under this key.
    pub fn message_by_write_key(&self, key: &str) -> Option<&AgentMessage> {
        self.input.messages.iter().find(|message| message.write_key() == key)
    }

    /// Decides whether to resend a message that the agent's program rejected. The rejection says
    /// nothing about the agent's work.
    pub(in crate::session) fn decide_refusal(
        &self,
        launch: &Launch,
        key: &str,
        reason: &str,
        busy: bool,
        cursor: Cursor,
    ) -> CommandResult {
        let message = self.message_by_write_key(key).ok_or(SessionRejection::NothingNew)?;
        let current = self.current_launch().is_some_and(|current| current.id == launch.id);
        let attempt = self.attempt();
        let over = matches!(message.status, DeliveryStatus::Undeliverable { .. })
            || message.attempt != attempt.no;
        if over || !current {
            return Err(SessionRejection::NothingNew);
        }
        let asks = message.kind == AgentMessageKind::ResultWanted;
        let in_a_row = if asks { attempt.refusals } else { message.refusals };
        let in_the_way = rules().turn_blocks_message(busy, launch.turn().is_some());
        let again = in_the_way && message.is_text() && in_a_row + 1 < MAX_REFUSALS;
        let (key, reason) = (message.key.clone(), reason.to_owned());
        let refused = MessageRefused { key, launch: launch.id, reason, retry: again, cursor };
        let ends = !again && message.is_required() && !attempt.is_sealed() && !attempt.is_decided();
        let stopped = ends.then(|| {
            let detail = format!("the agent's program refused a message: {}", refused.reason);
            AttemptStopped { cause: StopCause::Launch, detail }.into()
        });
        Ok(std::iter::once(refused.into()).chain(stopped).collect())
    }

    pub(in crate::session) fn record_refusal(&mut self, e: &MessageRefused, at: Moment) {
        self.record_heard(e.launch, at, e.cursor);
        match (self.input.kind_of(&e.key), e.retry) {
            // Ask for the result again once the agent is idle.
            (Some(AgentMessageKind::ResultWanted), true) => {
                let attempt = self.attempt_mut();
                attempt.result_requested = None;
                attempt.refusals += 1;
                let reason = e.reason.clone();
                self.settle_message(&e.key, DeliveryStatus::Undeliverable { reason });
            }
            (_, true) => self.input.update(&e.key, |message| {
                message.status = DeliveryStatus::Queued;
                message.refusals += 1;
            }),
            (_, false) => {
                let reason = e.reason.clone();
                self.settle_message(&e.key, DeliveryStatus::Undeliverable { reason });
            }
        }
        self.update_launch(e.launch, |launch| {
            if !e.retry {
                launch.stream.forget_expected_turn();
                // The goal still makes the agent start a turn.
                if launch.stream.goal && launch.stream.turn == TurnState::Over {
                    launch.stream.expect_own_turn(at);
                }
            } else if launch.turn().is_none() {
                // The blocking turn might not have been observed yet.
                launch.stream.expect_own_turn(at);
            }
        });
    }

    pub(in crate::session) fn change_goal(&mut self, e: &GoalChanged, at: Moment) {
        self.record_heard(e.launch, at, e.cursor);
        let sealed = self.attempt().is_sealed();
        self.update_launch(e.launch, |launch| {
            let stream = &mut launch.stream;
            stream.goal = e.active;
            if !e.active && stream.own_turn.is_some() {
                stream.forget_expected_turn();
            }
            if e.active && stream.turn == TurnState::Over && !sealed {
                stream.expect_own_turn(at);
            }
        });
    }

    /// Expects the next turn after a successful one, if the agent is pursuing a goal or a message
    /// that was rejected before is waiting.
    pub(in crate::session) fn expect_own_turn(&mut self, launch: LaunchId, at: Moment) {
        let waits = self.input.has_refused();
        self.update_launch(launch, |launch| {
            let stream = &mut launch.stream;
            if stream.turn == TurnState::Over && (stream.goal || waits) {
                stream.expect_turn(at);
                stream.own_turn = stream.goal.then_some(at);
            }
        });
    }

    pub(in crate::session) fn own_turn_deadline(&self) -> Option<(u64, DeadlineKind)> {
        let launch = self.current_launch().filter(|launch| launch.stop.is_none())?;
        let runs = matches!(launch.phase, LaunchPhase::Running { .. });
        let at = launch.stream.own_turn?.deadline(OWN_TURN_MS);
        runs.then_some((at, DeadlineKind::OwnTurn))
    }

    pub(in crate::session) fn expire_own_turn(&self, now: Moment) -> Option<Event> {
        let (at, _) = self.own_turn_deadline()?;
        let launch = self.current_launch()?.id;
        (now.mono_ms >= at).then(|| TurnMissing { launch }.into())
    }
}
