//! Reads and writes individual rows. The callers manage the transactions.

use rusqlite::{Connection, OptionalExtension, Params, Result, Row, params};

use super::db::{count, int, lossy_text, text};
use crate::checksum::{checksum, projection_checksum};
use crate::{
    ClockReading, Error, NewEvent, PendingItem, RecordedEvent, RecordedEventRef, StoredSnapshot,
    StreamHead, StreamId, StreamSnapshot,
};

/// The columns that [`record`] reads, in this order.
pub(crate) const RECORD: &str = "seq, stream, version, kind, v, wall_ms, mono_ms, actor, data, sum";
/// The columns that [`head`] reads, in this order.
pub(crate) const HEAD: &str = "id, version, created_seq, open, archive_file IS NOT NULL";

/// The position of a stream, which an append needs.
pub(crate) struct StreamPosition {
    pub(crate) version: u64,
    /// The `seq` of the stream's last event.
    pub(crate) last_seq: u64,
    pub(crate) open: bool,
    pub(crate) archived: bool,
}

/// The row of a stream, with everything that is stored alongside its events.
pub(crate) struct StreamRow<'a> {
    pub(crate) stream: &'a StreamId,
    pub(crate) created_seq: u64,
    pub(crate) last_seq: u64,
    pub(crate) version: u64,
    pub(crate) open: bool,
    pub(crate) changed_ms: i64,
    pub(crate) projection: Option<&'a str>,
}

/// The fields that all events of one write share, and the position at which the events are added.
pub(crate) struct EventFrame<'a> {
    pub(crate) stream: &'a StreamId,
    pub(crate) at: ClockReading,
    /// The `seq` of the stream's last event so far, or 0.
    pub(crate) prev: u64,
    pub(crate) first_version: u64,
    pub(crate) first_seq: u64,
}

pub(crate) fn position(conn: &Connection, stream: &StreamId) -> Result<Option<StreamPosition>> {
    conn.prepare_cached(
        "SELECT version, last_seq, open, archive_file IS NOT NULL FROM stream WHERE id = ?1",
    )?
    .query_row([stream.as_str()], |row| {
        Ok(StreamPosition {
            version: count(row, 0)?,
            last_seq: count(row, 1)?,
            open: row.get(2)?,
            archived: row.get(3)?,
        })
    })
    .optional()
}

/// Inserts the events of one write.
pub(crate) fn insert_events(
    conn: &Connection,
    frame: &EventFrame<'_>,
    events: &[NewEvent],
) -> Result<()> {
    let mut prev = frame.prev;
    let numbered = (frame.first_version..).zip(frame.first_seq..).zip(events);
    for ((version, seq), event) in numbered {
        let record = RecordedEventRef {
            seq,
            stream: frame.stream.as_str(),
            version,
            kind: &event.kind,
            v: event.v,
            at: frame.at,
            actor: &event.actor,
            data: &event.data,
        };
        insert_record(conn, record, prev)?;
        prev = seq;
    }
    Ok(())
}

/// Inserts a record with its checksum. `prev` is the `seq` of the stream's previous event, or 0.
pub(crate) fn insert_record(
    conn: &Connection,
    record: RecordedEventRef<'_>,
    prev: u64,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO event (seq, stream, version, kind, v, wall_ms, mono_ms, actor, data, sum, prev)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        int(record.seq),
        record.stream,
        int(record.version),
        record.kind,
        record.v,
        record.at.wall_ms,
        int(record.at.mono_ms),
        record.actor,
        record.data,
        checksum(record),
        int(prev),
    ])
    .map(drop)
}

pub(crate) fn insert_stream(conn: &Connection, row: &StreamRow<'_>) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO stream (id, kind, created_seq, last_seq, version, open, changed_ms, projection, projection_sum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        row.stream.as_str(),
        row.stream.kind(),
        int(row.created_seq),
        int(row.last_seq),
        int(row.version),
        row.open,
        row.changed_ms,
        row.projection,
        projection_sum(row.stream, row.projection),
    ])
    .map(drop)
}

pub(crate) fn update_stream(conn: &Connection, row: &StreamRow<'_>) -> Result<()> {
    conn.prepare_cached(
        "UPDATE stream SET last_seq = ?2, version = ?3, changed_ms = ?4, projection = ?5, projection_sum = ?6
         WHERE id = ?1",
    )?
    .execute(params![
        row.stream.as_str(),
        int(row.last_seq),
        int(row.version),
        row.changed_ms,
        row.projection,
        projection_sum(row.stream, row.projection),
    ])
    .map(drop)
}

/// Opens or closes a stream. This is separate from [`update_stream`], because it moves the stream
/// within the indexes.
pub(crate) fn set_open(conn: &Connection, stream: &StreamId, open: bool) -> Result<()> {
    conn.prepare_cached("UPDATE stream SET open = ?2 WHERE id = ?1")?
        .execute(params![stream.as_str(), open])
        .map(drop)
}

pub(crate) fn set_projection(
    conn: &Connection,
    stream: &StreamId,
    projection: Option<&str>,
) -> Result<()> {
    conn.prepare_cached("UPDATE stream SET projection = ?2, projection_sum = ?3 WHERE id = ?1")?
        .execute(params![stream.as_str(), projection, projection_sum(stream, projection)])
        .map(drop)
}

fn projection_sum(stream: &StreamId, projection: Option<&str>) -> Option<u32> {
    projection.map(|text| projection_checksum(stream.as_str(), text))
}

/// Replaces all pending items of a stream. This costs only one read in the usual case, in which the
/// items are unchanged.
pub(crate) fn replace_pending(
    conn: &Connection,
    stream: &StreamId,
    pending: &[PendingItem],
) -> Result<()> {
    let mut wanted: Vec<&PendingItem> = pending.iter().collect();
    wanted.sort();
    if pending_of(conn, stream)?.iter().eq(wanted) {
        return Ok(());
    }
    conn.prepare_cached("DELETE FROM pending_items WHERE stream = ?1")?
        .execute([stream.as_str()])?;
    let mut statement = conn.prepare_cached(
        "INSERT INTO pending_items (stream, key, kind, due_mono_ms) VALUES (?1, ?2, ?3, ?4)",
    )?;
    for one in pending {
        let due = one.due_mono_ms.map(int);
        statement.execute(params![stream.as_str(), one.key, one.kind, due])?;
    }
    Ok(())
}

pub(crate) fn pending_of(conn: &Connection, stream: &StreamId) -> Result<Vec<PendingItem>> {
    let mut statement = conn.prepare_cached(
        "SELECT key, kind, due_mono_ms FROM pending_items WHERE stream = ?1 ORDER BY key",
    )?;
    statement.query_map([stream.as_str()], |row| pending_item(row, 0))?.collect()
}

/// Reads a pending item. Its key, kind and due time start at the given column.
pub(crate) fn pending_item(row: &Row<'_>, from: usize) -> Result<PendingItem> {
    let due: Option<i64> = row.get(from + 2)?;
    Ok(PendingItem {
        key: row.get(from)?,
        kind: row.get(from + 1)?,
        due_mono_ms: due.map(i64::unsigned_abs),
    })
}

pub(crate) fn put_snapshot(
    conn: &Connection,
    stream: &StreamId,
    version: u64,
    snapshot: &StreamSnapshot,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO snapshot (stream, version, fold_version, data)
         VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![stream.as_str(), int(version), snapshot.fold_version, snapshot.data])
    .map(drop)
}

pub(crate) fn drop_snapshot(conn: &Connection, stream: &StreamId) -> Result<()> {
    conn.prepare_cached("DELETE FROM snapshot WHERE stream = ?1")?
        .execute([stream.as_str()])
        .map(drop)
}

/// Reads a stream's snapshot. A snapshot is a cache, so an unreadable one is treated as missing.
pub(crate) fn snapshot(conn: &Connection, stream: &StreamId) -> Result<Option<StoredSnapshot>> {
    conn.prepare_cached("SELECT version, fold_version, data FROM snapshot WHERE stream = ?1")?
        .query_row([stream.as_str()], |row| Ok(stored_snapshot(row).ok()))
        .optional()
        .map(Option::flatten)
}

fn stored_snapshot(row: &Row<'_>) -> Result<StoredSnapshot> {
    Ok(StoredSnapshot {
        version: count(row, 0)?,
        snapshot: StreamSnapshot { fold_version: row.get(1)?, data: row.get(2)? },
    })
}

pub(crate) fn put_reply(conn: &Connection, key: &str, reply: &str) -> Result<()> {
    conn.prepare_cached("INSERT INTO idempotency (key, reply) VALUES (?1, ?2)")?
        .execute([key, reply])
        .map(drop)
}

pub(crate) fn reply(conn: &Connection, key: &str) -> Result<Option<String>> {
    conn.prepare_cached("SELECT reply FROM idempotency WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()
}

pub(crate) fn put_kind(conn: &Connection, kind: &str, v: u16, software: &str) -> Result<()> {
    conn.prepare_cached("INSERT OR IGNORE INTO kind (kind, v, software) VALUES (?1, ?2, ?3)")?
        .execute(params![kind, v, software])
        .map(drop)
}

pub(crate) fn kinds(conn: &Connection) -> Result<Vec<(String, u16, String)>> {
    conn.prepare_cached("SELECT kind, v, software FROM kind ORDER BY kind, v")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect()
}

/// Whether a query returns any row.
pub(crate) fn exists(conn: &Connection, sql: &str, params: impl Params) -> Result<bool> {
    conn.prepare_cached(sql)?.exists(params)
}

/// Visits the record with this `seq`, if it is still in the log and intact.
pub(crate) fn record_at<T>(
    conn: &Connection,
    seq: u64,
    visit: impl FnOnce(RecordedEventRef<'_>) -> T,
) -> Result<Option<T>> {
    conn.prepare_cached(&format!("SELECT {RECORD} FROM event WHERE seq = ?1"))?
        .query_row([int(seq)], |row| Ok(record(row).ok().map(visit)))
        .optional()
        .map(Option::flatten)
}

/// Follows the links of a stream's events, and returns the events after a version. The result may
/// be incomplete if the log is damaged.
pub(crate) fn linked_records(
    conn: &Connection,
    stream: &StreamId,
    after_version: u64,
) -> Result<Vec<ReadRecord>> {
    // Only links to earlier events are followed, so that damaged links cannot form a cycle.
    let sql = format!(
        "WITH RECURSIVE link (at) AS (
           SELECT last_seq FROM stream WHERE id = ?1 AND version > ?2
           UNION ALL
           SELECT prev FROM link CROSS JOIN event ON seq = at WHERE version > ?2 + 1 AND prev < seq
         )
         SELECT {RECORD} FROM link CROSS JOIN event ON seq = at"
    );
    let mut records = read_records(conn, &sql, stream, after_version)?;
    records.reverse();
    for record in &mut records {
        // A damaged record may claim to belong to another stream, but the link proves otherwise.
        if let Err(Error::Unreadable { stream: claimed, .. }) = record {
            *claimed = stream.to_string();
        }
    }
    Ok(records)
}

/// Returns the events of a stream after a version by reading the whole log, for a log whose links
/// are damaged.
pub(crate) fn unlinked_records(
    conn: &Connection,
    stream: &StreamId,
    after_version: u64,
) -> Result<Vec<ReadRecord>> {
    let sql =
        format!("SELECT {RECORD} FROM event WHERE stream = ?1 AND version > ?2 ORDER BY version");
    read_records(conn, &sql, stream, after_version)
}

/// A record, or the reason why it cannot be read.
pub(crate) type ReadRecord = std::result::Result<RecordedEvent, Error>;

fn read_records(
    conn: &Connection,
    sql: &str,
    stream: &StreamId,
    after_version: u64,
) -> Result<Vec<ReadRecord>> {
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![stream.as_str(), int(after_version)])?;
    let mut records = Vec::new();
    while let Some(row) = rows.next()? {
        records.push(record(row).map(RecordedEventRef::to_owned));
    }
    Ok(records)
}

/// Returns the version of a stream after a `seq`, if an event of the stream up to this `seq` is
/// still in the log.
pub(crate) fn version_at(conn: &Connection, stream: &StreamId, seq: u64) -> Result<Option<u64>> {
    conn.prepare_cached(
        "WITH RECURSIVE link (at) AS (
           SELECT last_seq FROM stream WHERE id = ?1
           UNION ALL
           SELECT prev FROM link CROSS JOIN event ON seq = at WHERE at > ?2 AND prev < seq
         )
         SELECT version FROM link CROSS JOIN event ON seq = at WHERE at <= ?2",
    )?
    .query_row(params![stream.as_str(), int(seq)], |row| count(row, 0))
    .optional()
}

/// Returns the newest intact record that is still in the log.
pub(crate) fn newest_record(conn: &Connection) -> Result<Option<RecordedEvent>> {
    let mut statement = conn.prepare(&format!("SELECT {RECORD} FROM event ORDER BY seq DESC"))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if let Ok(record) = record(row) {
            return Ok(Some(record.to_owned()));
        }
    }
    Ok(None)
}

/// Returns the highest `seq` ever assigned.
pub(crate) fn last_seq(conn: &Connection) -> Result<u64> {
    conn.prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'event'")?
        .query_row([], |row| count(row, 0))
        .optional()
        .map(|seq| seq.unwrap_or(0))
}

/// Sets the sequence counter.
pub(crate) fn set_last_seq(conn: &Connection, seq: u64) -> Result<()> {
    conn.execute("DELETE FROM sqlite_sequence WHERE name = 'event'", [])?;
    conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('event', ?1)", [int(seq)])
        .map(drop)
}

/// Returns the highest `seq` that is still in the log.
pub(crate) fn highest_seq(conn: &Connection) -> Result<u64> {
    conn.query_row("SELECT ifnull(max(seq), 0) FROM event", [], |row| count(row, 0))
}

pub(crate) fn head(row: &Row<'_>) -> Result<StreamHead> {
    Ok(StreamHead {
        stream: StreamId::stored(row.get(0)?),
        version: count(row, 1)?,
        created_seq: count(row, 2)?,
        open: row.get(3)?,
        archived: row.get(4)?,
    })
}

/// Reads an event without copying it, and verifies its checksum.
pub(crate) fn record<'r>(row: &'r Row<'_>) -> std::result::Result<RecordedEventRef<'r>, Error> {
    let damaged = |what: String| Error::Unreadable {
        seq: count(row, 0).unwrap_or(0),
        stream: lossy_text(row, 1).unwrap_or_default(),
        version: count(row, 2).unwrap_or(0),
        what,
    };
    let (record, sum) = unverified(row).map_err(|why| damaged(why.to_string()))?;
    if checksum(record) == sum {
        return Ok(record);
    }
    Err(damaged(format!(
        "it was changed on disk: its checksum is wrong; its kind is `{}`",
        record.kind
    )))
}

fn unverified<'r>(row: &'r Row<'_>) -> Result<(RecordedEventRef<'r>, u32)> {
    let record = RecordedEventRef {
        seq: count(row, 0)?,
        stream: text(row, 1)?,
        version: count(row, 2)?,
        kind: text(row, 3)?,
        v: row.get(4)?,
        at: ClockReading { wall_ms: row.get(5)?, mono_ms: count(row, 6)? },
        actor: text(row, 7)?,
        data: text(row, 8)?,
    };
    Ok((record, row.get(9)?))
}
