//! The tables of a ledger and their version.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// The version of the tables and records that this program reads and writes. Every change to them
/// gets a new number. Ledgers with another version are refused, and nothing is migrated.
pub const SCHEMA_VERSION: u32 = 1;

/// The application id in a database's header, which marks the database as a ledger. The bytes spell
/// "Prov".
pub(crate) const APPLICATION_ID: i32 = 0x5072_6f76;

/// The application id of ledgers from before the first release, which had versions of their own.
/// The bytes spell "PrvL".
pub(crate) const UNRELEASED_APPLICATION_ID: i32 = 0x5072_764c;

/// The statements that create the tables.
const TABLES: [&str; 4] = [
    include_str!("schema.sql"),
    include_str!("words.sql"),
    include_str!("imported.sql"),
    include_str!("lost.sql"),
];

/// Creates the tables of an empty database in one transaction. Existing tables are not changed.
pub(crate) fn create_tables(conn: &Connection) -> rusqlite::Result<()> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    if version(&tx)? > 0 {
        return Ok(());
    }
    for part in TABLES {
        tx.execute_batch(part)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    tx.commit()
}

/// Returns the version of the tables, or 0 if the database has none.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn application_id(conn: &Connection) -> rusqlite::Result<i32> {
    conn.pragma_query_value(None, "application_id", |row| row.get(0))
}
