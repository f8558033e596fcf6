//! The port: the interface through which the engine uses the ledger, and its types.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::{
    Error, InvalidBatch, Lookup, PendingItem, SearchTerms, StreamId, StreamSnapshot, TermQuery,
    TermSet, WriteBatch,
};

/// A point in time on both clocks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClockReading {
    pub wall_ms: i64,
    pub mono_ms: u64,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The event's position in the entire log. It is never reused, even if the event is archived.
    pub seq: u64,
    pub stream: StreamId,
    /// The event's position in its stream, starting at 1.
    pub version: u64,
    pub kind: String,
    pub v: u16,
    pub at: ClockReading,
    pub actor: String,
    /// One line of JSON.
    pub data: String,
}

/// A recorded event, borrowed during a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedEventRef<'a> {
    pub seq: u64,
    pub stream: &'a str,
    pub version: u64,
    pub kind: &'a str,
    pub v: u16,
    pub at: ClockReading,
    pub actor: &'a str,
    pub data: &'a str,
}

/// Proof that a batch is durable. Only an append creates such a proof.
#[derive(Debug, PartialEq, Eq)]
pub struct CommittedBatch {
    last_seq: u64,
    records: Vec<RecordedEvent>,
}

/// The state of a stream, with everything that is stored alongside its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub head: StreamHead,
    pub pending: Vec<PendingItem>,
    pub projection: Option<String>,
    pub snapshot: Option<StoredSnapshot>,
}

/// The version and status of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHead {
    pub stream: StreamId,
    /// The number of events in the stream.
    pub version: u64,
    /// The `seq` of the stream's first event, by which streams are ordered by age.
    pub created_seq: u64,
    pub open: bool,
    pub archived: bool,
}

/// A snapshot, and the version of the stream at which it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    pub version: u64,
    pub snapshot: StreamSnapshot,
}

/// The result of folding a stream's events. The caches must match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedStream {
    pub open: bool,
    pub pending: Vec<PendingItem>,
    pub projection: Option<String>,
    pub snapshot: Option<StreamSnapshot>,
    pub search_terms: SearchTerms,
    /// The search terms of the stream's events, in order. Events beyond the end of the list have none.
    pub event_terms: Vec<TermSet>,
}

/// A query for projections of one kind of stream, newest first.
#[derive(Clone, Copy, Debug)]
pub struct ProjectionQuery<'a> {
    pub kind: &'a str,
    pub show: StreamFilter,
    /// The position at which the previous page ended.
    pub after: Option<ListCursor>,
    pub limit: usize,
}

/// The streams to list, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFilter {
    /// Open streams first, then closed ones.
    OpenFirst,
    OpenOnly,
    ClosedOnly,
}

/// The position of a stream in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListCursor {
    pub open: bool,
    pub created_seq: u64,
}

/// A stream's row in a listing, borrowed during a visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectionRef<'a> {
    pub stream: &'a str,
    pub version: u64,
    pub created_seq: u64,
    pub open: bool,
    pub archived: bool,
    /// The projection, as JSON. `None` if the stream has no projection, or if the projection was
    /// damaged on disk.
    pub projection: Option<Cow<'a, str>>,
}

/// The return value of a visitor, which determines whether the visit continues with the next item.
pub type VisitFlow = ControlFlow<()>;

/// Returns whether this program knows an event's kind and version.
pub type KnownKinds<'a> = &'a dyn Fn(&str, u16) -> bool;

/// Folds a complete stream. The error explains why the stream cannot be folded.
pub type FoldFn<'a> =
    &'a mut dyn FnMut(&StreamId, &[RecordedEvent]) -> Result<FoldedStream, String>;

/// Returns the events that close a stream from another home. The error explains why the stream
/// cannot be closed.
pub type CloseFn<'a> = &'a mut dyn FnMut(
    &StreamId,
    &[RecordedEvent],
) -> Result<Vec<(ClockReading, crate::NewEvent)>, String>;

/// The policy of an import for streams that are still open.
pub enum OpenStreamPolicy<'a> {
    /// Keeps open streams open, because the home from which they were exported no longer exists.
    KeepOpen,
    /// Keeps streams open if they were exported from this home, and closes those from another home.
    CloseForeign { home: Option<&'a str>, close: CloseFn<'a> },
}

/// The result of archiving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveResult {
    pub streams: usize,
    pub records: u64,
    /// The name of the archive file, if the ledger has files.
    pub file: Option<String>,
}

/// The reason why a batch was not appended. No part of it was stored.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Invalid(#[from] InvalidBatch),
    #[error("{stream} is at version {found}, not at {expected}")]
    Conflict { stream: StreamId, expected: u64, found: u64 },
    /// The command was already carried out, with this reply.
    #[error("the idempotency key `{key}` was used before")]
    Duplicate { key: String, reply: String },
    #[error("{stream} is archived and accepts no more events")]
    Archived { stream: StreamId },
    #[error("the ledger is open for reading only: {why}")]
    ReadOnly { why: String },
    #[error(transparent)]
    Storage(#[from] Error),
}

/// The reason why nothing was archived.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("no streams were given")]
    NoStreams,
    #[error("{stream} is not in the ledger")]
    Missing { stream: StreamId },
    #[error("{stream} is still open")]
    Open { stream: StreamId },
    #[error("{stream} still has `{key}` pending")]
    Pending { stream: StreamId, key: String },
    #[error("{stream} is already archived")]
    AlreadyArchived { stream: StreamId },
    #[error("the ledger is open for reading only: {why}")]
    ReadOnly { why: String },
    #[error(transparent)]
    Storage(#[from] Error),
}

/// The read half of a ledger. Reading never writes anything.
pub trait ReadLedger {
    /// Returns the highest `seq` ever assigned, or 0 for an empty ledger.
    fn last_seq(&self) -> Result<u64, Error>;

    /// Returns the events of a stream after a version, even if the stream is archived. Empty if the
    /// stream does not exist.
    fn read_stream(
        &self,
        stream: &StreamId,
        after_version: u64,
    ) -> Result<Vec<RecordedEvent>, Error>;

    /// Returns up to `limit` events after a `seq`, in order. Events of archived streams are skipped.
    fn read_after(&self, seq: u64, limit: usize) -> Result<Vec<RecordedEvent>, Error>;

    /// Visits the events after a `seq`, in order, without copying them.
    fn for_each_record(
        &self,
        after: u64,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error>;

    /// Returns the reply stored under an idempotency key.
    fn stored_reply(&self, key: &str) -> Result<Option<String>, Error>;

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamState>, Error>;

    /// Whether a stream was imported from another home, unless the import took the stream over.
    fn is_imported(&self, stream: &StreamId) -> Result<bool, Error>;

    fn snapshot(&self, stream: &StreamId) -> Result<Option<StoredSnapshot>, Error>;

    /// Returns the streams that a daemon must load when it starts, oldest first. These streams are
    /// open or have pending items.
    fn open_streams(&self) -> Result<Vec<StreamState>, Error>;

    /// Returns the timers that are due at the given time, earliest first.
    fn due_timers(&self, mono_ms: u64) -> Result<Vec<(StreamId, PendingItem)>, Error>;

    /// Visits one page of a listing. Returns the cursor for the next page, or `None` at the end. A
    /// stream that closes between two pages may be shown twice, but is never omitted.
    fn list_projections(
        &self,
        query: ProjectionQuery<'_>,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<Option<ListCursor>, Error>;

    /// Visits up to `limit` matching streams of a kind, newest first. Returns false if the ledger
    /// has no search index yet, because it was written by an older program.
    fn find_streams(
        &self,
        kind: &str,
        by: Lookup<'_>,
        limit: usize,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<bool, Error>;

    /// Visits up to `limit` events that match search terms in streams of a kind, newest first.
    /// Events of archived streams are skipped.
    fn find_events(
        &self,
        kind: &str,
        sought: &TermQuery,
        limit: usize,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error>;

    /// Returns the highest `seq` assigned before a wall-clock time. This is only an estimate,
    /// because events of archived streams are skipped and the clock may have been set back.
    fn seq_before(&self, wall_ms: i64) -> Result<u64, Error>;

    /// Returns the version of a stream after the event with this `seq`, or 0 if the stream did not
    /// exist yet.
    fn stream_version_at(&self, stream: &StreamId, seq: u64) -> Result<u64, Error>;

    /// Visits all streams, oldest first.
    fn for_each_stream(&self, visit: &mut dyn FnMut(StreamHead) -> VisitFlow) -> Result<(), Error>;

    /// Visits all stored replies, in the order of their keys.
    fn for_each_reply(&self, visit: &mut dyn FnMut(&str, &str) -> VisitFlow) -> Result<(), Error>;

    /// Returns up to `limit` streams that may be archived, oldest first. These streams are closed,
    /// have nothing pending, and have not changed since the given wall-clock time.
    fn archivable(&self, before_wall_ms: i64, limit: usize) -> Result<Vec<StreamId>, Error>;

    /// Runs several reads on one consistent state of the ledger, even if events are appended in the
    /// meantime.
    fn read_consistent(&self, read: &mut dyn FnMut(&dyn ReadLedger)) -> Result<(), Error>;
}

/// Visits the events after a `seq`, in order. Damaged records are visited as errors and do not hide
/// the others.
pub fn for_each_record_or_damage(
    ledger: &dyn ReadLedger,
    after: u64,
    visit: &mut dyn FnMut(Result<RecordedEventRef<'_>, &Error>) -> VisitFlow,
) -> Result<(), Error> {
    let mut after = after;
    loop {
        let read = ledger.for_each_record(after, &mut |record| visit(Ok(record)));
        match read {
            Err(error @ Error::Unreadable { seq, .. }) if seq > after => {
                if visit(Err(&error)).is_break() {
                    return Ok(());
                }
                after = seq;
            }
            read => return read,
        }
    }
}

/// A writable ledger.
pub trait Ledger: ReadLedger {
    /// Makes a batch durable, either completely or not at all.
    fn append(&mut self, batch: WriteBatch) -> Result<CommittedBatch, AppendError>;

    /// Moves the events of closed streams without pending items out of the log. The streams can
    /// still be listed and read.
    fn archive(&mut self, streams: &[StreamId]) -> Result<ArchiveResult, ArchiveError>;
}

impl CommittedBatch {
    pub(crate) fn new(last_seq: u64, records: Vec<RecordedEvent>) -> Self {
        Self { last_seq, records }
    }

    /// Returns the `seq` of the batch's first event, or [`Self::last_seq`] plus one if it has none.
    pub fn first_seq(&self) -> u64 {
        self.records.first().map_or(self.last_seq + 1, |first| first.seq)
    }

    /// Returns the ledger's highest `seq` after the batch.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub fn records(&self) -> &[RecordedEvent] {
        &self.records
    }

    pub fn into_records(self) -> Vec<RecordedEvent> {
        self.records
    }
}

impl RecordedEvent {
    pub fn as_ref(&self) -> RecordedEventRef<'_> {
        RecordedEventRef {
            seq: self.seq,
            stream: self.stream.as_str(),
            version: self.version,
            kind: &self.kind,
            v: self.v,
            at: self.at,
            actor: &self.actor,
            data: &self.data,
        }
    }
}

impl RecordedEventRef<'_> {
    pub fn to_owned(self) -> RecordedEvent {
        RecordedEvent {
            seq: self.seq,
            stream: StreamId::stored(self.stream.to_owned()),
            version: self.version,
            kind: self.kind.to_owned(),
            v: self.v,
            at: self.at,
            actor: self.actor.to_owned(),
            data: self.data.to_owned(),
        }
    }
}

impl ProjectionRef<'_> {
    pub fn cursor(&self) -> ListCursor {
        ListCursor { open: self.open, created_seq: self.created_seq }
    }
}

/// Returns the streams to archive, without duplicates, in the given order.
pub(crate) fn distinct(streams: &[StreamId]) -> Result<Vec<&StreamId>, ArchiveError> {
    let mut seen = BTreeSet::new();
    let once: Vec<_> = streams.iter().filter(|s| seen.insert(*s)).collect();
    if once.is_empty() {
        return Err(ArchiveError::NoStreams);
    }
    Ok(once)
}

impl ProjectionQuery<'_> {
    /// Returns the positions at which to continue the listing: among the open streams, the closed
    /// streams, or both.
    pub(crate) fn halves(&self) -> Vec<ListCursor> {
        let all = match self.show {
            StreamFilter::OpenFirst => &[true, false][..],
            StreamFilter::OpenOnly => &[true],
            StreamFilter::ClosedOnly => &[false],
        };
        let start = |&open: &bool| match self.after {
            Some(after) if after.open == open => Some(after),
            // The previous page ended among the closed streams, so all open ones have been shown.
            Some(after) if open && !after.open => None,
            _ => Some(ListCursor { open, created_seq: u64::MAX }),
        };
        all.iter().filter_map(start).collect()
    }
}
