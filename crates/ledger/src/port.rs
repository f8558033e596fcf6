//! The port: the ledger interface that the engine uses, and its types.

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
    /// Its position in the whole log; never reused, even if the event is archived.
    pub seq: u64,
    pub stream: StreamId,
    /// Its position in its stream, from 1.
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

/// Proof that a batch is durable; only an append creates one.
#[derive(Debug, PartialEq, Eq)]
pub struct CommittedBatch {
    last_seq: u64,
    records: Vec<RecordedEvent>,
}

/// The state of a stream, with everything stored beside its events.
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
    /// The number of its events.
    pub version: u64,
    /// The `seq` of its first event, which orders streams by age.
    pub created_seq: u64,
    pub open: bool,
    pub archived: bool,
}

/// A snapshot and the stream version that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    pub version: u64,
    pub snapshot: StreamSnapshot,
}

/// The result of folding a stream's events; the caches must match it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldedStream {
    pub open: bool,
    pub pending: Vec<PendingItem>,
    pub projection: Option<String>,
    pub snapshot: Option<StreamSnapshot>,
    pub search_terms: SearchTerms,
    /// The search terms of its events, in order; events beyond the end have none.
    pub event_terms: Vec<TermSet>,
}

/// A query for projections: one kind of stream, newest first.
#[derive(Clone, Copy, Debug)]
pub struct ProjectionQuery<'a> {
    pub kind: &'a str,
    pub show: StreamFilter,
    /// The end of the previous page.
    pub after: Option<ListCursor>,
    pub limit: usize,
}

/// The streams in a listing, and their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFilter {
    /// The open ones, then the closed ones.
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
    /// JSON. Invalid UTF-8 is replaced, so that one damaged projection does not hide the others.
    pub projection: Option<Cow<'a, str>>,
}

/// Whether a visitor wants more.
pub type VisitFlow = ControlFlow<()>;

/// Returns whether this program knows an event's kind and version.
pub type KnownKinds<'a> = &'a dyn Fn(&str, u16) -> bool;

/// Folds a complete stream; the error says why it cannot.
pub type FoldFn<'a> =
    &'a mut dyn FnMut(&StreamId, &[RecordedEvent]) -> Result<FoldedStream, String>;

/// Returns the events that close a stream of another home; the error says why it cannot.
pub type CloseFn<'a> = &'a mut dyn FnMut(
    &StreamId,
    &[RecordedEvent],
) -> Result<Vec<(ClockReading, crate::NewEvent)>, String>;

/// How an import treats streams that are still open.
pub enum OpenStreamPolicy<'a> {
    /// Keep them open: the home that they were exported from no longer exists.
    KeepOpen,
    /// Keep them open if they were exported from this home; close those of another.
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

/// Why a batch was not appended; none of it was.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Invalid(#[from] InvalidBatch),
    #[error("{stream} is at version {found}, not at {expected}")]
    Conflict { stream: StreamId, expected: u64, found: u64 },
    /// The command was already carried out; this was its reply.
    #[error("the idempotency key `{key}` was used before")]
    Duplicate { key: String, reply: String },
    #[error("{stream} is archived and takes no more events")]
    Archived { stream: StreamId },
    #[error("the ledger is open for reading only: {why}")]
    ReadOnly { why: String },
    #[error(transparent)]
    Storage(#[from] Error),
}

/// Why nothing was archived.
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

/// The read half of a ledger. Reads never write.
pub trait ReadLedger {
    /// The highest `seq` ever assigned; 0 if none was.
    fn last_seq(&self) -> Result<u64, Error>;

    /// The events of a stream after a version, even if it is archived; empty if the stream does not
    /// exist.
    fn read_stream(
        &self,
        stream: &StreamId,
        after_version: u64,
    ) -> Result<Vec<RecordedEvent>, Error>;

    /// Up to `limit` events after a `seq`, in order. Events of archived streams are skipped.
    fn read_after(&self, seq: u64, limit: usize) -> Result<Vec<RecordedEvent>, Error>;

    /// Visits the events after a `seq`, in order, without copying them.
    fn for_each_record(
        &self,
        after: u64,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error>;

    /// The reply recorded under an idempotency key.
    fn stored_reply(&self, key: &str) -> Result<Option<String>, Error>;

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamState>, Error>;

    /// Whether a stream was imported from another home and not taken over by the import.
    fn is_imported(&self, stream: &StreamId) -> Result<bool, Error>;

    fn snapshot(&self, stream: &StreamId) -> Result<Option<StoredSnapshot>, Error>;

    /// The streams that a starting daemon must load, oldest first: those that are open or have
    /// pending items.
    fn open_streams(&self) -> Result<Vec<StreamState>, Error>;

    /// The timers due at a time, earliest first.
    fn due_timers(&self, mono_ms: u64) -> Result<Vec<(StreamId, PendingItem)>, Error>;

    /// Visits a page of a listing. Returns the cursor for the next page, or `None` at the end. A
    /// stream that closes between two pages may be shown twice, but is never omitted.
    fn list_projections(
        &self,
        query: ProjectionQuery<'_>,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<Option<ListCursor>, Error>;

    /// Visits up to `limit` matching streams of a kind, newest first. Returns false if the ledger
    /// has no search index yet, because an older program wrote it.
    fn find_streams(
        &self,
        kind: &str,
        by: Lookup<'_>,
        limit: usize,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<bool, Error>;

    /// Visits up to `limit` events that match search terms, in streams of a kind, newest first.
    /// Events of archived streams are skipped.
    fn find_events(
        &self,
        kind: &str,
        sought: &TermQuery,
        limit: usize,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error>;

    /// The highest `seq` assigned before a wall time. Only an estimate: events of archived streams
    /// are skipped, and a clock may have been set back.
    fn seq_before(&self, wall_ms: i64) -> Result<u64, Error>;

    /// Visits all streams, oldest first.
    fn for_each_stream(&self, visit: &mut dyn FnMut(StreamHead) -> VisitFlow) -> Result<(), Error>;

    /// Visits all stored replies, in the order of their keys.
    fn for_each_reply(&self, visit: &mut dyn FnMut(&str, &str) -> VisitFlow) -> Result<(), Error>;

    /// Up to `limit` streams that may be archived, oldest first: closed, with nothing pending, and
    /// unchanged since before a wall time.
    fn archivable(&self, before_wall_ms: i64, limit: usize) -> Result<Vec<StreamId>, Error>;

    /// Runs several reads on one consistent state of the ledger, whatever is appended meanwhile.
    fn read_consistent(&self, read: &mut dyn FnMut(&dyn ReadLedger)) -> Result<(), Error>;
}

/// A writable ledger.
pub trait Ledger: ReadLedger {
    /// Makes a whole batch durable, or none of it.
    fn append(&mut self, batch: WriteBatch) -> Result<CommittedBatch, AppendError>;

    /// Moves the events of closed streams without pending items out of the log. The streams stay
    /// listed and readable.
    fn archive(&mut self, streams: &[StreamId]) -> Result<ArchiveResult, ArchiveError>;
}

impl CommittedBatch {
    pub(crate) fn new(last_seq: u64, records: Vec<RecordedEvent>) -> Self {
        Self { last_seq, records }
    }

    /// The `seq` of the batch's first event; [`Self::last_seq`] plus one if it had none.
    pub fn first_seq(&self) -> u64 {
        self.records.first().map_or(self.last_seq + 1, |first| first.seq)
    }

    /// The ledger's highest `seq` after the batch.
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

/// The streams to archive, without duplicates, in the given order.
pub(crate) fn distinct(streams: &[StreamId]) -> Result<Vec<&StreamId>, ArchiveError> {
    let mut seen = BTreeSet::new();
    let once: Vec<_> = streams.iter().filter(|s| seen.insert(*s)).collect();
    if once.is_empty() {
        return Err(ArchiveError::NoStreams);
    }
    Ok(once)
}

impl ProjectionQuery<'_> {
    /// The halves of the listing that are still to be shown: open or closed, and below which age.
    pub(crate) fn halves(&self) -> Vec<ListCursor> {
        let all = match self.show {
            StreamFilter::OpenFirst => &[true, false][..],
            StreamFilter::OpenOnly => &[true],
            StreamFilter::ClosedOnly => &[false],
        };
        let start = |&open: &bool| match self.after {
            Some(after) if after.open == open => Some(after),
            // The previous page ended among the closed ones, so the open ones were shown.
            Some(after) if open && !after.open => None,
            _ => Some(ListCursor { open, created_seq: u64::MAX }),
        };
        all.iter().filter_map(start).collect()
    }
}
