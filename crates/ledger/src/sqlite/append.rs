//! Appends batches, each in a single transaction.

use std::collections::HashMap;

use rusqlite::Connection;

use super::fts;
use super::ledger::{EventKinds, SqliteLedger, StoragePoint};
use super::rows::{self, EventFrame, StreamPosition, StreamRow};
use crate::{
    AppendError, ArchiveError, ArchiveResult, CommittedBatch, Ledger, NewEvent, PendingItem,
    RecordedEvent, SearchTerms, StreamId, StreamWrite, WriteBatch,
};

impl Ledger for SqliteLedger {
    fn append(&mut self, batch: WriteBatch) -> Result<CommittedBatch, AppendError> {
        batch.check()?;
        if let Some(why) = self.read_only_text() {
            return Err(AppendError::ReadOnly { why });
        }
        self.reached(StoragePoint::AppendBegun);
        let staged = self.stage(&batch)?;
        self.reached(StoragePoint::AppendCommitted);
        for (kind, v) in staged.new_kinds {
            self.kinds.insert(kind, v);
        }
        self.open_streams.update(&batch, self.last_seq);
        let records = into_records(batch, self.last_seq + 1);
        self.last_seq = staged.last_seq;
        if let Some(last) = records.last() {
            self.high_water.advance(last.as_ref());
        }
        Ok(CommittedBatch::new(self.last_seq, records))
    }

    fn archive(&mut self, streams: &[StreamId]) -> Result<ArchiveResult, ArchiveError> {
        self.archive_streams(streams)
    }
}

/// A cache of the open streams, so that the single writer does not have to read them again.
#[derive(Debug, Default)]
pub(crate) struct OpenStreamCache {
    open: HashMap<StreamId, CachedStream>,
}

#[derive(Debug)]
struct CachedStream {
    version: u64,
    last_seq: u64,
    pending: Vec<PendingItem>,
    /// A digest of the stream's search terms, if they have been written since the stream was
    /// cached.
    terms_digest: Option<u64>,
}

impl OpenStreamCache {
    /// Clears the cache. Must be called after rows were changed by an operation other than an
    /// append.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    fn position(
        &self,
        conn: &Connection,
        stream: &StreamId,
    ) -> rusqlite::Result<Option<StreamPosition>> {
        match self.open.get(stream) {
            Some(CachedStream { version, last_seq, .. }) => {
                let (version, last_seq) = (*version, *last_seq);
                Ok(Some(StreamPosition { version, last_seq, open: true, archived: false }))
            }
            None => rows::position(conn, stream),
        }
    }

    /// Replaces the stream's pending items with those of a write. This costs nothing in the usual
    /// case, in which the items are unchanged.
    fn replace_pending(&self, conn: &Connection, write: &StreamWrite) -> rusqlite::Result<()> {
        match self.open.get(&write.stream) {
            Some(head) if head.pending == write.pending => Ok(()),
            Some(_) | None => rows::replace_pending(conn, &write.stream, &write.pending),
        }
    }

    /// Updates the index of a stream's search terms, if they have changed.
    fn replace_terms(&self, conn: &Connection, write: &StreamWrite) -> rusqlite::Result<()> {
        let found_by = match (&write.search_terms, write.expected) {
            (Some(found_by), _) => found_by,
            // A new stream without search terms is indexed too, so that it can be found by its id.
            (None, 0) => &SearchTerms::default(),
            (None, _) => return Ok(()),
        };
        let known = self.open.get(&write.stream).and_then(|head| head.terms_digest);
        if known == Some(fts::digest(found_by)) {
            return Ok(());
        }
        fts::put_stream(conn, &write.stream, found_by)
    }

    /// Updates the cache from a batch that is now durable. `last_seq` is the last number before the
    /// batch.
    fn update(&mut self, batch: &WriteBatch, mut last_seq: u64) {
        for write in &batch.writes {
            let version = write.expected + write.events.len() as u64;
            last_seq += write.events.len() as u64;
            if write.open {
                let known = || self.open.get(&write.stream).and_then(|head| head.terms_digest);
                let found_by = write.search_terms.as_ref().map(fts::digest).or_else(known);
                let pending = write.pending.clone();
                self.open.insert(
                    write.stream.clone(),
                    CachedStream { version, last_seq, pending, terms_digest: found_by },
                );
            } else {
                self.open.remove(&write.stream);
            }
        }
    }
}

/// The result of writing a batch.
#[derive(Default)]
struct StagedBatch {
    /// The last number in use.
    last_seq: u64,
    new_kinds: Vec<(String, u16)>,
}

impl SqliteLedger {
    fn stage(&mut self, batch: &WriteBatch) -> Result<StagedBatch, AppendError> {
        let db = &self.reader.db;
        let tx = db.begin()?;
        let mut staged = StagedBatch { last_seq: self.last_seq, ..StagedBatch::default() };
        let storage = |e| AppendError::Storage(db.error(e));
        refuse_duplicates(&tx, batch).map_err(storage)?.map_or(Ok(()), Err)?;
        for write in &batch.writes {
            let place = self.open_streams.position(&tx, &write.stream).map_err(storage)?;
            check_position(write, place.as_ref())?;
            staged.write(&tx, batch, write, place).map_err(storage)?;
            self.open_streams.replace_pending(&tx, write).map_err(storage)?;
            self.open_streams.replace_terms(&tx, write).map_err(storage)?;
        }
        staged.kinds(&tx, batch, &self.kinds, &self.software).map_err(storage)?;
        for one in &batch.idempotency {
            rows::put_reply(&tx, &one.key, &one.reply).map_err(storage)?;
        }
        if let Some(probe) = &mut self.probe {
            probe(StoragePoint::AppendStaged);
        }
        tx.commit().map_err(storage)?;
        Ok(staged)
    }
}

impl StagedBatch {
    fn write(
        &mut self,
        conn: &Connection,
        batch: &WriteBatch,
        write: &StreamWrite,
        place: Option<StreamPosition>,
    ) -> rusqlite::Result<()> {
        let first = self.last_seq + 1;
        let frame = EventFrame {
            stream: &write.stream,
            at: batch.at,
            prev: place.as_ref().map_or(0, |place| place.last_seq),
            first_version: write.expected + 1,
            first_seq: first,
        };
        rows::insert_events(conn, &frame, &write.events)?;
        for (seq, event) in (first..).zip(&write.events) {
            fts::put_event(conn, seq, write.stream.kind(), &event.search_terms)?;
        }
        self.last_seq += write.events.len() as u64;
        let row = StreamRow {
            stream: &write.stream,
            created_seq: first,
            last_seq: self.last_seq,
            version: write.expected + write.events.len() as u64,
            open: write.open,
            changed_ms: batch.at.wall_ms,
            projection: write.projection.as_deref(),
        };
        put_stream(conn, &row, place)?;
        match &write.snapshot {
            Some(snapshot) => rows::put_snapshot(conn, &write.stream, row.version, snapshot),
            None => Ok(()),
        }
    }

    /// Records the kinds of events that are new to this ledger.
    fn kinds(
        &mut self,
        conn: &Connection,
        batch: &WriteBatch,
        seen: &EventKinds,
        software: &str,
    ) -> rusqlite::Result<()> {
        let events = batch.writes.iter().flat_map(|w| &w.events);
        for NewEvent { kind, v, .. } in events.filter(|e| !seen.contains(&e.kind, e.v)) {
            rows::put_kind(conn, kind, *v, software)?;
            self.new_kinds.push((kind.clone(), *v));
        }
        Ok(())
    }
}

fn refuse_duplicates(
    conn: &Connection,
    batch: &WriteBatch,
) -> rusqlite::Result<Option<AppendError>> {
    for one in &batch.idempotency {
        if let Some(reply) = rows::reply(conn, &one.key)? {
            let key = one.key.clone();
            return Ok(Some(AppendError::Duplicate { key, reply }));
        }
    }
    Ok(None)
}

fn check_position(write: &StreamWrite, place: Option<&StreamPosition>) -> Result<(), AppendError> {
    let stream = || write.stream.clone();
    if place.is_some_and(|p| p.archived) {
        return Err(AppendError::Archived { stream: stream() });
    }
    let found = place.map_or(0, |p| p.version);
    if found == write.expected {
        return Ok(());
    }
    Err(AppendError::Conflict { stream: stream(), expected: write.expected, found })
}

fn put_stream(
    conn: &Connection,
    row: &StreamRow<'_>,
    place: Option<StreamPosition>,
) -> rusqlite::Result<()> {
    let Some(place) = place else {
        return rows::insert_stream(conn, row);
    };
    rows::update_stream(conn, row)?;
    if place.open != row.open {
        rows::set_open(conn, row.stream, row.open)?;
    }
    Ok(())
}

/// Converts a batch into records without copying the events.
fn into_records(batch: WriteBatch, first_seq: u64) -> Vec<RecordedEvent> {
    let mut records = Vec::with_capacity(batch.writes.iter().map(|w| w.events.len()).sum());
    let mut seqs = first_seq..;
    for write in batch.writes {
        let numbered = (write.expected + 1..).zip(seqs.by_ref());
        for (event, (version, seq)) in write.events.into_iter().zip(numbered) {
            records.push(RecordedEvent {
                seq,
                stream: write.stream.clone(),
                version,
                kind: event.kind,
                v: event.v,
                at: batch.at,
                actor: event.actor,
                data: event.data,
            });
        }
    }
    records
}
