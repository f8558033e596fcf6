//! The ledger on SQLite: one writing process, any number of readers.

mod append;
mod archive;
mod backup;
mod db;
mod files;
mod head;
mod import;
mod ledger;
mod loss;
mod open;
mod read;
mod rows;
mod schema;
mod verify;
mod words;

pub use backup::Error as BackupError;
pub use import::{Error as ImportError, Imported};
pub use ledger::{Point, Probe, ReadOnly, SqliteLedger, SqliteReader};
pub use loss::{AcceptedLoss, Loss, Recovered};
pub use open::{Durability, Error as OpenError, OpenOptions};
pub use schema::SCHEMA_VERSION;
pub use verify::{Difference, Report, verify};
