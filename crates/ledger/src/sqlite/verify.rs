//! The complete check of every page, every stream, and every cache against its events.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::archive;
use super::db::Db;
use super::fts;
use super::ledger::SqliteReader;
use super::read::scan_stream;
use super::rows;
use crate::batch::json_error;
use crate::{
    FoldFn, FoldedStream, PendingItem, ReadLedger, RecordedEvent, StoredSnapshot, StreamHead,
    StreamId,
};

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    pub streams: u64,
    pub records: u64,
    /// Snapshots from another version of the fold, which are unused but not wrong.
    pub stale_snapshots: u64,
    pub differences: Vec<LedgerMismatch>,
}

/// A mismatch that the check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerMismatch {
    /// The affected stream. `None` if the problem concerns the file as a whole.
    pub stream: Option<StreamId>,
    pub what: String,
    /// The action that fixes the problem.
    pub next: &'static str,
}

/// Checks one consistent state of the ledger. An unreadable record does not hide the others.
pub fn verify(reader: &SqliteReader, fold: FoldFn<'_>) -> Result<VerifyReport, crate::Error> {
    let mut check = LedgerCheck {
        db: &reader.db,
        reader,
        fold,
        kinds: BTreeSet::new(),
        report: VerifyReport::default(),
    };
    reader.read_consistent(&mut |_| check.run())?;
    Ok(check.report)
}

impl VerifyReport {
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty()
    }
}

const RESTORE: &str = "restore a `provost ledger backup`, or import an export into an empty home";
const REBUILD: &str = "the events are correct, but the cache is wrong: to rebuild it, run `provost ledger export`, then `import` into an empty home";
const UPGRADE: &str = "use the version of provost that recorded it, or a newer one";

/// The events of a stream in which every event can be read.
struct VerifiedRecords {
    records: Vec<RecordedEvent>,
    /// Whether the events were found by following their links.
    linked: bool,
}

struct LedgerCheck<'a> {
    db: &'a Db,
    reader: &'a SqliteReader,
    fold: FoldFn<'a>,
    kinds: BTreeSet<(String, u16)>,
    report: VerifyReport,
}

impl LedgerCheck<'_> {
    fn run(&mut self) {
        self.integrity();
        self.load_kinds();
        let mut heads = Vec::new();
        let visited = self.reader.for_each_stream(&mut |head| {
            heads.push(head);
            ControlFlow::Continue(())
        });
        if let Err(error) = visited {
            self.report(None, format!("not all streams can be listed: {error}"), RESTORE);
        }
        for head in &heads {
            self.stream(head);
        }
        self.strays();
    }

    fn report(&mut self, stream: Option<&StreamId>, what: impl Into<String>, next: &'static str) {
        self.report.differences.push(LedgerMismatch {
            stream: stream.cloned(),
            what: what.into(),
            next,
        });
    }

    /// Runs SQLite's checks of its pages and indexes.
    fn integrity(&mut self) {
        for pragma in ["PRAGMA integrity_check", "PRAGMA foreign_key_check"] {
            match self.texts(pragma) {
                Ok(lines) => {
                    for line in lines.iter().filter(|line| *line != "ok") {
                        self.report(None, format!("{pragma}: {line}"), RESTORE);
                    }
                }
                Err(error) => self.report(None, format!("{pragma}: {error}"), RESTORE),
            }
        }
    }

    fn load_kinds(&mut self) {
        match self.db.run(rows::kinds) {
            Ok(kinds) => self.kinds = kinds.into_iter().map(|(kind, v, _)| (kind, v)).collect(),
            Err(error) => self.report(None, error.to_string(), RESTORE),
        }
    }

    fn stream(&mut self, head: &StreamHead) {
        self.report.streams += 1;
        let Some(VerifiedRecords { records, linked }) = self.records(head) else {
            return;
        };
        if !self.sequence(head, &records) {
            return;
        }
        if !linked {
            self.report(
                Some(&head.stream),
                "the stream's events are not linked to each other",
                REBUILD,
            );
        }
        self.caches(head, &records);
    }

    /// Returns all records of a stream. If some records cannot be read, reports them and returns
    /// `None`.
    fn records(&mut self, head: &StreamHead) -> Option<VerifiedRecords> {
        let id = &head.stream;
        let scanned = match scan_stream(self.db, id, 0) {
            Ok(scanned) => scanned,
            Err(error) => {
                self.report(Some(id), error.to_string(), RESTORE);
                return None;
            }
        };
        let all = scanned.records.len();
        let mut records = Vec::with_capacity(all);
        for record in scanned.records {
            match record {
                Ok(record) => records.push(record),
                Err(error) => self.report(Some(id), error.to_string(), RESTORE),
            }
        }
        self.report.records += records.len() as u64;
        let unreadable = records.len() < all || self.unreadable(id, &records);
        (!unreadable).then_some(())?;
        if head.archived {
            let records = self.archived(id, &records)?;
            return Some(VerifiedRecords { records, linked: true });
        }
        Some(VerifiedRecords { records, linked: scanned.linked })
    }

    fn unreadable(&mut self, id: &StreamId, records: &[RecordedEvent]) -> bool {
        let before = self.report.differences.len();
        for record in records {
            let seq = record.seq;
            if let Some(why) = json_error(&record.data) {
                self.report(Some(id), format!("record {seq} is not JSON: {why}"), RESTORE);
            }
            if !self.kinds.contains(&(record.kind.clone(), record.v)) {
                let what = format!("record {seq} has the unlisted kind `{}`", record.kind);
                self.report(Some(id), what, RESTORE);
            }
        }
        self.report.differences.len() > before
    }

    fn archived(&mut self, id: &StreamId, live: &[RecordedEvent]) -> Option<Vec<RecordedEvent>> {
        if !live.is_empty() {
            self.report(
                Some(id),
                "the stream is archived, but still has events in the log",
                RESTORE,
            );
        }
        match archive::read(self.db, id) {
            Ok(records) => {
                let records = records.unwrap_or_default();
                self.report.records += records.len() as u64;
                Some(records)
            }
            Err(error) => {
                self.report(Some(id), error.to_string(), RESTORE);
                None
            }
        }
    }

    /// Whether the versions have no gaps, the numbers increase, and the stream's row matches.
    fn sequence(&mut self, head: &StreamHead, records: &[RecordedEvent]) -> bool {
        let before = self.report.differences.len();
        let id = Some(&head.stream);
        for (version, record) in (1..).zip(records) {
            if record.version != version {
                let what = format!("version {version} is missing: {} follows", record.version);
                self.report(id, what, RESTORE);
                break;
            }
        }
        if !records.is_sorted_by(|a, b| a.seq < b.seq) {
            self.report(id, "the stream's events are not in the order of their numbers", RESTORE);
        }
        if head.version != records.len() as u64 {
            let what = format!(
                "the stream's row says {} events, but there are {}",
                head.version,
                records.len()
            );
            self.report(id, what, RESTORE);
        }
        if records.first().map(|r| r.seq) != Some(head.created_seq) {
            self.report(id, "the stream's row refers to a different first event", RESTORE);
        }
        self.report.differences.len() == before
    }

    fn caches(&mut self, head: &StreamHead, records: &[RecordedEvent]) {
        let id = &head.stream;
        let folded = match (self.fold)(id, records) {
            Ok(folded) => folded,
            Err(why) => {
                self.report(Some(id), format!("the stream cannot be folded: {why}"), UPGRADE);
                return;
            }
        };
        let state = match self.reader.stream(id) {
            Ok(Some(state)) => state,
            Ok(None) => return self.report(Some(id), "the stream's row is missing", RESTORE),
            Err(error) => return self.report(Some(id), error.to_string(), RESTORE),
        };
        self.compare(id, &folded, head.open, &state.pending, state.projection.as_deref());
        self.search_index(head, &folded);
        if let Some(stored) = &state.snapshot {
            self.snapshot(id, records, &folded, stored);
        }
    }

    /// Checks that the stream's search index matches its events. It is not a mismatch if a stream
    /// written by an older program has not been indexed yet.
    fn search_index(&mut self, head: &StreamHead, folded: &FoldedStream) {
        let found = self.db.run(|conn| {
            let unindexed = "SELECT 1 FROM unindexed WHERE id = ?1";
            Ok(rows::exists(conn, unindexed, [head.stream.as_str()])?
                || fts::has_stream(conn, head.created_seq, &folded.search_terms)?)
        });
        match found {
            Ok(true) => {}
            Ok(false) => self.report(
                Some(&head.stream),
                "the stream is not indexed under its search terms",
                REBUILD,
            ),
            Err(error) => self.report(Some(&head.stream), error.to_string(), RESTORE),
        }
    }

    fn compare(
        &mut self,
        id: &StreamId,
        folded: &FoldedStream,
        open: bool,
        pending: &[PendingItem],
        projection: Option<&str>,
    ) {
        let word = |open| if open { "open" } else { "closed" };
        if folded.open != open {
            let what = format!(
                "the stream is stored as {}, but its events say {}",
                word(open),
                word(folded.open)
            );
            self.report(Some(id), what, REBUILD);
        }
        let mut wanted = folded.pending.clone();
        wanted.sort();
        if wanted != pending {
            let keys = |pending: &[PendingItem]| {
                pending.iter().map(|o| o.key.clone()).collect::<Vec<_>>().join(", ")
            };
            let what = format!(
                "the stream's pending items are stored as [{}], but its events say [{}]",
                keys(pending),
                keys(&wanted)
            );
            self.report(Some(id), what, REBUILD);
        }
        if folded.projection.as_deref() != projection {
            self.report(Some(id), "the stream's projection does not match its events", REBUILD);
        }
    }

    fn snapshot(
        &mut self,
        id: &StreamId,
        records: &[RecordedEvent],
        folded: &FoldedStream,
        stored: &StoredSnapshot,
    ) {
        let Some(covered) = usize::try_from(stored.version).ok().and_then(|n| records.get(..n))
        else {
            return self.report(Some(id), "the stream's snapshot is ahead of its events", REBUILD);
        };
        let then = if covered.len() == records.len() {
            Ok(folded.clone())
        } else {
            (self.fold)(id, covered)
        };
        match then.map(|folded| folded.snapshot) {
            Ok(Some(made)) if made == stored.snapshot => {}
            Ok(Some(made)) if made.fold_version == stored.snapshot.fold_version => {
                self.report(Some(id), "the stream's snapshot does not match its events", REBUILD);
            }
            Ok(_) => self.report.stale_snapshots += 1,
            Err(why) => {
                let what = format!("the stream cannot be folded up to its snapshot: {why}");
                self.report(Some(id), what, UPGRADE);
            }
        }
    }

    /// Reports events that belong to no stream, and events whose number is beyond the counter.
    fn strays(&mut self) {
        let without_row =
            "SELECT DISTINCT stream FROM event WHERE stream NOT IN (SELECT id FROM stream)";
        let more_than_linked = "SELECT stream.id FROM event JOIN stream ON stream.id = event.stream
             GROUP BY stream.id HAVING count(*) > iif(archive_file IS NULL, stream.version, 0)";
        for (sql, what) in [
            (without_row, "the stream has events but no row"),
            (more_than_linked, "the log contains further events with the stream's name"),
        ] {
            match self.texts(sql) {
                Ok(names) => {
                    for name in names {
                        let id = StreamId::stored(name);
                        self.report(Some(&id), what, RESTORE);
                        self.stray_records(&id);
                    }
                }
                Err(error) => self.report(None, error.to_string(), RESTORE),
            }
        }
        let ends = self.db.run(|conn| Ok((rows::highest_seq(conn)?, rows::last_seq(conn)?)));
        if let Ok((highest, last)) = ends
            && highest > last
        {
            let what = format!("record {highest} is beyond the counter {last}");
            self.report(None, what, RESTORE);
        }
    }

    /// Reports damaged events with the name of a stream to which they are not linked. If an event's
    /// stream was changed on disk, this shows which event it is.
    fn stray_records(&mut self, id: &StreamId) {
        let found = self.db.run(|conn| rows::unlinked_records(conn, id, 0));
        for record in found.into_iter().flatten() {
            let Err(error) = record else { continue };
            let what = error.to_string();
            if !self.report.differences.iter().any(|known| known.what == what) {
                self.report(Some(id), what, RESTORE);
            }
        }
    }

    /// Returns the first column of all readable rows.
    fn texts(&self, sql: &str) -> Result<Vec<String>, crate::Error> {
        self.db.run(|conn| {
            let mut statement = conn.prepare(sql)?;
            let mut rows = statement.query([])?;
            let mut texts = Vec::new();
            while let Some(row) = rows.next()? {
                texts.push(super::db::lossy_text(row, 0)?);
            }
            Ok(texts)
        })
    }
}
