//! The message queue of an agent: queueing, updating and settling messages.

use super::state::{Message, MessageFate, MessageKind, Session};
use crate::{ids::RequestId, request::Reply};

impl Session {
    pub(super) fn queue_instruction(&mut self) {
        let attempt = self.attempt();
        let (no, instruction) = (attempt.no, attempt.instruction.clone());
        if let (Some(text), true) = (instruction, self.spec.agent.driver.has_protocol()) {
            self.queue(format!("instruction-{no}"), MessageKind::Instruction, text, None, None);
        }
    }

    pub(super) fn say(&mut self, key: String, kind: MessageKind, text: String) {
        self.queue(key, kind, text, None, None);
    }

    pub(super) fn queue(
        &mut self,
        key: String,
        kind: MessageKind,
        text: String,
        request: Option<RequestId>,
        reply: Option<Reply>,
    ) {
        let attempt = self.attempt().no;
        self.attempt_mut().held |= kind == MessageKind::Interrupt;
        if let Some(asked) = self.requests.iter_mut().find(|asked| Some(asked.id) == request) {
            asked.allowed = reply.as_ref().and_then(Reply::allows);
        }
        self.messages.push(Message {
            key,
            kind,
            text,
            request,
            reply,
            returned: None,
            attempt,
            fate: MessageFate::Queued,
            refusals: 0,
            typed: None,
            unproved: None,
            occasion: None,
        });
    }

    pub(super) fn kind_of(&self, key: &str) -> Option<MessageKind> {
        self.messages.iter().find(|message| message.key == key).map(|message| message.kind)
    }

    pub(super) fn settle_message(&mut self, key: &str, fate: MessageFate) {
        // A text that may be rejected is kept until its turn is over, to be sent again.
        let kept =
            matches!(fate, MessageFate::Delivered { .. }) && self.spec.agent.driver.begins_turns();
        self.on_message(key, |message| {
            message.fate = fate;
            message.reply = None;
            // The text is no longer needed, and a user's text should not stay in memory.
            if !kept || !message.is_text() {
                message.text.clear();
            }
        });
    }

    pub(super) fn on_message(&mut self, key: &str, change: impl FnOnce(&mut Message)) {
        if let Some(message) = self.messages.iter_mut().find(|message| message.key == key) {
            change(message);
        }
    }
}
