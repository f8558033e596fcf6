//! The ledger: the append-only log of events, and the only source of truth of a host.
//!
//! [`ReadLedger`] and [`Ledger`] are the port. [`MemLedger`] serves the simulator and tests,
//! [`SqliteLedger`] the daemon, [`SqliteReader`] every other process. The ledger does not interpret
//! events: a record is JSON with a kind and a version. Everything is synchronous; the engine's
//! single owner thread calls it.

mod batch;
mod bundle;
mod error;
mod export;
mod lines;
mod mem;
mod port;
mod sqlite;
mod stream;
mod words;

pub use batch::{
    Batch, Idempotency, Invalid, MAX_ACTOR_BYTES, MAX_CARD_BYTES, MAX_EVENT_BYTES, MAX_KEY_BYTES,
    MAX_KIND_BYTES, MAX_REPLY_BYTES, MAX_SNAPSHOT_BYTES, NewEvent, Owed, Snapshot, StreamWrite,
};
pub use bundle::{
    BUNDLE_VERSION, Bundle, BundledFile, BundledStream, Error as BundleError, Manifest,
    write_bundle,
};
pub use error::Error;
pub use export::{Error as ExportError, Exported, export, export_streams};
pub use lines::{Error as LineError, FORMAT_VERSION, MAX_LINE_BYTES};
pub use mem::MemLedger;
pub use port::{
    AppendError, ArchiveError, Archived, CardQuery, CardRef, Close, Committed, Cursor, Fold,
    Folded, Known, Ledger, Moment, Open, ReadLedger, Recorded, RecordedRef, Show, StoredSnapshot,
    StreamHead, StreamState, Visit,
};
pub use sqlite::{
    AcceptedLoss, BackupError, Difference, Durability, ImportError, Imported, Loss, OpenError,
    OpenOptions, Point, Probe, ReadOnly, Recovered, Report, SCHEMA_VERSION, SqliteLedger,
    SqliteReader, verify,
};
pub use stream::{Error as StreamIdError, MAX_STREAM_ID_BYTES, StreamId};
pub use words::{By, FoundBy, MAX_INDEXED_BYTES, MAX_WORDS, Sought, Words};
