//! Reads, which the writer and the readers share.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use rusqlite::{OptionalExtension, Params, Row, Rows, params};

use super::archive;
use super::db::{Db, HasDb, count, int, text};
use super::rows::{self, HEAD, RECORD, ReadRecord};
use crate::checksum::projection_checksum;
use crate::search_terms::NameQuery;
use crate::{
    Error, ListCursor, Lookup, PendingItem, ProjectionQuery, ProjectionRef, ReadLedger,
    RecordedEvent, RecordedEventRef, StoredSnapshot, StreamHead, StreamId, StreamState, TermQuery,
    VisitFlow,
};

impl<T: HasDb> ReadLedger for T {
    fn last_seq(&self) -> Result<u64, Error> {
        self.db().run(rows::last_seq)
    }

    fn read_stream(
        &self,
        stream: &StreamId,
        after_version: u64,
    ) -> Result<Vec<RecordedEvent>, Error> {
        let db = self.db();
        // Read the version before the events, so that it is not ahead of them.
        let position = db.run(|conn| rows::position(conn, stream))?;
        let mut records: Vec<_> = scan_stream(db, stream, after_version)?
            .records
            .into_iter()
            .collect::<Result<_, _>>()?;
        if records.is_empty() {
            records = archive::read(db, stream)?.unwrap_or_default();
            records.retain(|record| record.version > after_version);
        }
        check_complete(db, stream, position.map_or(0, |it| it.version), after_version, &records)?;
        Ok(records)
    }

    fn read_after(&self, seq: u64, limit: usize) -> Result<Vec<RecordedEvent>, Error> {
        let mut page = Vec::new();
        visit_records(self.db(), seq, limit as u64, &mut |record| {
            page.push(record.to_owned());
            VisitFlow::Continue(())
        })?;
        Ok(page)
    }

    fn for_each_record(
        &self,
        after: u64,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error> {
        visit_records(self.db(), after, u64::MAX, visit)
    }

    fn stored_reply(&self, key: &str) -> Result<Option<String>, Error> {
        self.db().run(|conn| rows::reply(conn, key))
    }

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamState>, Error> {
        self.db().run(|conn| {
            let sql =
                format!("SELECT {HEAD}, projection, projection_sum FROM stream WHERE id = ?1");
            let mut statement = conn.prepare_cached(&sql)?;
            statement.query_row([stream.as_str()], |row| state(self.db(), row)).optional()
        })
    }

    fn snapshot(&self, stream: &StreamId) -> Result<Option<StoredSnapshot>, Error> {
        self.db().run(|conn| rows::snapshot(conn, stream))
    }

    fn open_streams(&self) -> Result<Vec<StreamState>, Error> {
        self.db().run(|conn| {
            let sql = format!(
                "SELECT {HEAD}, projection, projection_sum FROM stream
                 WHERE id IN (SELECT id FROM stream WHERE open = 1 UNION SELECT stream FROM pending_items)
                 ORDER BY created_seq"
            );
            let mut statement = conn.prepare(&sql)?;
            let states = statement.query_map([], |row| state(self.db(), row))?;
            states.collect()
        })
    }

    fn due_timers(&self, mono_ms: u64) -> Result<Vec<(StreamId, PendingItem)>, Error> {
        self.db().run(|conn| {
            let mut statement = conn.prepare_cached(
                "SELECT stream, key, kind, due_mono_ms FROM pending_items
                 WHERE due_mono_ms <= ?1 ORDER BY due_mono_ms, stream, key",
            )?;
            let due = statement.query_map([int(mono_ms)], |row| {
                Ok((StreamId::stored(row.get(0)?), rows::pending_item(row, 1)?))
            })?;
            due.collect()
        })
    }

    fn list_projections(
        &self,
        query: ProjectionQuery<'_>,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<Option<ListCursor>, Error> {
        let mut left = query.limit as u64;
        if left == 0 {
            return Ok(query.after);
        }
        for half in query.halves() {
            let end = self
                .db()
                .run(|_| visit_projections(self.db(), query.kind, half, &mut left, visit))?;
            if end.is_some() {
                return Ok(end);
            }
        }
        Ok(None)
    }

    fn find_streams(
        &self,
        kind: &str,
        by: Lookup<'_>,
        limit: usize,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<bool, Error> {
        let found = match by {
            Lookup::Words(sought) => Some(format!("{{name words}} : ({})", sought.query())),
            Lookup::Parts(sought) => Some(format!("parts : ({})", sought.query())),
            Lookup::Name(text) => NameQuery::new(text).query(),
        };
        let Some(found) = found else { return Ok(true) };
        let query = format!("subject : \"{kind}\" AND {found}");
        self.db().run(|conn| {
            let sql = format!(
                "SELECT {HEAD}, projection, projection_sum FROM stream_words
                 CROSS JOIN stream ON stream.created_seq = stream_words.rowid
                 WHERE stream_words MATCH ?1 ORDER BY stream_words.rowid DESC LIMIT ?2"
            );
            let mut statement = conn.prepare_cached(&sql)?;
            let rows = statement.query(params![query, int(limit as u64)])?;
            until_break(rows, |row| Ok(visit(projection(row)?)))
        })?;
        Ok(true)
    }

    fn find_events(
        &self,
        kind: &str,
        sought: &TermQuery,
        limit: usize,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error> {
        let query = format!("subject : \"{kind}\" AND words : ({})", sought.query());
        let sql = format!(
            "SELECT {RECORD} FROM event_words CROSS JOIN event ON event.seq = event_words.rowid
             WHERE event_words MATCH ?1 ORDER BY event_words.rowid DESC LIMIT ?2"
        );
        visit_rows(self.db(), &sql, params![query, int(limit as u64)], visit)
    }

    fn is_imported(&self, stream: &StreamId) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT 1 FROM stream JOIN imported ON created_seq <= through WHERE id = ?1)";
        self.db()
            .run(|conn| conn.prepare_cached(sql)?.query_row([stream.as_str()], |row| row.get(0)))
    }

    fn seq_before(&self, wall_ms: i64) -> Result<u64, Error> {
        self.db().run(|conn| {
            let mut next = conn.prepare_cached(
                "SELECT seq, wall_ms FROM event WHERE seq >= ?1 ORDER BY seq LIMIT 1",
            )?;
            let last = rows::last_seq(conn)?;
            // The number to find is within low..=high. No event with this number or a later one is
            // older than the given time.
            let (mut low, mut high) = (1, last + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                let found = next
                    .query_row([int(middle)], |row| Ok((count(row, 0)?, row.get::<_, i64>(1)?)));
                match found.optional()? {
                    Some((seq, at)) if at < wall_ms => low = seq + 1,
                    Some(_) | None => high = middle,
                }
            }
            Ok(low - 1)
        })
    }

    fn stream_version_at(&self, stream: &StreamId, seq: u64) -> Result<u64, Error> {
        let found = self.db().run(|conn| rows::version_at(conn, stream, seq))?;
        if let Some(version) = found {
            return Ok(version);
        }
        let archived = archive::read(self.db(), stream)?.unwrap_or_default();
        Ok(archived.iter().filter(|record| record.seq <= seq).count() as u64)
    }

    fn for_each_stream(&self, visit: &mut dyn FnMut(StreamHead) -> VisitFlow) -> Result<(), Error> {
        self.db().run(|conn| {
            let mut statement =
                conn.prepare(&format!("SELECT {HEAD} FROM stream ORDER BY created_seq"))?;
            until_break(statement.query([])?, |row| Ok(visit(rows::head(row)?)))
        })
    }

    fn for_each_reply(&self, visit: &mut dyn FnMut(&str, &str) -> VisitFlow) -> Result<(), Error> {
        self.db().run(|conn| {
            let mut statement = conn.prepare("SELECT key, reply FROM idempotency ORDER BY key")?;
            until_break(statement.query([])?, |row| Ok(visit(text(row, 0)?, text(row, 1)?)))
        })
    }

    fn archivable(&self, before_wall_ms: i64, limit: usize) -> Result<Vec<StreamId>, Error> {
        self.db().run(|conn| {
            let mut statement = conn.prepare(
                "SELECT id FROM stream
                 WHERE open = 0 AND archive_file IS NULL AND changed_ms < ?1
                   AND NOT EXISTS (SELECT 1 FROM pending_items
                                   WHERE pending_items.stream = stream.id)
                 ORDER BY created_seq LIMIT ?2",
            )?;
            let ids = statement.query_map(params![before_wall_ms, int(limit as u64)], |row| {
                row.get(0).map(StreamId::stored)
            })?;
            ids.collect()
        })
    }

    fn read_consistent(&self, read: &mut dyn FnMut(&dyn ReadLedger)) -> Result<(), Error> {
        let db = self.db();
        // A read transaction can simply be dropped, because there is nothing to roll back.
        let _moment = db.conn.unchecked_transaction().map_err(|e| db.error(e))?;
        read(self);
        Ok(())
    }
}

/// Reads a stream's events in the log one by one, so that an unreadable event does not hide the others.
pub(crate) fn scan_stream(
    db: &Db,
    stream: &StreamId,
    after_version: u64,
) -> Result<ScannedStream, Error> {
    db.run(|conn| {
        let Some(position) = rows::position(conn, stream)? else {
            return Ok(ScannedStream { records: Vec::new(), linked: true });
        };
        let records = rows::linked_records(conn, stream, after_version)?;
        let wanted = position.version.saturating_sub(after_version);
        if position.archived || is_complete(&records, stream, after_version, wanted) {
            return Ok(ScannedStream { records, linked: true });
        }
        let records = rows::unlinked_records(conn, stream, after_version)?;
        Ok(ScannedStream { records, linked: false })
    })
}

/// The events of a stream, in the order of their versions.
pub(crate) struct ScannedStream {
    pub(crate) records: Vec<ReadRecord>,
    /// Whether the events were found by following their links.
    pub(crate) linked: bool,
}

/// Whether the records are all events of a stream after a version. A damaged event counts,
/// regardless of the stream to which it claims to belong.
fn is_complete(records: &[ReadRecord], stream: &StreamId, after: u64, wanted: u64) -> bool {
    let belongs = |(version, record): (u64, &ReadRecord)| match record {
        Ok(record) => record.stream == *stream && record.version == version,
        Err(_) => true,
    };
    records.len() as u64 >= wanted && (after + 1..).zip(records).all(belongs)
}

/// Checks that the events of a stream after one version have no gaps and reach another version.
fn check_complete(
    db: &Db,
    stream: &StreamId,
    version: u64,
    after: u64,
    records: &[RecordedEvent],
) -> Result<(), Error> {
    let gap = (after + 1..).zip(records).find(|(next, record)| record.version != *next);
    let missing = match gap {
        Some((next, _)) => next,
        None if after + (records.len() as u64) < version => after + records.len() as u64 + 1,
        None => return Ok(()),
    };
    Err(db.corrupt(format!("event {missing} of {stream} is missing")))
}

fn visit_records(
    db: &Db,
    after: u64,
    limit: u64,
    visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
) -> Result<(), Error> {
    let sql = format!("SELECT {RECORD} FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2");
    visit_rows(db, &sql, params![int(after), int(limit)], visit)
}

/// Visits the records of a query.
fn visit_rows(
    db: &Db,
    sql: &str,
    params: impl Params,
    visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
) -> Result<(), Error> {
    let mut fault = None;
    db.run(|conn| {
        let mut statement = conn.prepare_cached(sql)?;
        let rows = statement.query(params)?;
        until_break(rows, |row| match rows::record(row) {
            Ok(record) => Ok(visit(record)),
            Err(error) => {
                fault = Some(error);
                Ok(VisitFlow::Break(()))
            }
        })
    })?;
    fault.map_or(Ok(()), Err)
}

fn visit_projections(
    db: &Db,
    kind: &str,
    half: ListCursor,
    left: &mut u64,
    visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
) -> rusqlite::Result<Option<ListCursor>> {
    let sql = format!(
        "SELECT {HEAD}, projection, projection_sum FROM stream
         WHERE kind = ?1 AND open = ?2 AND created_seq < ?3 ORDER BY created_seq DESC LIMIT ?4"
    );
    let mut statement = db.conn.prepare_cached(&sql)?;
    let created = int(half.created_seq);
    let mut rows = statement.query(params![kind, half.open, created, int(*left)])?;
    while let Some(row) = rows.next()? {
        let projection = projection(row)?;
        let cursor = projection.cursor();
        *left -= 1;
        if visit(projection).is_break() || *left == 0 {
            return Ok(Some(cursor));
        }
    }
    Ok(None)
}

fn until_break(
    mut rows: Rows<'_>,
    mut visit: impl FnMut(&Row<'_>) -> rusqlite::Result<VisitFlow>,
) -> rusqlite::Result<()> {
    while let Some(row) = rows.next()? {
        if visit(row)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn state(db: &Db, row: &Row<'_>) -> rusqlite::Result<StreamState> {
    let head = rows::head(row)?;
    Ok(StreamState {
        pending: rows::pending_of(&db.conn, &head.stream)?,
        snapshot: rows::snapshot(&db.conn, &head.stream)?,
        projection: intact_projection(row, head.stream.as_str())?.map(Cow::into_owned),
        head,
    })
}

fn projection<'r>(row: &'r Row<'_>) -> rusqlite::Result<ProjectionRef<'r>> {
    Ok(ProjectionRef {
        stream: text(row, 0)?,
        version: count(row, 1)?,
        created_seq: count(row, 2)?,
        open: row.get(3)?,
        archived: row.get(4)?,
        projection: intact_projection(row, text(row, 0)?)?,
    })
}

/// Reads the projection of a stream. A damaged one is treated as missing, because it is only a
/// cache.
fn intact_projection<'r>(row: &'r Row<'_>, stream: &str) -> rusqlite::Result<Option<Cow<'r, str>>> {
    let ValueRef::Text(bytes) = row.get_ref(5)? else { return Ok(None) };
    let sum: Option<u32> = row.get(6).unwrap_or(None);
    let text = str::from_utf8(bytes).ok();
    let intact = text.filter(|text| sum == Some(projection_checksum(stream, text)));
    Ok(intact.map(Cow::Borrowed))
}
