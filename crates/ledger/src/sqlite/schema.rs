//! The tables and their migrations.

use rusqlite::{Connection, Transaction, TransactionBehavior};

/// The version of the tables that this program writes.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// The first version that stores accepted losses.
pub(crate) const WITH_LOSSES: u32 = 4;

/// Marks a database as a ledger in its header: "PrvL".
pub(crate) const APPLICATION_ID: i32 = 0x5072_764c;

/// Step `n` migrates version `n` to `n + 1`. Steps are only ever added.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("words.sql"),
    include_str!("imported.sql"),
    include_str!("lost.sql"),
];

/// Migrates the tables step by step, each in its own transaction.
pub(crate) fn migrate(conn: &Connection) -> rusqlite::Result<()> {
    while let Some(step) = MIGRATIONS.get(version(conn)? as usize) {
        let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
        let next = version(&tx)? + 1;
        tx.execute_batch(step)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", next)?;
        tx.commit()?;
    }
    Ok(())
}

/// The version of the tables; 0 in a database without any.
pub(crate) fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn application_id(conn: &Connection) -> rusqlite::Result<i32> {
    conn.pragma_query_value(None, "application_id", |row| row.get(0))
}
