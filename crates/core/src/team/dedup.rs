//! The deduplication keys of evicted messages. They ensure that sending an evicted message again
//! does not create a second one.

use serde::{Deserialize, Serialize};

use super::{
    member::TeamActor,
    message::{Priority, Recipient, TeamMessage, TeamMessageKind},
    state::Team,
};
use crate::{ids::hash_text, rules::rules};

/// Maximum number of keys of evicted messages to keep per team. Older keys are dropped.
pub const MAX_KEYS_KEPT: usize = 2_000;

/// The part of an evicted message that is kept for deduplication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictedMessage {
    pub no: u32,
    pub key: String,
    pub from: TeamActor,
    pub to: Recipient,
    /// Hash of the text.
    pub text: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Hash of kind, priority, expiry, correlation and steering; 0 if unknown.
    #[serde(default)]
    pub terms: u64,
}

impl EvictedMessage {
    /// Returns the part of a message to keep. None for Provost's own messages, because their keys
    /// are unique.
    pub(super) fn from_message(message: &TeamMessage) -> Option<EvictedMessage> {
        (message.from != TeamActor::Provost).then(|| EvictedMessage {
            no: message.no,
            key: message.key.clone(),
            from: message.from.clone(),
            to: message.sent_to.clone().unwrap_or_else(|| message.to.clone()),
            text: hash_text(&message.text),
            iteration: message.iteration,
            terms: MessageContent::from_message(message).terms_hash(),
        })
    }
}

/// Everything that the sender of a message specifies apart from its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageContent<'a> {
    pub(super) to: &'a str,
    pub(super) text: &'a str,
    pub(super) iteration: Option<u32>,
    pub(super) kind: TeamMessageKind,
    pub(super) priority: Priority,
    pub(super) window_ms: Option<u64>,
    pub(super) correlation: Option<&'a str>,
    pub(super) steer: bool,
}

impl<'a> MessageContent<'a> {
    fn from_message(message: &'a TeamMessage) -> MessageContent<'a> {
        MessageContent {
            // A redirected message still counts as a message to its original recipient.
            to: message.sent_to.as_ref().unwrap_or(&message.to).name(),
            text: &message.text,
            iteration: message.iteration,
            kind: message.kind,
            priority: message.priority,
            window_ms: message.window_ms,
            correlation: message.correlation.as_deref(),
            steer: message.steer,
        }
    }

    fn terms_hash(&self) -> u64 {
        let MessageContent { kind, priority, window_ms, correlation, steer, .. } = self;
        let (kind, priority) = (kind.as_str(), priority.as_str());
        hash_text(&format!("{kind} {priority} {window_ms:?} {correlation:?} {steer}"))
    }
}

impl EvictedMessage {
    fn matches_content(&self, content: &MessageContent<'_>) -> bool {
        self.to.name() == content.to
            && self.text == hash_text(content.text)
            && self.iteration == content.iteration
            && (self.terms == content.terms_hash() || self.terms == 0)
    }
}

/// Whether a message was already sent under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateStatus {
    Never,
    /// The same message was already sent.
    Duplicate,
    /// The key belongs to a different message.
    Conflict,
}

impl Team {
    /// Whether an actor already sent this message with the same content. Keys are scoped to their
    /// sender, even after the message was evicted.
    pub(super) fn duplicate_status(
        &self,
        by: &TeamActor,
        key: &str,
        content: &MessageContent<'_>,
    ) -> DuplicateStatus {
        let known =
            self.message_by_key(by, key).map(|sent| MessageContent::from_message(sent) == *content);
        let forgotten = || self.evicted_message(by, key).map(|sent| sent.matches_content(content));
        match known.or_else(forgotten) {
            None => DuplicateStatus::Never,
            Some(same_content) => rules().status_under_known_key(same_content),
        }
    }

    fn evicted_message(&self, by: &TeamActor, key: &str) -> Option<&EvictedMessage> {
        let mut forgotten = self.evicted.iter().rev();
        forgotten.find(|sent| sent.key == key && sent.from == *by).map(AsRef::as_ref)
    }
}
