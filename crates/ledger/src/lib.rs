//! The ledger: the append-only log of events, and a host's only source of truth.
//!
//! [`ReadLedger`] and [`Ledger`] are the port. The simulator and tests use [`MemLedger`], the
//! daemon uses [`SqliteLedger`], and all other processes use [`SqliteReader`]. The ledger does not
//! interpret events: a record is JSON with a kind and a version. Everything is synchronous and
//! called by the engine's single owner thread.

#![cfg_attr(not(feature = "sqlite"), expect(dead_code, reason = "only SQLite uses all of it"))]

mod batch;
mod bundle;
mod checksum;
mod error;
mod export;
mod lines;
mod mem;
mod port;
mod search_terms;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stream;

pub use batch::{
    IdempotentReply, InvalidBatch, MAX_ACTOR_BYTES, MAX_EVENT_BYTES, MAX_KEY_BYTES, MAX_KIND_BYTES,
    MAX_PROJECTION_BYTES, MAX_REPLY_BYTES, MAX_SNAPSHOT_BYTES, NewEvent, PendingItem,
    StreamSnapshot, StreamWrite, WriteBatch,
};
pub use bundle::{
    BUNDLE_VERSION, Bundle, BundledFile, BundledStream, Error as BundleError, Manifest,
    write_bundle,
};
pub use error::Error;
pub use export::{Error as ExportError, ExportCounts, export, export_streams};
pub use lines::{Error as LineError, FORMAT_VERSION, MAX_LINE_BYTES};
pub use mem::MemLedger;
pub use port::{
    AppendError, ArchiveError, ArchiveResult, ClockReading, CloseFn, CommittedBatch, FoldFn,
    FoldedStream, KnownKinds, Ledger, ListCursor, OpenStreamPolicy, ProjectionQuery, ProjectionRef,
    ReadLedger, RecordedEvent, RecordedEventRef, StoredSnapshot, StreamFilter, StreamHead,
    StreamState, VisitFlow, for_each_record_or_damage,
};
pub use search_terms::{
    Lookup, MAX_INDEXED_BYTES, MAX_WORDS, SHORT_ID, SearchTerms, TermQuery, TermSet,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{
    AcceptedLoss, BackupError, Durability, ImportCounts, ImportError, LedgerLoss, LedgerMismatch,
    LossRecovery, OpenError, OpenOptions, ReadOnlyReason, SCHEMA_VERSION, SqliteLedger,
    SqliteReader, StoragePoint, StorageProbe, VerifyReport, WriterLock, lock_writer, verify,
};
pub use stream::{Error as StreamIdError, MAX_STREAM_ID_BYTES, StreamId};
