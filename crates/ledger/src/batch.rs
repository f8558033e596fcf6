//! A batch of events for one or more streams, and its validation before anything is stored.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::{ClockReading, SearchTerms, StreamId, TermSet};

/// The maximum size of one event's JSON. Bulk output belongs in a journal, not in the ledger.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// The maximum size of a stream's projection.
pub const MAX_PROJECTION_BYTES: usize = 256 * 1024;
/// The maximum size of a snapshot of a stream's state.
pub const MAX_SNAPSHOT_BYTES: usize = 16 * 1024 * 1024;
/// The maximum size of a reply stored under an idempotency key.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;
/// The maximum length of an idempotency key, or of the key of a pending item.
pub const MAX_KEY_BYTES: usize = 512;
/// The maximum length of the kind of an event or a pending item.
pub const MAX_KIND_BYTES: usize = 100;
/// The maximum length of an actor's name.
pub const MAX_ACTOR_BYTES: usize = 512;

/// The data that one decision writes. A batch becomes durable as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteBatch {
    pub at: ClockReading,
    pub writes: Vec<StreamWrite>,
    pub idempotency: Vec<IdempotentReply>,
}

/// The changes that a batch makes to one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamWrite {
    pub stream: StreamId,
    /// The stream's version before the write. 0 means that the stream must not exist yet.
    pub expected: u64,
    pub events: Vec<NewEvent>,
    pub open: bool,
    /// Replaces all pending items of the stream.
    pub pending: Vec<PendingItem>,
    /// The projection (the row for listings), as JSON. It is a cache that every write replaces.
    pub projection: Option<String>,
    /// The stream's search terms after this write. `None` keeps the previous ones.
    pub search_terms: Option<SearchTerms>,
    /// The state after this write. `None` keeps the previous snapshot, which stays valid for its version.
    pub snapshot: Option<StreamSnapshot>,
}

/// An event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub kind: String,
    pub v: u16,
    /// The actor that caused the event.
    pub actor: String,
    /// One line of JSON.
    pub data: String,
    /// The search terms for the event. Most events have none.
    pub search_terms: TermSet,
}

/// A pending effect (without a due time) or a durable timer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PendingItem {
    pub key: String,
    pub kind: String,
    pub due_mono_ms: Option<u64>,
}

/// A stream's folded state, with the version of the fold that produced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSnapshot {
    pub fold_version: u32,
    pub data: String,
}

/// The reply to a command, stored under the command's idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotentReply {
    pub key: String,
    /// The reply, as JSON.
    pub reply: String,
}

/// The reason why a batch was rejected before anything was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBatch {
    #[error("a batch must contain at least one event or reply")]
    Empty,
    #[error("the write to {stream} has no events")]
    NoEvents { stream: StreamId },
    #[error("{stream} is written twice in one batch")]
    DuplicateStream { stream: StreamId },
    #[error("the {what} `{key}` occurs twice")]
    DuplicateKey { what: &'static str, key: String },
    #[error("the {what} is {bytes} bytes long, but at most {limit} are allowed")]
    TooLarge { what: &'static str, bytes: usize, limit: usize },
    #[error("the {what} is empty")]
    Missing { what: &'static str },
    #[error("the {what} is not one line of JSON: {why}")]
    NotJson { what: &'static str, why: String },
    #[error("the {what} {number} does not fit in 63 bits")]
    Number { what: &'static str, number: u64 },
}

impl WriteBatch {
    /// Checks everything that can be checked without reading the ledger.
    pub(crate) fn check(&self) -> Result<(), InvalidBatch> {
        if self.writes.is_empty() && self.idempotency.is_empty() {
            return Err(InvalidBatch::Empty);
        }
        check_number("monotonic time", self.at.mono_ms)?;
        let mut streams = BTreeSet::new();
        for write in &self.writes {
            if !streams.insert(&write.stream) {
                let stream = write.stream.clone();
                return Err(InvalidBatch::DuplicateStream { stream });
            }
            write.check()?;
        }
        check_idempotency(&self.idempotency)
    }
}

impl StreamWrite {
    fn check(&self) -> Result<(), InvalidBatch> {
        if self.events.is_empty() {
            let stream = self.stream.clone();
            return Err(InvalidBatch::NoEvents { stream });
        }
        self.events.iter().try_for_each(NewEvent::check)?;
        check_pending(&self.pending)?;
        if let Some(projection) = &self.projection {
            check_json("projection", projection, MAX_PROJECTION_BYTES)?;
        }
        if let Some(snapshot) = &self.snapshot {
            check_size("snapshot", snapshot.data.len(), MAX_SNAPSHOT_BYTES)?;
        }
        Ok(())
    }
}

impl NewEvent {
    fn check(&self) -> Result<(), InvalidBatch> {
        check_text("event's kind", &self.kind, MAX_KIND_BYTES)?;
        check_text("actor", &self.actor, MAX_ACTOR_BYTES)?;
        check_json("event", &self.data, MAX_EVENT_BYTES)
    }
}

/// Returns the reason why a text is not a single line of JSON. Every stored event must be one.
pub(crate) fn json_error(text: &str) -> Option<String> {
    // Records are exported unchanged, one per line, so a line break is rejected even though JSON
    // allows it between tokens.
    if text.bytes().any(|b| b == b'\n' || b == b'\r') {
        return Some("it contains a line break".to_owned());
    }
    serde_json::from_str::<IgnoredAny>(text).err().map(|e| e.to_string())
}

fn check_idempotency(all: &[IdempotentReply]) -> Result<(), InvalidBatch> {
    let mut keys = BTreeSet::new();
    for IdempotentReply { key, reply } in all {
        check_text("idempotency key", key, MAX_KEY_BYTES)?;
        check_json("reply", reply, MAX_REPLY_BYTES)?;
        check_once("idempotency key", key, &mut keys)?;
    }
    Ok(())
}

fn check_pending(all: &[PendingItem]) -> Result<(), InvalidBatch> {
    let mut keys = BTreeSet::new();
    for item in all {
        check_text("key of a pending item", &item.key, MAX_KEY_BYTES)?;
        check_text("kind of a pending item", &item.kind, MAX_KIND_BYTES)?;
        check_number("due time", item.due_mono_ms.unwrap_or(0))?;
        check_once("key of a pending item", &item.key, &mut keys)?;
    }
    Ok(())
}

fn check_once<'a>(
    what: &'static str,
    key: &'a str,
    seen: &mut BTreeSet<&'a str>,
) -> Result<(), InvalidBatch> {
    if seen.insert(key) {
        return Ok(());
    }
    let key = key.to_owned();
    Err(InvalidBatch::DuplicateKey { what, key })
}

fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), InvalidBatch> {
    if text.is_empty() {
        return Err(InvalidBatch::Missing { what });
    }
    check_size(what, text.len(), limit)
}

fn check_json(what: &'static str, text: &str, limit: usize) -> Result<(), InvalidBatch> {
    check_size(what, text.len(), limit)?;
    match json_error(text) {
        Some(why) => Err(InvalidBatch::NotJson { what, why }),
        None => Ok(()),
    }
}

fn check_size(what: &'static str, bytes: usize, limit: usize) -> Result<(), InvalidBatch> {
    if bytes > limit {
        return Err(InvalidBatch::TooLarge { what, bytes, limit });
    }
    Ok(())
}

fn check_number(what: &'static str, number: u64) -> Result<(), InvalidBatch> {
    match i64::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => Err(InvalidBatch::Number { what, number }),
    }
}
