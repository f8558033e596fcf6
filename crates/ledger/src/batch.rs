//! A write: a batch of events for several streams, and its validation before anything is stored.

use std::collections::BTreeSet;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::{FoundBy, Moment, StreamId, Words};

/// The largest JSON of one event; bulk output belongs in a journal, not in the ledger.
pub const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// The largest projection of a stream.
pub const MAX_CARD_BYTES: usize = 256 * 1024;
/// The largest snapshot of a stream's state.
pub const MAX_SNAPSHOT_BYTES: usize = 16 * 1024 * 1024;
/// The largest reply remembered for an idempotency key.
pub const MAX_REPLY_BYTES: usize = 1024 * 1024;
/// The longest idempotency key or key of a pending item.
pub const MAX_KEY_BYTES: usize = 512;
/// The longest kind of an event or a pending item.
pub const MAX_KIND_BYTES: usize = 100;
/// The longest name of an actor.
pub const MAX_ACTOR_BYTES: usize = 512;

/// Everything that one decision writes. It becomes durable as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub at: Moment,
    pub writes: Vec<StreamWrite>,
    pub idempotency: Vec<Idempotency>,
}

/// A batch's changes to one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamWrite {
    pub stream: StreamId,
    /// The stream's version before the write; 0 means that it must not exist.
    pub expected: u64,
    pub events: Vec<NewEvent>,
    pub open: bool,
    /// Replaces all pending items of the stream.
    pub owed: Vec<Owed>,
    /// The projection (row for listings), as JSON; a cache, replaced by every write.
    pub card: Option<String>,
    /// The stream's search terms after this write; `None` keeps the previous ones.
    pub found_by: Option<FoundBy>,
    /// The state after this write; `None` keeps the previous snapshot, which stays valid for its
    /// version.
    pub snapshot: Option<Snapshot>,
}

/// An event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewEvent {
    pub kind: String,
    pub v: u16,
    /// The actor that caused it.
    pub actor: String,
    /// One line of JSON.
    pub data: String,
    /// Its search terms; most events have none.
    pub words: Words,
}

/// A pending effect (without a due time) or a durable timer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Owed {
    pub key: String,
    pub kind: String,
    pub due_mono_ms: Option<u64>,
}

/// A stream's folded state, with the version of the fold that produced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub fold_version: u32,
    pub data: String,
}

/// The reply to a command, stored under the command's idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    pub key: String,
    /// JSON.
    pub reply: String,
}

/// Why a batch was rejected before anything was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    #[error("a batch must contain at least one event or reply")]
    Empty,
    #[error("the write to {stream} has no events")]
    NoEvents { stream: StreamId },
    #[error("{stream} is written twice in one batch")]
    StreamTwice { stream: StreamId },
    #[error("the {what} `{key}` occurs twice")]
    KeyTwice { what: &'static str, key: String },
    #[error("the {what} is {bytes} bytes long, at most {limit} are allowed")]
    TooLarge { what: &'static str, bytes: usize, limit: usize },
    #[error("the {what} is empty")]
    Missing { what: &'static str },
    #[error("the {what} is not one line of JSON: {why}")]
    NotJson { what: &'static str, why: String },
    #[error("the {what} {number} does not fit in 63 bits")]
    Number { what: &'static str, number: u64 },
}

impl Batch {
    /// Checks everything that can be checked without reading the ledger.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        if self.writes.is_empty() && self.idempotency.is_empty() {
            return Err(Invalid::Empty);
        }
        check_number("monotonic time", self.at.mono_ms)?;
        let mut streams = BTreeSet::new();
        for write in &self.writes {
            if !streams.insert(&write.stream) {
                let stream = write.stream.clone();
                return Err(Invalid::StreamTwice { stream });
            }
            write.check()?;
        }
        check_idempotency(&self.idempotency)
    }
}

impl StreamWrite {
    fn check(&self) -> Result<(), Invalid> {
        if self.events.is_empty() {
            let stream = self.stream.clone();
            return Err(Invalid::NoEvents { stream });
        }
        self.events.iter().try_for_each(NewEvent::check)?;
        check_owed(&self.owed)?;
        if let Some(card) = &self.card {
            check_json("card", card, MAX_CARD_BYTES)?;
        }
        if let Some(snapshot) = &self.snapshot {
            check_size("snapshot", snapshot.data.len(), MAX_SNAPSHOT_BYTES)?;
        }
        Ok(())
    }
}

impl NewEvent {
    fn check(&self) -> Result<(), Invalid> {
        check_text("event's kind", &self.kind, MAX_KIND_BYTES)?;
        check_text("actor", &self.actor, MAX_ACTOR_BYTES)?;
        check_json("event", &self.data, MAX_EVENT_BYTES)
    }
}

/// Returns why a text is not one line of JSON, as every stored event must be.
pub(crate) fn json_fault(text: &str) -> Option<String> {
    // Records are exported unchanged, one per line. So a line break, which JSON allows between
    // tokens, is rejected.
    if text.bytes().any(|b| b == b'\n' || b == b'\r') {
        return Some("it contains a line break".to_owned());
    }
    serde_json::from_str::<IgnoredAny>(text).err().map(|e| e.to_string())
}

fn check_idempotency(all: &[Idempotency]) -> Result<(), Invalid> {
    let mut keys = BTreeSet::new();
    for Idempotency { key, reply } in all {
        check_text("idempotency key", key, MAX_KEY_BYTES)?;
        check_json("reply", reply, MAX_REPLY_BYTES)?;
        check_once("idempotency key", key, &mut keys)?;
    }
    Ok(())
}

fn check_owed(all: &[Owed]) -> Result<(), Invalid> {
    let mut keys = BTreeSet::new();
    for owed in all {
        check_text("key of a pending item", &owed.key, MAX_KEY_BYTES)?;
        check_text("kind of a pending item", &owed.kind, MAX_KIND_BYTES)?;
        check_number("due time", owed.due_mono_ms.unwrap_or(0))?;
        check_once("key of a pending item", &owed.key, &mut keys)?;
    }
    Ok(())
}

fn check_once<'a>(
    what: &'static str,
    key: &'a str,
    seen: &mut BTreeSet<&'a str>,
) -> Result<(), Invalid> {
    if seen.insert(key) {
        return Ok(());
    }
    let key = key.to_owned();
    Err(Invalid::KeyTwice { what, key })
}

fn check_text(what: &'static str, text: &str, limit: usize) -> Result<(), Invalid> {
    if text.is_empty() {
        return Err(Invalid::Missing { what });
    }
    check_size(what, text.len(), limit)
}

fn check_json(what: &'static str, text: &str, limit: usize) -> Result<(), Invalid> {
    check_size(what, text.len(), limit)?;
    match json_fault(text) {
        Some(why) => Err(Invalid::NotJson { what, why }),
        None => Ok(()),
    }
}

fn check_size(what: &'static str, bytes: usize, limit: usize) -> Result<(), Invalid> {
    if bytes > limit {
        return Err(Invalid::TooLarge { what, bytes, limit });
    }
    Ok(())
}

fn check_number(what: &'static str, number: u64) -> Result<(), Invalid> {
    match i64::try_from(number) {
        Ok(_) => Ok(()),
        Err(_) => Err(Invalid::Number { what, number }),
    }
}
