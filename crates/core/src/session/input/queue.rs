//! The message queue of an agent: queueing, updating and settling messages.

use serde::{Deserialize, Serialize};

use crate::{
    ids::RequestId,
    request::RequestReply,
    session::state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session},
};

/// The messages to the agent, in the order in which they were queued.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputQueue {
    pub messages: Vec<AgentMessage>,
}

impl InputQueue {
    /// Returns the message with this key.
    pub fn message(&self, key: &str) -> Option<&AgentMessage> {
        self.messages.iter().find(|message| message.key == key)
    }

    /// Returns the messages that have not been delivered yet.
    pub fn queued(&self) -> impl DoubleEndedIterator<Item = &AgentMessage> + Clone {
        self.messages.iter().filter(|message| message.status == DeliveryStatus::Queued)
    }

    /// Whether a message with this key already exists, in which case sending it again has no
    /// effect.
    pub(in crate::session) fn has(&self, key: &str) -> bool {
        self.messages.iter().any(|message| message.key == key)
    }

    /// Whether a message of this kind is still waiting to be delivered.
    pub(in crate::session) fn has_queued(&self, kind: AgentMessageKind) -> bool {
        self.messages.iter().any(|m| m.kind == kind && m.status == DeliveryStatus::Queued)
    }

    pub(in crate::session) fn kind_of(&self, key: &str) -> Option<AgentMessageKind> {
        self.message(key).map(|message| message.kind)
    }

    pub(in crate::session) fn update(&mut self, key: &str, change: impl FnOnce(&mut AgentMessage)) {
        if let Some(message) = self.messages.iter_mut().find(|message| message.key == key) {
            change(message);
        }
    }

    /// Whether a rejected message is waiting to be sent again.
    pub(in crate::session) fn has_refused(&self) -> bool {
        let mut queued = self.queued();
        queued.any(|message| message.refusals > 0)
    }
}

impl Session {
    pub(in crate::session) fn queue_instruction(&mut self) {
        let attempt = self.attempt();
        let (no, instruction) = (attempt.no, attempt.instruction.clone());
        if let (Some(text), true) = (instruction, self.spec.agent.interface.takes_instructions()) {
            self.queue(
                format!("instruction-{no}"),
                AgentMessageKind::Instruction,
                text,
                None,
                None,
            );
        }
    }

    pub(in crate::session) fn queue_text(
        &mut self,
        key: String,
        kind: AgentMessageKind,
        text: String,
    ) {
        self.queue(key, kind, text, None, None);
    }

    pub(in crate::session) fn queue(
        &mut self,
        key: String,
        kind: AgentMessageKind,
        text: String,
        request: Option<RequestId>,
        reply: Option<RequestReply>,
    ) {
        let attempt = self.attempt().no;
        self.attempt_mut().awaits_user |= kind == AgentMessageKind::Interrupt;
        if let Some(asked) = self.requests.iter_mut().find(|asked| Some(asked.id) == request) {
            asked.allowed = reply.as_ref().and_then(RequestReply::allows);
        }
        self.input.messages.push(AgentMessage {
            key,
            kind,
            text,
            request,
            reply,
            returned: None,
            attempt,
            status: DeliveryStatus::Queued,
            refusals: 0,
            typed: None,
            unconfirmed_reason: None,
            occasion: None,
        });
    }

    pub(in crate::session) fn settle_message(&mut self, key: &str, fate: DeliveryStatus) {
        // A text that may be rejected is kept until its turn is over, because it might have to be
        // sent again.
        let kept = matches!(fate, DeliveryStatus::Delivered { .. })
            && self.spec.agent.interface.confirms_input_by_turn();
        self.input.update(key, |message| {
            message.status = fate;
            message.reply = None;
            // The text is no longer needed, and users' texts should not stay in memory.
            if !kept || !message.is_text() {
                message.text.clear();
            }
        });
    }
}
