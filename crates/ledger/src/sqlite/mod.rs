//! The SQLite ledger, with one writing process and any number of readers.

mod append;
mod archive;
mod backup;
mod db;
mod files;
mod fts;
mod high_water;
mod import;
mod ledger;
mod loss;
mod open;
mod read;
mod rows;
mod schema;
mod verify;

pub use backup::Error as BackupError;
pub use files::WriterLock;
pub use import::{Error as ImportError, ImportCounts};
pub use ledger::{ReadOnlyReason, SqliteLedger, SqliteReader, StoragePoint, StorageProbe};
pub use loss::{AcceptedLoss, LedgerLoss, LossRecovery};
pub use open::{Durability, Error as OpenError, OpenOptions, lock_writer};
pub use schema::SCHEMA_VERSION;
pub use verify::{LedgerMismatch, VerifyReport, verify};
