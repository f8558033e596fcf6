//! Imports an export into an empty ledger and rebuilds its caches.

use std::io::BufRead;

use rusqlite::{Connection, params};

use super::db::{Db, int};
use super::head::Head;
use super::ledger::SqliteLedger;
use super::rows::{self, StreamRow};
use super::words;
use crate::batch::json_fault;
use crate::export::FORMAT;
use crate::lines::{End, Error as LineError, FORMAT_VERSION, Header, Line, LineReader};
use crate::{
    Close, Fold, Folded, Known, MAX_EVENT_BYTES, NewEvent, Open, ReadLedger, Recorded, StreamId,
};

/// The size of an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imported {
    pub streams: u64,
    pub records: u64,
    pub replies: u64,
    /// The number of streams of another home that were closed.
    pub closed: u64,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("an export can only be imported into an empty ledger, and this one has records")]
    NotEmpty,
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("{stream} cannot be folded: {why}")]
    Fold { stream: StreamId, why: String },
    #[error(transparent)]
    Storage(#[from] crate::Error),
}

impl SqliteLedger {
    /// Imports a whole export, or none of it.
    pub fn import(
        &mut self,
        input: &mut dyn BufRead,
        known: Known<'_>,
        fold: Fold<'_>,
        open: Open<'_>,
    ) -> Result<Imported, Error> {
        self.heads.forget();
        let db = &self.reader.db;
        let tx = db.begin()?;
        check_empty(db)?;
        if self.reader.loss.is_some() {
            return Err(Error::NotEmpty);
        }
        let mut import = Import {
            db,
            lines: LineReader::new(input),
            known,
            fold,
            close: None,
            closed: 0,
            stream: Vec::new(),
            last_seq: 0,
            counts: End::default(),
        };
        let header = import.header()?;
        import.last_seq = header.last_seq;
        import.close = match open {
            Open::GoOn => None,
            Open::OnlyOf { home, close } => {
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
        self.head.write(&Head::of_log(db, last_seq)?);
        let End { streams, records, replies } = counts;
        Ok(Imported { streams, records, replies, closed })
    }

    /// Rebuilds the caches of all streams from their events. Returns the streams that could not be
    /// folded.
    pub fn rebuild(&mut self, fold: Fold<'_>) -> Result<Vec<(StreamId, String)>, crate::Error> {
        self.heads.forget();
        let mut heads = Vec::new();
        self.for_each_stream(&mut |head| {
            heads.push(head);
            crate::Visit::Continue(())
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
                    words::put_stream(conn, &stream, &folded.found_by)
                })?,
                Err(why) => failed.push((stream, why)),
            }
        }
        tx.commit().map_err(|e| db.error(e))?;
        Ok(failed)
    }
}

struct Import<'a> {
    db: &'a Db,
    lines: LineReader<&'a mut dyn BufRead>,
    known: Known<'a>,
    fold: Fold<'a>,
    /// Closes streams that belong to another home.
    close: Option<Close<'a>>,
    closed: u64,
    /// The last number in use; closing events get numbers after all exported ones.
    last_seq: u64,
    /// The records read so far of the current stream.
    stream: Vec<Recorded>,
    counts: End,
}

impl Import<'_> {
    fn header(&mut self) -> Result<Header, LineError> {
        let text = self.lines.next_text()?;
        let header: Header = serde_json::from_str(text.unwrap_or_default())
            .map_err(|_| self.lines.fault("not the header of an export"))?;
        if header.format != FORMAT {
            return Err(self.lines.fault("not the header of an export"));
        }
        if header.version != FORMAT_VERSION {
            let what = format!(
                "the export has format {}, this program reads {FORMAT_VERSION}",
                header.version
            );
            return Err(self.lines.fault(what));
        }
        match i64::try_from(header.last_seq) {
            Ok(_) => Ok(header),
            Err(_) => Err(self.lines.fault("the last sequence number is too large")),
        }
    }

    fn body(&mut self, last_seq: u64) -> Result<(), Error> {
        loop {
            match self.lines.next_line()? {
                Line::Record(line) => {
                    let record = line.into_recorded();
                    let record = record.map_err(|e| self.lines.fault(e))?;
                    self.record(record, last_seq)?;
                }
                Line::Reply(line) => {
                    let (key, reply) = (line.key.into_owned(), line.reply.get().to_owned());
                    self.end_stream()?;
                    self.insert(|conn| rows::put_reply(conn, &key, &reply))?;
                    self.counts.replies += 1;
                }
                Line::End(end) => {
                    self.end_stream()?;
                    return Ok(self.trailer(end)?);
                }
            }
        }
    }

    fn record(&mut self, record: Recorded, last_seq: u64) -> Result<(), Error> {
        if self.stream.last().is_some_and(|last| last.stream != record.stream) {
            self.end_stream()?;
        }
        if let Some(what) = self.fault(&record, last_seq) {
            return Err(self.lines.fault(what).into());
        }
        self.insert(|conn| rows::insert_record(conn, record.as_ref()))?;
        self.counts.records += 1;
        self.stream.push(record);
        Ok(())
    }

    /// Returns what is wrong with a record whose checksum is right.
    fn fault(&self, record: &Recorded, last_seq: u64) -> Option<String> {
        let last = self.stream.last();
        let next = last.map_or(1, |last| last.version + 1);
        let Recorded { seq, version, .. } = record;
        if *version != next {
            return Some(format!("version {version} of {}, not {next}", record.stream));
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
        json_fault(&record.data)
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
                    version: last.version,
                    open: folded.open,
                    changed_ms: last.at.wall_ms,
                    card: folded.card.as_deref(),
                },
            )?;
            put_caches(conn, stream, last.version, &folded)?;
            words::put_stream(conn, stream, &folded.found_by)?;
            let mut each = records.iter().zip(&folded.words);
            each.try_for_each(|(record, words)| {
                words::put_event(conn, record.seq, stream.kind(), words)
            })
        })?;
        self.counts.streams += 1;
        Ok(())
    }

    /// Adds the events that close a stream of another home.
    fn close_stream(&mut self, records: &mut Vec<Recorded>) -> Result<(), Error> {
        let (Some(close), Some(last)) = (&mut self.close, records.last()) else { return Ok(()) };
        let (stream, version) = (last.stream.clone(), last.version);
        let events =
            close(&stream, records).map_err(|why| Error::Fold { stream: stream.clone(), why })?;
        self.closed += u64::from(!events.is_empty());
        for ((at, event), version) in events.into_iter().zip(version + 1..) {
            self.last_seq += 1;
            let NewEvent { kind, v, actor, data, words: _ } = event;
            let (seq, stream) = (self.last_seq, stream.clone());
            let record = Recorded { seq, stream, version, kind, v, at, actor, data };
            self.insert(|conn| rows::insert_record(conn, record.as_ref()))?;
            records.push(record);
        }
        Ok(())
    }

    fn trailer(&mut self, end: End) -> Result<(), LineError> {
        if end != self.counts {
            return Err(self.lines.fault("the counts do not match the lines before"));
        }
        match self.lines.next_text()? {
            None => Ok(()),
            Some(_) => Err(self.lines.fault("unexpected data after the end")),
        }
    }

    /// Inserts rows; a constraint violation is reported as a fault of the line.
    fn insert(
        &self,
        statements: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<(), Error> {
        statements(&self.db.conn).map_err(|e| match e.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ConstraintViolation) => {
                self.lines.fault("a duplicate sequence number, stream or key").into()
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

/// Sets the counter, which may be ahead of the records, and collects their kinds.
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
    folded: &Folded,
) -> rusqlite::Result<()> {
    rows::set_open(conn, stream, folded.open)?;
    rows::set_card(conn, stream, folded.card.as_deref())?;
    rows::replace_owed(conn, stream, &folded.owed)?;
    match &folded.snapshot {
        Some(snapshot) => rows::put_snapshot(conn, stream, version, snapshot),
        None => rows::drop_snapshot(conn, stream),
    }
}
