//! Appending: one batch, one transaction.

use std::collections::HashMap;

use rusqlite::Connection;

use super::ledger::{Kinds, Point, SqliteLedger};
use super::rows::{self, Frame, Place, StreamRow};
use super::words;
use crate::{
    AppendError, ArchiveError, Archived, Batch, Committed, FoundBy, Ledger, NewEvent, Owed,
    Recorded, StreamId, StreamWrite,
};

impl Ledger for SqliteLedger {
    fn append(&mut self, batch: Batch) -> Result<Committed, AppendError> {
        batch.check()?;
        if let Some(why) = self.unwritable() {
            return Err(AppendError::ReadOnly { why });
        }
        self.reached(Point::AppendBegun);
        let staged = self.stage(&batch)?;
        self.reached(Point::AppendCommitted);
        for (kind, v) in staged.new_kinds {
            self.kinds.insert(kind, v);
        }
        self.heads.learn(&batch);
        self.last_seq = staged.seqs.last().copied().unwrap_or(self.last_seq);
        let records = into_records(batch, staged.seqs);
        if let Some(last) = records.last() {
            self.head.advance(last.as_ref());
        }
        Ok(Committed::new(self.last_seq, records))
    }

    fn archive(&mut self, streams: &[StreamId]) -> Result<Archived, ArchiveError> {
        self.archive_streams(streams)
    }
}

/// The single writer's cache of the streams it left open, to avoid reading them again.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    open: HashMap<StreamId, Head>,
}

#[derive(Debug)]
struct Head {
    version: u64,
    owed: Vec<Owed>,
    /// A digest of the stream's search terms, if they were written since.
    found_by: Option<u64>,
}

impl Heads {
    /// Clears the cache: the rows were changed other than by an append.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
    }

    fn place(&self, conn: &Connection, stream: &StreamId) -> rusqlite::Result<Option<Place>> {
        match self.open.get(stream) {
            Some(head) => Ok(Some(Place { version: head.version, open: true, archived: false })),
            None => rows::place(conn, stream),
        }
    }

    /// Replaces the stream's pending items by those of a write. It costs nothing if they are
    /// unchanged, which is usual.
    fn replace_owed(&self, conn: &Connection, write: &StreamWrite) -> rusqlite::Result<()> {
        match self.open.get(&write.stream) {
            Some(head) if head.owed == write.owed => Ok(()),
            Some(_) | None => rows::replace_owed(conn, &write.stream, &write.owed),
        }
    }

    /// Updates the index of a stream's search terms, if they changed.
    fn replace_words(&self, conn: &Connection, write: &StreamWrite) -> rusqlite::Result<()> {
        let found_by = match (&write.found_by, write.expected) {
            (Some(found_by), _) => found_by,
            // A stream can be found by its id from the start.
            (None, 0) => &FoundBy::default(),
            (None, _) => return Ok(()),
        };
        let known = self.open.get(&write.stream).and_then(|head| head.found_by);
        if known == Some(words::digest(found_by)) {
            return Ok(());
        }
        words::put_stream(conn, &write.stream, found_by)
    }

    /// Updates the cache from a batch that is now durable.
    fn learn(&mut self, batch: &Batch) {
        for write in &batch.writes {
            let version = write.expected + write.events.len() as u64;
            if write.open {
                let known = || self.open.get(&write.stream).and_then(|head| head.found_by);
                let found_by = write.found_by.as_ref().map(words::digest).or_else(known);
                let owed = write.owed.clone();
                self.open.insert(write.stream.clone(), Head { version, owed, found_by });
            } else {
                self.open.remove(&write.stream);
            }
        }
    }
}

/// The result of writing a batch.
#[derive(Default)]
struct Staged {
    seqs: Vec<u64>,
    new_kinds: Vec<(String, u16)>,
}

impl SqliteLedger {
    fn stage(&mut self, batch: &Batch) -> Result<Staged, AppendError> {
        let db = &self.reader.db;
        let tx = db.begin()?;
        let mut staged = Staged::default();
        let storage = |e| AppendError::Storage(db.error(e));
        refuse_duplicates(&tx, batch).map_err(storage)?.map_or(Ok(()), Err)?;
        for write in &batch.writes {
            let place = self.heads.place(&tx, &write.stream).map_err(storage)?;
            check_place(write, place.as_ref())?;
            staged.write(&tx, batch, write, place).map_err(storage)?;
            self.heads.replace_owed(&tx, write).map_err(storage)?;
            self.heads.replace_words(&tx, write).map_err(storage)?;
        }
        staged.kinds(&tx, batch, &self.kinds, &self.software).map_err(storage)?;
        for one in &batch.idempotency {
            rows::put_reply(&tx, &one.key, &one.reply).map_err(storage)?;
        }
        if let Some(probe) = &mut self.probe {
            probe(Point::AppendStaged);
        }
        tx.commit().map_err(storage)?;
        Ok(staged)
    }
}

impl Staged {
    fn write(
        &mut self,
        conn: &Connection,
        batch: &Batch,
        write: &StreamWrite,
        place: Option<Place>,
    ) -> rusqlite::Result<()> {
        let frame = Frame { stream: &write.stream, at: batch.at };
        let first = self.seqs.len();
        let version = write.expected + 1;
        rows::insert_events(conn, &frame, version, &write.events, |seq| self.seqs.push(seq))?;
        for (event, seq) in write.events.iter().zip(&self.seqs[first..]) {
            words::put_event(conn, *seq, write.stream.kind(), &event.words)?;
        }
        let row = StreamRow {
            stream: &write.stream,
            created_seq: self.seqs[first],
            version: write.expected + write.events.len() as u64,
            open: write.open,
            changed_ms: batch.at.wall_ms,
            card: write.card.as_deref(),
        };
        put_stream(conn, &row, place)?;
        match &write.snapshot {
            Some(snapshot) => rows::put_snapshot(conn, &write.stream, row.version, snapshot),
            None => Ok(()),
        }
    }

    /// Records the kinds of events that are new to the ledger.
    fn kinds(
        &mut self,
        conn: &Connection,
        batch: &Batch,
        seen: &Kinds,
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

fn refuse_duplicates(conn: &Connection, batch: &Batch) -> rusqlite::Result<Option<AppendError>> {
    for one in &batch.idempotency {
        if let Some(reply) = rows::reply(conn, &one.key)? {
            let key = one.key.clone();
            return Ok(Some(AppendError::Duplicate { key, reply }));
        }
    }
    Ok(None)
}

fn check_place(write: &StreamWrite, place: Option<&Place>) -> Result<(), AppendError> {
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
    place: Option<Place>,
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
fn into_records(batch: Batch, seqs: Vec<u64>) -> Vec<Recorded> {
    let mut records = Vec::with_capacity(seqs.len());
    let mut seqs = seqs.into_iter();
    for write in batch.writes {
        let numbered = (write.expected + 1..).zip(seqs.by_ref());
        for (event, (version, seq)) in write.events.into_iter().zip(numbered) {
            records.push(Recorded {
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
