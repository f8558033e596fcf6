//! The message queue of an agent: queueing, updating and settling messages.

use super::state::{AgentMessage, AgentMessageKind, DeliveryStatus, Session};
use crate::{ids::RequestId, request::RequestReply};

impl Session {
    pub(super) fn queue_instruction(&mut self) {
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

    pub(super) fn queue_text(&mut self, key: String, kind: AgentMessageKind, text: String) {
        self.queue(key, kind, text, None, None);
    }

    pub(super) fn queue(
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
        self.messages.push(AgentMessage {
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

    pub(super) fn message_kind(&self, key: &str) -> Option<AgentMessageKind> {
        self.messages.iter().find(|message| message.key == key).map(|message| message.kind)
    }

    pub(super) fn settle_message(&mut self, key: &str, fate: DeliveryStatus) {
        // A text that may be rejected is kept until its turn is over, because it might have to be
        // sent again.
        let kept = matches!(fate, DeliveryStatus::Delivered { .. })
            && self.spec.agent.interface.confirms_input_by_turn();
        self.update_message(key, |message| {
            message.status = fate;
            message.reply = None;
            // The text is no longer needed, and users' texts should not stay in memory.
            if !kept || !message.is_text() {
                message.text.clear();
            }
        });
    }

    pub(super) fn update_message(&mut self, key: &str, change: impl FnOnce(&mut AgentMessage)) {
        if let Some(message) = self.messages.iter_mut().find(|message| message.key == key) {
            change(message);
        }
    }
}
