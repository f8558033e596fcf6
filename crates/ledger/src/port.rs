//! The port: what the engine asks of a ledger, and the words it is asked in.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::{Batch, By, Error, FoundBy, Invalid, Owed, Snapshot, Sought, StreamId, Words};

/// A point in time on both clocks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    pub wall_ms: i64,
    pub mono_ms: u64,
}

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its place in the whole log; never used again, even if the event is archived.
    pub seq: u64,
    pub stream: StreamId,
    /// Its place in its stream, from 1.
    pub version: u64,
    pub kind: String,
    pub v: u16,
    pub at: Moment,
    pub actor: String,
    /// One line of JSON.
    pub data: String,
}

/// A recorded event on loan while it is visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedRef<'a> {
    pub seq: u64,
    pub stream: &'a str,
    pub version: u64,
    pub kind: &'a str,
    pub v: u16,
    pub at: Moment,
    pub actor: &'a str,
    pub data: &'a str,
}

/// Proof that a batch is durable; only an append makes one.
#[derive(Debug, PartialEq, Eq)]
pub struct Committed {
    last_seq: u64,
    records: Vec<Recorded>,
}

/// Where a stream stands, with everything kept beside its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamState {
    pub head: StreamHead,
    pub owed: Vec<Owed>,
    pub card: Option<String>,
    pub snapshot: Option<StoredSnapshot>,
}

/// Where a stream stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamHead {
    pub stream: StreamId,
    /// The number of its events.
    pub version: u64,
    /// The `seq` of its first event: its age.
    pub created_seq: u64,
    pub open: bool,
    pub archived: bool,
}

/// A snapshot and the version of the stream that it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSnapshot {
    pub version: u64,
    pub snapshot: Snapshot,
}

/// What the events of a stream amount to; the caches must say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    pub open: bool,
    pub owed: Vec<Owed>,
    pub card: Option<String>,
    pub snapshot: Option<Snapshot>,
    pub found_by: FoundBy,
    /// What its events are found by, in their order; those beyond the end are found by nothing.
    pub words: Vec<Words>,
}

/// Which summaries to list: one kind of stream, newest first.
#[derive(Clone, Copy, Debug)]
pub struct CardQuery<'a> {
    pub kind: &'a str,
    pub show: Show,
    /// Where the page before ended.
    pub after: Option<Cursor>,
    pub limit: usize,
}

/// Which streams a listing shows, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// The open ones, then the closed ones.
    OpenFirst,
    OpenOnly,
    ClosedOnly,
}

/// The place of a stream in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    pub open: bool,
    pub created_seq: u64,
}

/// A stream's row in a listing, on loan while it is visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardRef<'a> {
    pub stream: &'a str,
    pub version: u64,
    pub created_seq: u64,
    pub open: bool,
    pub archived: bool,
    /// JSON. Bytes that are no UTF-8 any more are replaced, so that one damaged card hides no other.
    pub card: Option<Cow<'a, str>>,
}

/// Whether a visitor wants more.
pub type Visit = ControlFlow<()>;

/// Says whether this program understands an event of a kind and version.
pub type Known<'a> = &'a dyn Fn(&str, u16) -> bool;

/// Folds the whole of a stream; the error says why it cannot.
pub type Fold<'a> = &'a mut dyn FnMut(&StreamId, &[Recorded]) -> Result<Folded, String>;

/// Gives the events that end a stream which belongs to another home; the error says why it cannot.
pub type Close<'a> =
    &'a mut dyn FnMut(&StreamId, &[Recorded]) -> Result<Vec<(Moment, crate::NewEvent)>, String>;

/// What is to become of streams that are still open in an export.
pub enum Open<'a> {
    /// They go on here: the home that they were exported from is no more.
    GoOn,
    /// They go on if they were exported from this home; those of another are closed here.
    OnlyOf { home: Option<&'a str>, close: Close<'a> },
}

/// What an archiving did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    pub streams: usize,
    pub records: u64,
    /// The name of the file in the archive, if there are files.
    pub file: Option<String>,
}

/// Why a batch was not appended; nothing of it was.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{stream} is at version {found}, not at {expected}")]
    Conflict { stream: StreamId, expected: u64, found: u64 },
    /// The command was carried out before; this was the reply.
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
    #[error("no streams were named")]
    Nothing,
    #[error("{stream} is not in the ledger")]
    Missing { stream: StreamId },
    #[error("{stream} is still open")]
    Open { stream: StreamId },
    #[error("{stream} still owes `{key}`")]
    Owes { stream: StreamId, key: String },
    #[error("{stream} is archived already")]
    Already { stream: StreamId },
    #[error("the ledger is open for reading only: {why}")]
    ReadOnly { why: String },
    #[error(transparent)]
    Storage(#[from] Error),
}

/// The reading half of a ledger. No read writes.
pub trait ReadLedger {
    /// The highest `seq` ever given out; 0 if none was.
    fn last_seq(&self) -> Result<u64, Error>;

    /// The events of a stream after a version, also of an archived stream; empty if there is no such stream.
    fn read_stream(&self, stream: &StreamId, after_version: u64) -> Result<Vec<Recorded>, Error>;

    /// Up to `limit` events after a `seq`, in order. Events of archived streams are passed over.
    fn read_after(&self, seq: u64, limit: usize) -> Result<Vec<Recorded>, Error>;

    /// Visits the events after a `seq`, in order, without copying them.
    fn for_each_record(
        &self,
        after: u64,
        visit: &mut dyn FnMut(RecordedRef<'_>) -> Visit,
    ) -> Result<(), Error>;

    /// The reply recorded under an idempotency key.
    fn idempotent(&self, key: &str) -> Result<Option<String>, Error>;

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamState>, Error>;

    /// Whether a stream was imported from another home, and not taken over by the import.
    fn is_imported(&self, stream: &StreamId) -> Result<bool, Error>;

    fn snapshot(&self, stream: &StreamId) -> Result<Option<StoredSnapshot>, Error>;

    /// The streams that a starting daemon must load, oldest first: those that are open or still owe something.
    fn open_streams(&self) -> Result<Vec<StreamState>, Error>;

    /// The timers that are due at a time, the earliest first.
    fn due(&self, mono_ms: u64) -> Result<Vec<(StreamId, Owed)>, Error>;

    /// Visits a page of a listing; gives the cursor for the next page, or `None` at the end.
    /// A stream that closes between two pages may be shown twice, but is not left out.
    fn cards(
        &self,
        query: CardQuery<'_>,
        visit: &mut dyn FnMut(CardRef<'_>) -> Visit,
    ) -> Result<Option<Cursor>, Error>;

    /// Visits up to `limit` streams of a kind that are found, newest first. Says whether there is anything to find them
    /// by: a ledger of an older program has nothing yet.
    fn find_streams(
        &self,
        kind: &str,
        by: By<'_>,
        limit: usize,
        visit: &mut dyn FnMut(CardRef<'_>) -> Visit,
    ) -> Result<bool, Error>;

    /// Visits up to `limit` events of streams of a kind that are found by words, newest first. Those of archived
    /// streams are passed over.
    fn find_events(
        &self,
        kind: &str,
        sought: &Sought,
        limit: usize,
        visit: &mut dyn FnMut(RecordedRef<'_>) -> Visit,
    ) -> Result<(), Error>;

    /// The highest `seq` that was given out before a wall time, as far as it can be told: events of archived streams
    /// are passed over, and a clock may have been set back.
    fn seq_before(&self, wall_ms: i64) -> Result<u64, Error>;

    /// Visits all streams, oldest first.
    fn for_each_stream(&self, visit: &mut dyn FnMut(StreamHead) -> Visit) -> Result<(), Error>;

    /// Visits all remembered replies, in the order of their keys.
    fn for_each_idempotent(&self, visit: &mut dyn FnMut(&str, &str) -> Visit) -> Result<(), Error>;

    /// Up to `limit` streams that may be archived, oldest first: closed, owing nothing, and unchanged since before a wall time.
    fn archivable(&self, before_wall_ms: i64, limit: usize) -> Result<Vec<StreamId>, Error>;

    /// Lets several reads see the ledger of one moment, whatever is appended meanwhile.
    fn frozen(&self, read: &mut dyn FnMut(&dyn ReadLedger)) -> Result<(), Error>;
}

/// A ledger that can be written.
pub trait Ledger: ReadLedger {
    /// Makes a whole batch durable, or nothing of it.
    fn append(&mut self, batch: Batch) -> Result<Committed, AppendError>;

    /// Moves the events of closed streams that owe nothing out of the log; the streams stay in listings and stay readable.
    fn archive(&mut self, streams: &[StreamId]) -> Result<Archived, ArchiveError>;
}

impl Committed {
    pub(crate) fn new(last_seq: u64, records: Vec<Recorded>) -> Self {
        Self { last_seq, records }
    }

    /// The `seq` of the first event of the batch; one above [`Self::last_seq`] if it had none.
    pub fn first_seq(&self) -> u64 {
        self.records.first().map_or(self.last_seq + 1, |first| first.seq)
    }

    /// The ledger's highest `seq` after the batch.
    pub fn last_seq(&self) -> u64 {
        self.last_seq
    }

    pub fn records(&self) -> &[Recorded] {
        &self.records
    }

    pub fn into_records(self) -> Vec<Recorded> {
        self.records
    }
}

impl Recorded {
    pub fn as_ref(&self) -> RecordedRef<'_> {
        RecordedRef {
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

impl RecordedRef<'_> {
    pub fn to_owned(self) -> Recorded {
        Recorded {
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

impl CardRef<'_> {
    pub fn cursor(&self) -> Cursor {
        Cursor { open: self.open, created_seq: self.created_seq }
    }
}

/// The streams to archive, each once, in the order given.
pub(crate) fn distinct(streams: &[StreamId]) -> Result<Vec<&StreamId>, ArchiveError> {
    let mut seen = BTreeSet::new();
    let once: Vec<_> = streams.iter().filter(|s| seen.insert(*s)).collect();
    if once.is_empty() {
        return Err(ArchiveError::Nothing);
    }
    Ok(once)
}

impl CardQuery<'_> {
    /// The halves of the listing that are still to be shown: open or closed, and below which age.
    pub(crate) fn halves(&self) -> Vec<Cursor> {
        let all = match self.show {
            Show::OpenFirst => &[true, false][..],
            Show::OpenOnly => &[true],
            Show::ClosedOnly => &[false],
        };
        let start = |&open: &bool| match self.after {
            Some(after) if after.open == open => Some(after),
            // The page before ended among the closed ones, so the open ones were shown.
            Some(after) if open && !after.open => None,
            _ => Some(Cursor { open, created_seq: u64::MAX }),
        };
        all.iter().filter_map(start).collect()
    }
}
