//! Writes a ledger, or some of its streams, as JSON lines: a header, the records stream by stream,
//! the stored replies, and a trailer.
//!
//! Streams are written one after another, oldest first, whether or not they are archived. An import
//! therefore needs to hold only one stream at a time, and exporting an imported ledger yields the
//! same bytes. Caches are omitted, because the import rebuilds them.

use std::io::{self, BufWriter, Write};
use std::ops::ControlFlow;

use serde_json::value::RawValue;

use crate::lines::{
    ExportHeader, ExportLine, ExportTrailer, FORMAT_VERSION, LineWriter, RecordLine, ReplyLine,
};
use crate::{ReadLedger, RecordedEvent, StreamId, VisitFlow};

/// The name of the format, which appears in the header.
pub(crate) const FORMAT: &str = "provost-ledger";

/// The counts of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportCounts {
    pub streams: u64,
    pub records: u64,
    pub replies: u64,
}

/// The reason why an export is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not write the export")]
    Write(#[from] io::Error),
    #[error("could not read the ledger")]
    Read(#[from] crate::Error),
}

/// Exports a home's ledger as of a single point in time. The home's id lets an import recognize an
/// export from its own home.
pub fn export(
    ledger: &dyn ReadLedger,
    home: Option<&str>,
    out: &mut dyn Write,
) -> Result<ExportCounts, Error> {
    let mut result = Ok(ExportTrailer::default());
    ledger.read_consistent(&mut |ledger| result = Export::new(ledger, out).run(home))?;
    result.map(|end| ExportCounts {
        streams: end.streams,
        records: end.records,
        replies: end.replies,
    })
}

/// Exports only some streams. The output depends only on their events, so the same streams in
/// another ledger yield the same bytes. Replies are excluded, because they belong to the home and
/// not to a stream.
pub fn export_streams(
    ledger: &dyn ReadLedger,
    streams: &[StreamId],
    out: &mut dyn Write,
) -> Result<ExportCounts, Error> {
    let mut result = Ok(ExportTrailer::default());
    ledger.read_consistent(&mut |ledger| result = Export::new(ledger, out).run_some(streams))?;
    result.map(|end| ExportCounts {
        streams: end.streams,
        records: end.records,
        replies: end.replies,
    })
}

struct Export<'a> {
    ledger: &'a dyn ReadLedger,
    lines: LineWriter<BufWriter<&'a mut dyn Write>>,
    end: ExportTrailer,
}

impl<'a> Export<'a> {
    fn new(ledger: &'a dyn ReadLedger, out: &'a mut dyn Write) -> Self {
        Self { ledger, lines: LineWriter::new(BufWriter::new(out)), end: ExportTrailer::default() }
    }

    fn run(mut self, home: Option<&str>) -> Result<ExportTrailer, Error> {
        self.header(self.ledger.last_seq()?, home)?;
        self.streams()?;
        self.replies()?;
        self.end()
    }

    fn run_some(mut self, streams: &[StreamId]) -> Result<ExportTrailer, Error> {
        let mut all = Vec::new();
        for stream in streams {
            all.push(self.ledger.read_stream(stream, 0)?);
        }
        // The streams are ordered from oldest to newest, as in a full export.
        all.retain(|records| !records.is_empty());
        all.sort_by_key(|records| records.first().map(|record| record.seq));
        let last = all.iter().filter_map(|records| Some(records.last()?.seq)).max();
        self.header(last.unwrap_or(0), None)?;
        for records in &all {
            self.records(records)?;
        }
        self.end()
    }

    fn header(&mut self, last_seq: u64, home: Option<&str>) -> Result<(), Error> {
        Ok(self.lines.write(&ExportHeader {
            format: FORMAT.to_owned(),
            version: FORMAT_VERSION,
            last_seq,
            home: home.map(str::to_owned),
        })?)
    }

    fn end(mut self) -> Result<ExportTrailer, Error> {
        self.lines.write(&ExportLine::End(self.end))?;
        self.lines.into_inner().flush()?;
        Ok(self.end)
    }

    fn streams(&mut self) -> Result<(), Error> {
        let mut fault = None;
        self.ledger
            .for_each_stream(&mut |head| keep_fault(&mut fault, self.stream(&head.stream)))?;
        fault.map_or(Ok(()), Err)
    }

    fn stream(&mut self, stream: &StreamId) -> Result<(), Error> {
        let records = self.ledger.read_stream(stream, 0)?;
        self.records(&records)
    }

    fn records(&mut self, records: &[RecordedEvent]) -> Result<(), Error> {
        self.end.streams += 1;
        for record in records {
            write_record(&mut self.lines, record)?;
            self.end.records += 1;
        }
        Ok(())
    }

    fn replies(&mut self) -> Result<(), Error> {
        let mut fault = None;
        self.ledger
            .for_each_reply(&mut |key, reply| keep_fault(&mut fault, self.reply(key, reply)))?;
        fault.map_or(Ok(()), Err)
    }

    fn reply(&mut self, key: &str, reply: &str) -> Result<(), Error> {
        let reply: &RawValue = serde_json::from_str(reply).map_err(io::Error::from)?;
        let key = key.into();
        self.lines.write(&ExportLine::Reply(ReplyLine { key, reply }))?;
        self.end.replies += 1;
        Ok(())
    }
}

/// Writes one record as a line, in an export or an archive.
pub(crate) fn write_record<W: Write>(
    lines: &mut LineWriter<W>,
    record: &RecordedEvent,
) -> Result<(), Error> {
    let line = RecordLine::new(record.as_ref())
        .map_err(|e| crate::Error::unreadable(record, e.to_string()))?;
    Ok(lines.write(&ExportLine::Record(line))?)
}

/// Stops a visit at the first error and stores it.
fn keep_fault(fault: &mut Option<Error>, result: Result<(), Error>) -> VisitFlow {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => {
            *fault = Some(error);
            ControlFlow::Break(())
        }
    }
}
