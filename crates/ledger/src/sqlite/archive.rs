//! Retention: moves closed streams from the log to a file, in which they remain readable.
//!
//! The file is durable before its events are deleted. A crash in between leaves an extra file but
//! loses nothing, and the next run writes that file again.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use super::db::{Db, count, int};
use super::files;
use super::fts;
use super::ledger::{SqliteLedger, StoragePoint};
use super::read::scan_stream;
use super::rows;
use crate::export::{self, write_record};
use crate::lines::{ExportLine, LineReader, LineWriter};
use crate::port::distinct;
use crate::{ArchiveError, ArchiveResult, Error, RecordedEvent, StreamId};

impl SqliteLedger {
    pub(crate) fn archive_streams(
        &mut self,
        streams: &[StreamId],
    ) -> Result<ArchiveResult, ArchiveError> {
        if let Some(why) = self.read_only_text() {
            return Err(ArchiveError::ReadOnly { why });
        }
        let streams = distinct(streams)?;
        let db = &self.reader.db;
        for stream in &streams {
            check_archivable(db, stream)?;
        }
        let (file, sections) = write_file(db, &streams)?;
        self.reached(StoragePoint::ArchiveWritten);
        move_out(&self.reader.db, &file, &sections)?;
        self.reached(StoragePoint::ArchiveCommitted);
        Ok(ArchiveResult {
            streams: sections.len(),
            records: sections.iter().map(|s| s.records).sum(),
            file: Some(file),
        })
    }
}

/// Reads the events of an archived stream. `None` if the stream is not archived.
pub(crate) fn read(db: &Db, stream: &StreamId) -> Result<Option<Vec<RecordedEvent>>, Error> {
    let Some((file, section)) = db.run(|conn| find(conn, stream))? else {
        return Ok(None);
    };
    let path = db.paths.archive.join(file);
    let records = read_section(&path, &section).map_err(|what| Error::Archive {
        stream: stream.clone(),
        path,
        what,
    })?;
    Ok(Some(records))
}

/// The location of a stream in an archive file, and its checksum.
struct Section {
    stream: StreamId,
    offset: u64,
    bytes: u64,
    records: u64,
    sum: String,
    /// The numbers of the events while they are moved. Empty for a section that is read from a
    /// file.
    seqs: Vec<u64>,
}

fn check_archivable(db: &Db, stream: &StreamId) -> Result<(), ArchiveError> {
    let place = db.run(|conn| rows::position(conn, stream))?;
    let pending = db.run(|conn| rows::pending_of(conn, stream))?;
    let stream = stream.clone();
    match (place, pending.into_iter().next()) {
        (None, _) => Err(ArchiveError::Missing { stream }),
        (Some(place), _) if place.archived => Err(ArchiveError::AlreadyArchived { stream }),
        (Some(place), _) if place.open => Err(ArchiveError::Open { stream }),
        (Some(_), Some(pending)) => Err(ArchiveError::Pending { stream, key: pending.key }),
        (Some(_), None) => Ok(()),
    }
}

/// Writes the events of the streams to a durable file, which is named after the first and last `seq` in it.
fn write_file(db: &Db, streams: &[&StreamId]) -> Result<(String, Vec<Section>), Error> {
    let dir = &db.paths.archive;
    files::make_dir(dir)?;
    let fresh = dir.join("unfinished.tmp");
    let written = write_sections(db, &fresh, streams);
    let (seqs, sections) = match written {
        Ok(written) => written,
        Err(error) => {
            // The unfinished archive can be removed, because its events are still in the log.
            drop(fs::remove_file(&fresh));
            return Err(error);
        }
    };
    let name = format!("{}-{}.jsonl", seqs.0, seqs.1);
    // An existing file with this name is left over from a crash, because the first event in it was
    // still in the log.
    fs::rename(&fresh, dir.join(&name)).map_err(|e| Error::io("name", &fresh, e))?;
    files::sync_dir(dir)?;
    files::sync_dir(&db.paths.dir)?;
    Ok((name, sections))
}

fn write_sections(
    db: &Db,
    path: &Path,
    streams: &[&StreamId],
) -> Result<((u64, u64), Vec<Section>), Error> {
    let failed = |e| Error::io("write", path, e);
    let file =
        files::private().write(true).create(true).truncate(true).open(path).map_err(failed)?;
    let mut lines = LineWriter::new(BufWriter::new(file));
    let mut sections = Vec::new();
    let mut seqs = (u64::MAX, 0);
    for stream in streams {
        let records = whole_stream(db, stream)?;
        for record in &records {
            seqs = (seqs.0.min(record.seq), seqs.1.max(record.seq));
        }
        sections.push(write_section(&mut lines, path, stream, &records)?);
    }
    let mut out = lines.into_inner();
    out.flush().map_err(failed)?;
    out.get_ref().sync_all().map_err(failed)?;
    Ok((seqs, sections))
}

fn write_section(
    lines: &mut LineWriter<BufWriter<File>>,
    path: &Path,
    stream: &StreamId,
    records: &[RecordedEvent],
) -> Result<Section, Error> {
    let offset = lines.bytes();
    for record in records {
        write_record(lines, record).map_err(|e| match e {
            export::Error::Write(e) => Error::io("write", path, e),
            export::Error::Read(e) => e,
        })?;
    }
    Ok(Section {
        stream: stream.clone(),
        offset,
        bytes: lines.bytes() - offset,
        records: records.len() as u64,
        sum: lines.end_section(),
        seqs: records.iter().map(|record| record.seq).collect(),
    })
}

/// Reads all events of a stream and checks that none is missing.
fn whole_stream(db: &Db, stream: &StreamId) -> Result<Vec<RecordedEvent>, Error> {
    let scanned = scan_stream(db, stream, 0)?;
    let records: Vec<_> = scanned.records.into_iter().collect::<Result<_, _>>()?;
    let version = db.run(|conn| rows::position(conn, stream))?.map(|p| p.version);
    let gapless = (1..).zip(&records).all(|(v, record)| record.version == v);
    if gapless && version == Some(records.len() as u64) {
        return Ok(records);
    }
    Err(db.corrupt(format!("events of {stream} are missing")))
}

/// Deletes the events and records their new location in one transaction.
fn move_out(db: &Db, file: &str, sections: &[Section]) -> Result<(), Error> {
    let tx = db.begin()?;
    db.run(|conn| {
        for section in sections {
            move_section(conn, file, section)?;
        }
        Ok(())
    })?;
    tx.commit().map_err(|e| db.error(e))
}

fn move_section(conn: &Connection, file: &str, section: &Section) -> rusqlite::Result<()> {
    let mut delete = conn.prepare_cached("DELETE FROM event WHERE seq = ?1")?;
    for seq in &section.seqs {
        fts::drop_event(conn, *seq)?;
        delete.execute([int(*seq)])?;
    }
    rows::drop_snapshot(conn, &section.stream)?;
    conn.prepare_cached(
        "UPDATE stream SET archive_file = ?2, archive_offset = ?3, archive_bytes = ?4, archive_sum = ?5
         WHERE id = ?1",
    )?
    .execute(params![
        section.stream.as_str(),
        file,
        int(section.offset),
        int(section.bytes),
        section.sum,
    ])
    .map(drop)
}

fn find(conn: &Connection, stream: &StreamId) -> rusqlite::Result<Option<(String, Section)>> {
    conn.prepare_cached(
        "SELECT archive_file, archive_offset, archive_bytes, version, archive_sum
         FROM stream WHERE id = ?1 AND archive_file IS NOT NULL",
    )?
    .query_row([stream.as_str()], |row| {
        let section = Section {
            stream: stream.clone(),
            offset: count(row, 1)?,
            bytes: count(row, 2)?,
            records: count(row, 3)?,
            sum: row.get(4)?,
            seqs: Vec::new(),
        };
        Ok((row.get(0)?, section))
    })
    .optional()
}

fn read_section(path: &Path, section: &Section) -> Result<Vec<RecordedEvent>, String> {
    let input = open_section(path, section).map_err(|e| e.to_string())?;
    let mut lines = LineReader::new(input);
    let mut records = Vec::new();
    while (records.len() as u64) < section.records {
        let line = lines.next_line().map_err(|e| e.to_string())?;
        let ExportLine::Record(line) = line else {
            return Err("the archive contains lines other than events".to_owned());
        };
        let record = line.into_recorded().map_err(|e| e.to_string())?;
        if record.stream != section.stream {
            return Err(format!("the archive contains events of {}", record.stream));
        }
        records.push(record);
    }
    if lines.total() != section.sum {
        return Err("the archive was changed: its checksum is wrong".to_owned());
    }
    Ok(records)
}

fn open_section(path: &Path, section: &Section) -> io::Result<BufReader<io::Take<File>>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(section.offset))?;
    Ok(BufReader::new(file.take(section.bytes)))
}
