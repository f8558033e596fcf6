//! Imports an export into an empty ledger, and rebuilds its caches.

use std::io::BufRead;

use rusqlite::{Connection, params};

use super::db::{Db, int};
use super::fts;
use super::high_water::HighWaterMark;
use super::ledger::SqliteLedger;
use super::rows::{self, StreamRow};
use crate::batch::json_error;
use crate::export::FORMAT;
use crate::lines::{
    Error as LineError, ExportHeader, ExportLine, ExportTrailer, FORMAT_VERSION, LineReader,
};
use crate::{
    CloseFn, FoldFn, FoldedStream, KnownKinds, MAX_EVENT_BYTES, NewEvent, OpenStreamPolicy,
    ReadLedger, RecordedEvent, StreamId,
};

/// The counts of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportCounts {
    pub streams: u64,
    pub records: u64,
    pub replies: u64,
    /// The number of streams from another home that were closed.
    pub closed: u64,
}

/// The reason why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("an export can only be imported into an empty ledger, but this one has records")]
    NotEmpty,
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("{stream} cannot be folded: {why}")]
    Fold { stream: StreamId, why: String },
    #[error(transparent)]
    Storage(#[from] crate::Error),
}

impl SqliteLedger {
    /// Imports an entire export, or nothing.
    pub fn import(
        &mut self,
        input: &mut dyn BufRead,
        known: KnownKinds<'_>,
        fold: FoldFn<'_>,
        open: OpenStreamPolicy<'_>,
    ) -> Result<ImportCounts, Error> {
        self.open_streams.clear();
        let db = &self.reader.db;
        let tx = db.begin()?;
        check_empty(db)?;
        if self.reader.loss.is_some() {
            return Err(Error::NotEmpty);
        }
        let mut import = ImportRun {
            db,
            lines: LineReader::new(input),
            known,
            fold,
            close: None,
            closed: 0,
            stream: Vec::new(),
            last_seq: 0,
            counts: ExportTrailer::default(),
        };
        let header = import.header()?;
        import.last_seq = header.last_seq;
        import.close = match open {
            OpenStreamPolicy::KeepOpen => None,
            OpenStreamPolicy::CloseForeign { home, close } => {
                let own = home.is_some() && header.home.as_deref() == home;
                (!own).then_some(close)
            }
        };
        let foreign = import.close.is_some();
        import.body(header.last_seq)?;
        let (counts, closed, last_seq) = (import.counts, import.closed, import.last_seq);
        db.run(|conn| finish(conn, last_seq, &self.software))?;
        if foreign {
            let mark = "INSERT INTO imported (through) VALUES (?1)";
            db.run(|conn| conn.execute(mark, [int(last_seq)]).map(drop))?;
        }
        tx.commit().map_err(|e| db.error(e))?;
        self.last_seq = last_seq;
        for (kind, v, _) in db.run(rows::kinds)? {
            self.kinds.insert(kind, v);
        }
        self.high_water.write(&HighWaterMark::of_log(db, last_seq)?);
        let ExportTrailer { streams, records, replies } = counts;
        Ok(ImportCounts { streams, records, replies, closed })
    }

    /// Rebuilds the caches of all streams from their events. Returns the streams that could not be folded.
    pub fn rebuild(&mut self, fold: FoldFn<'_>) -> Result<Vec<(StreamId, String)>, crate::Error> {
        self.open_streams.clear();
        let mut heads = Vec::new();
        self.for_each_stream(&mut |head| {
            heads.push(head);
            crate::VisitFlow::Continue(())
        })?;
        let db = &self.reader.db;
        let tx = db.begin()?;
        let mut failed = Vec::new();
        for head in heads {
            let stream = head.stream;
            let records = self.reader.read_stream(&stream, 0);
            let folded =
                records.map_err(|e| e.to_string()).and_then(|records| fold(&stream, &records));
            match folded {
                Ok(folded) => db.run(|conn| {
                    put_caches(conn, &stream, head.version, &folded)?;
                    fts::put_stream(conn, &stream, &folded.search_terms)
                })?,
                Err(why) => failed.push((stream, why)),
            }
        }
        tx.commit().map_err(|e| db.error(e))?;
        Ok(failed)
    }
}

struct ImportRun<'a> {
    db: &'a Db,
    lines: LineReader<&'a mut dyn BufRead>,
    known: KnownKinds<'a>,
    fold: FoldFn<'a>,
    /// Closes streams that belong to another home.
    close: Option<CloseFn<'a>>,
    closed: u64,
    /// The last number in use. Closing events get numbers after all exported ones.
    last_seq: u64,
    /// The records of the current stream that have been read so far.
    stream: Vec<RecordedEvent>,
    counts: ExportTrailer,
}

impl ImportRun<'_> {
    fn header(&mut self) -> Result<ExportHeader, LineError> {
        let text = self.lines.next_text()?;
        let header: ExportHeader = serde_json::from_str(text.unwrap_or_default())
            .map_err(|_| self.lines.content_error("this is not the header of an export"))?;
        if header.format != FORMAT {
            return Err(self.lines.content_error("this is not the header of an export"));
        }
        if header.version != FORMAT_VERSION {
            let what = format!(
                "the export has format {}, but this program reads {FORMAT_VERSION}",
                header.version
            );
            return Err(self.lines.content_error(what));
        }
        match i64::try_from(header.last_seq) {
            Ok(_) => Ok(header),
            Err(_) => Err(self.lines.content_error("the last sequence number is too large")),
        }
    }

    fn body(&mut self, last_seq: u64) -> Result<(), Error> {
        loop {
            match self.lines.next_line()? {
                ExportLine::Record(line) => {
                    let record = line.into_recorded();
                    let record = record.map_err(|e| self.lines.content_error(e))?;
                    self.record(record, last_seq)?;
                }
                ExportLine::Reply(line) => {
                    let (key, reply) = (line.key.into_owned(), line.reply.get().to_owned());
                    self.end_stream()?;
                    self.insert(|conn| rows::put_reply(conn, &key, &reply))?;
                    self.counts.replies += 1;
                }
                ExportLine::End(end) => {
                    self.end_stream()?;
                    return Ok(self.trailer(end)?);
                }
            }
        }
    }

    fn record(&mut self, record: RecordedEvent, last_seq: u64) -> Result<(), Error> {
        if self.stream.last().is_some_and(|last| last.stream != record.stream) {
            self.end_stream()?;
        }
        if let Some(what) = self.fault(&record, last_seq) {
            return Err(self.lines.content_error(what).into());
        }
        let prev = self.stream.last().map_or(0, |last| last.seq);
        self.insert(|conn| rows::insert_record(conn, record.as_ref(), prev))?;
        self.counts.records += 1;
        self.stream.push(record);
        Ok(())
    }

    /// Returns the fault of a record whose checksum is correct, if it has one.
    fn fault(&self, record: &RecordedEvent, last_seq: u64) -> Option<String> {
        let last = self.stream.last();
        let next = last.map_or(1, |last| last.version + 1);
        let RecordedEvent { seq, version, .. } = record;
        if *version != next {
            return Some(format!("found version {version} of {}, expected {next}", record.stream));
        }
        if *seq > last_seq || *seq <= last.map_or(0, |last| last.seq) {
            return Some(format!("sequence number {seq} is out of order"));
        }
        if i64::try_from(record.at.mono_ms).is_err() {
            return Some("the monotonic time is too large".to_owned());
        }
        if record.data.len() > MAX_EVENT_BYTES {
            return Some(format!("the event is larger than {MAX_EVENT_BYTES} bytes"));
        }
        if !(self.known)(&record.kind, record.v) {
            let (kind, v) = (&record.kind, record.v);
            return Some(format!("this program does not know `{kind}` version {v}"));
        }
        json_error(&record.data)
    }

    /// Folds the stream that was read and stores the result.
    fn end_stream(&mut self) -> Result<(), Error> {
        let mut records = std::mem::take(&mut self.stream);
        self.close_stream(&mut records)?;
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Ok(());
        };
        let stream = &first.stream;
        let folded = (self.fold)(stream, &records)
            .map_err(|why| Error::Fold { stream: stream.clone(), why })?;
        self.insert(|conn| {
            rows::insert_stream(
                conn,
                &StreamRow {
                    stream,
                    created_seq: first.seq,
                    last_seq: last.seq,
                    version: last.version,
                    open: folded.open,
                    changed_ms: last.at.wall_ms,
                    projection: folded.projection.as_deref(),
                },
            )?;
            put_caches(conn, stream, last.version, &folded)?;
            fts::put_stream(conn, stream, &folded.search_terms)?;
            let mut each = records.iter().zip(&folded.event_terms);
            each.try_for_each(|(record, words)| {
                fts::put_event(conn, record.seq, stream.kind(), words)
            })
        })?;
        self.counts.streams += 1;
        Ok(())
    }

    /// Adds the events that close a stream from another home.
    fn close_stream(&mut self, records: &mut Vec<RecordedEvent>) -> Result<(), Error> {
        let (Some(close), Some(last)) = (&mut self.close, records.last()) else { return Ok(()) };
        let (stream, version) = (last.stream.clone(), last.version);
        let events =
            close(&stream, records).map_err(|why| Error::Fold { stream: stream.clone(), why })?;
        self.closed += u64::from(!events.is_empty());
        for ((at, event), version) in events.into_iter().zip(version + 1..) {
            self.last_seq += 1;
            let NewEvent { kind, v, actor, data, search_terms: _ } = event;
            let (seq, stream) = (self.last_seq, stream.clone());
            let record = RecordedEvent { seq, stream, version, kind, v, at, actor, data };
            let prev = records.last().map_or(0, |last| last.seq);
            self.insert(|conn| rows::insert_record(conn, record.as_ref(), prev))?;
            records.push(record);
        }
        Ok(())
    }

    fn trailer(&mut self, end: ExportTrailer) -> Result<(), LineError> {
        if end != self.counts {
            return Err(self
                .lines
                .content_error("the counts at the end do not match the lines of the export"));
        }
        match self.lines.next_text()? {
            None => Ok(()),
            Some(_) => Err(self.lines.content_error("the export has data after its end")),
        }
    }

    /// Inserts rows. A constraint violation is reported as a fault in the line.
    fn insert(
        &self,
        statements: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        statements(&self.db.conn).map_err(|e| match e.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => {
                self.lines.content_error("the sequence number, stream or key occurs twice").into()
            }
            _ => Error::Storage(self.db.error(e)),
        })
    }
}

fn check_empty(db: &Db) -> Result<(), Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM stream) OR EXISTS (SELECT 1 FROM idempotency)";
    let used = db.run(|conn| conn.query_row(sql, [], |row| row.get::<_, bool>(0)))?;
    if used || db.run(rows::last_seq)? > 0 {
        return Err(Error::NotEmpty);
    }
    Ok(())
}

/// Sets the sequence counter, which may be higher than the number of the last record, and collects
/// the kinds of events.
fn finish(conn: &Connection, last_seq: u64, software: &str) -> rusqlite::Result<()> {
    rows::set_last_seq(conn, last_seq)?;
    conn.execute(
        "INSERT OR IGNORE INTO kind (kind, v, software) SELECT DISTINCT kind, v, ?1 FROM event",
        params![software],
    )
    .map(drop)
}

fn put_caches(
    conn: &Connection,
    stream: &StreamId,
    version: u64,
    folded: &FoldedStream,
) -> rusqlite::Result<()> {
    rows::set_open(conn, stream, folded.open)?;
    rows::set_projection(conn, stream, folded.projection.as_deref())?;
    rows::replace_pending(conn, stream, &folded.pending)?;
    match &folded.snapshot {
        Some(snapshot) => rows::put_snapshot(conn, stream, version, snapshot),
        None => rows::drop_snapshot(conn, stream),
    }
}
