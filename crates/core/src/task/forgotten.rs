//! Deduplication keys of evicted messages, so that sending one again creates no second message.

use serde::{Deserialize, Serialize};

use super::{
    member::Actor,
    message::{Address, Kind, Message, Priority},
    state::Task,
};

/// Number of keys of evicted messages that a team keeps, the newest.
pub const MAX_KEYS_KEPT: usize = 2_000;

/// The remainder of an evicted message, kept for deduplication.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    pub no: u32,
    pub key: String,
    pub from: Actor,
    pub to: Address,
    /// Hash of the text.
    pub text: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u32>,
    /// Hash of kind, priority, expiry, correlation and steering; 0 if unknown.
    #[serde(default)]
    pub terms: u64,
}

impl Forgotten {
    /// Returns the remainder of a message. Provost's own messages have unique keys and need none.
    pub(super) fn of(message: &Message) -> Option<Forgotten> {
        (message.from != Actor::Provost).then(|| Forgotten {
            no: message.no,
            key: message.key.clone(),
            from: message.from.clone(),
            to: message.sent_to.clone().unwrap_or_else(|| message.to.clone()),
            text: mark(&message.text),
            iteration: message.iteration,
            terms: Content::of(message).terms(),
        })
    }
}

/// Everything the sender of a message specifies, besides its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Content<'a> {
    pub(super) to: &'a str,
    pub(super) text: &'a str,
    pub(super) iteration: Option<u32>,
    pub(super) kind: Kind,
    pub(super) priority: Priority,
    pub(super) window_ms: Option<u64>,
    pub(super) correlation: Option<&'a str>,
    pub(super) steer: bool,
}

impl<'a> Content<'a> {
    fn of(message: &'a Message) -> Content<'a> {
        Content {
            // A message that was redirected to another member still counts as the one that was
            // sent.
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

    fn terms(&self) -> u64 {
        let Content { kind, priority, window_ms, correlation, steer, .. } = self;
        let (kind, priority) = (kind.word(), priority.word());
        mark(&format!("{kind} {priority} {window_ms:?} {correlation:?} {steer}"))
    }
}

impl Forgotten {
    fn is_of(&self, content: &Content<'_>) -> bool {
        self.to.name() == content.to
            && self.text == mark(content.text)
            && self.iteration == content.iteration
            && (self.terms == content.terms() || self.terms == 0)
    }
}

/// Whether a message was sent before under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    Never,
    /// The same message was sent before.
    Already,
    /// The key belongs to a different message.
    Otherwise,
}

impl Task {
    /// Whether an actor sent this message before, with the same content. Keys are scoped to their
    /// sender, even after the message was evicted.
    pub(super) fn sent_before(&self, by: &Actor, key: &str, content: &Content<'_>) -> Sent {
        let known = self.sent(by, key).map(|sent| Content::of(sent) == *content);
        let forgotten = || self.forgotten(by, key).map(|sent| sent.is_of(content));
        match known.or_else(forgotten) {
            None => Sent::Never,
            Some(_) if bug!(KeyStoredTwice) => Sent::Never,
            Some(true) => Sent::Already,
            Some(false) => Sent::Otherwise,
        }
    }

    fn forgotten(&self, by: &Actor, key: &str) -> Option<&Forgotten> {
        let mut forgotten = self.forgotten.iter().rev();
        forgotten.find(|sent| sent.key == key && sent.from == *by).map(AsRef::as_ref)
    }
}

/// Returns the FNV-1a hash of a text. It is stored, so it must be the same in every version.
pub(super) fn mark(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
