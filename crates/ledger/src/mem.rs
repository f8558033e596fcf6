//! A ledger in memory, with the same rules as on disk, for the simulator and for tests.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use crate::search_terms::NameQuery;
use crate::{
    AppendError, ArchiveError, ArchiveResult, ClockReading, CommittedBatch, Error, Ledger,
    ListCursor, Lookup, PendingItem, ProjectionQuery, ProjectionRef, ReadLedger, RecordedEvent,
    RecordedEventRef, SearchTerms, StoredSnapshot, StreamHead, StreamId, StreamState, StreamWrite,
    TermQuery, TermSet, VisitFlow, WriteBatch,
};

/// A ledger that is lost when its process exits. A clone is an independent copy.
#[derive(Clone, Debug, Default)]
pub struct MemLedger {
    last_seq: u64,
    log: BTreeMap<u64, RecordedEvent>,
    words: BTreeMap<u64, TermSet>,
    streams: BTreeMap<StreamId, MemStream>,
    replies: BTreeMap<String, String>,
    failing: u32,
    /// The number of records that reads of a stream have returned.
    records_read: Cell<u64>,
}

#[derive(Clone, Debug)]
struct MemStream {
    state: StreamState,
    changed_ms: i64,
    search_terms: SearchTerms,
    seqs: Vec<u64>,
    archive: Vec<RecordedEvent>,
}

impl MemLedger {
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the next `n` appends fail as if the disk had failed, without writing anything.
    pub fn fail_next(&mut self, n: u32) {
        self.failing = n;
    }

    /// Returns the number of records that [`ReadLedger::read_stream`] has returned, as a measure of
    /// the work that queries cause.
    pub fn records_read(&self) -> u64 {
        self.records_read.get()
    }

    /// Fails if [`Self::fail_next`] has requested a failure.
    fn take_fault(&mut self) -> Result<(), Error> {
        if self.failing == 0 {
            return Ok(());
        }
        self.failing -= 1;
        Err(Error::Injected)
    }

    fn check_duplicates(&self, batch: &WriteBatch) -> Result<(), AppendError> {
        let used = batch.idempotency.iter().find_map(|i| self.replies.get_key_value(&i.key));
        match used {
            Some((key, reply)) => {
                Err(AppendError::Duplicate { key: key.clone(), reply: reply.clone() })
            }
            None => Ok(()),
        }
    }

    fn check_version(&self, write: &StreamWrite) -> Result<(), AppendError> {
        let head = self.streams.get(&write.stream).map(|s| &s.state.head);
        if head.is_some_and(|h| h.archived) {
            let stream = write.stream.clone();
            return Err(AppendError::Archived { stream });
        }
        let found = head.map_or(0, |h| h.version);
        if found == write.expected {
            return Ok(());
        }
        Err(AppendError::Conflict { stream: write.stream.clone(), expected: write.expected, found })
    }

    fn write(&mut self, at: ClockReading, write: StreamWrite, records: &mut Vec<RecordedEvent>) {
        let first = self.last_seq + 1;
        for (version, event) in (write.expected + 1..).zip(write.events) {
            self.last_seq += 1;
            let record = RecordedEvent {
                seq: self.last_seq,
                stream: write.stream.clone(),
                version,
                kind: event.kind,
                v: event.v,
                at,
                actor: event.actor,
                data: event.data,
            };
            if !event.search_terms.is_empty() {
                self.words.insert(self.last_seq, event.search_terms);
            }
            records.push(record.clone());
            self.log.insert(self.last_seq, record);
        }
        let seqs = first..=self.last_seq;
        let stream = self
            .streams
            .entry(write.stream.clone())
            .or_insert_with(|| MemStream::new(write.stream, first));
        stream.seqs.extend(seqs);
        let state = &mut stream.state;
        state.head.version = stream.seqs.len() as u64;
        state.head.open = write.open;
        state.pending = sorted(write.pending);
        state.projection = write.projection;
        if let Some(snapshot) = write.snapshot {
            let version = state.head.version;
            state.snapshot = Some(StoredSnapshot { version, snapshot });
        }
        stream.changed_ms = at.wall_ms;
        if let Some(found_by) = write.search_terms {
            stream.search_terms = found_by;
        }
    }

    fn check_archivable(&self, stream: &StreamId) -> Result<(), ArchiveError> {
        let owned = stream.clone();
        let Some(found) = self.streams.get(stream) else {
            return Err(ArchiveError::Missing { stream: owned });
        };
        if found.state.head.archived {
            return Err(ArchiveError::AlreadyArchived { stream: owned });
        }
        if found.state.head.open {
            return Err(ArchiveError::Open { stream: owned });
        }
        match found.state.pending.first() {
            Some(item) => Err(ArchiveError::Pending { stream: owned, key: item.key.clone() }),
            None => Ok(()),
        }
    }

    /// Returns the streams, oldest first.
    fn by_age(&self) -> Vec<&MemStream> {
        let mut all: Vec<_> = self.streams.values().collect();
        all.sort_by_key(|s| s.state.head.created_seq);
        all
    }
}

impl MemStream {
    fn new(stream: StreamId, created_seq: u64) -> Self {
        let head = StreamHead { stream, version: 0, created_seq, open: true, archived: false };
        Self {
            state: StreamState { head, pending: Vec::new(), projection: None, snapshot: None },
            changed_ms: 0,
            search_terms: SearchTerms::default(),
            seqs: Vec::new(),
            archive: Vec::new(),
        }
    }

    fn projection(&self) -> ProjectionRef<'_> {
        let head = &self.state.head;
        ProjectionRef {
            stream: head.stream.as_str(),
            version: head.version,
            created_seq: head.created_seq,
            open: head.open,
            archived: head.archived,
            projection: self.state.projection.as_deref().map(Cow::Borrowed),
        }
    }

    fn may_be_archived(&self, before_wall_ms: i64) -> bool {
        let head = &self.state.head;
        !head.open
            && !head.archived
            && self.state.pending.is_empty()
            && self.changed_ms < before_wall_ms
    }
}

impl Ledger for MemLedger {
    fn append(&mut self, batch: WriteBatch) -> Result<CommittedBatch, AppendError> {
        batch.check()?;
        self.take_fault()?;
        self.check_duplicates(&batch)?;
        for write in &batch.writes {
            self.check_version(write)?;
        }
        let mut records = Vec::new();
        for write in batch.writes {
            self.write(batch.at, write, &mut records);
        }
        let replies = batch.idempotency.into_iter().map(|i| (i.key, i.reply));
        self.replies.extend(replies);
        Ok(CommittedBatch::new(self.last_seq, records))
    }

    fn archive(&mut self, streams: &[StreamId]) -> Result<ArchiveResult, ArchiveError> {
        let streams = crate::port::distinct(streams)?;
        for stream in &streams {
            self.check_archivable(stream)?;
        }
        let mut records = 0;
        for stream in &streams {
            let Some(found) = self.streams.get_mut(*stream) else {
                continue;
            };
            let (log, words) = (&mut self.log, &mut self.words);
            words.retain(|seq, _| !found.seqs.contains(seq));
            found.archive = found.seqs.iter().filter_map(|s| log.remove(s)).collect();
            found.state.head.archived = true;
            found.state.snapshot = None;
            records += found.archive.len() as u64;
        }
        Ok(ArchiveResult { streams: streams.len(), records, file: None })
    }
}

impl ReadLedger for MemLedger {
    fn last_seq(&self) -> Result<u64, Error> {
        Ok(self.last_seq)
    }

    fn read_stream(
        &self,
        stream: &StreamId,
        after_version: u64,
    ) -> Result<Vec<RecordedEvent>, Error> {
        let Some(found) = self.streams.get(stream) else {
            return Ok(Vec::new());
        };
        let live = found.seqs.iter().filter_map(|seq| self.log.get(seq));
        let all = found.archive.iter().chain(live);
        let records: Vec<_> = all.filter(|r| r.version > after_version).cloned().collect();
        self.records_read.set(self.records_read.get() + records.len() as u64);
        Ok(records)
    }

    fn read_after(&self, seq: u64, limit: usize) -> Result<Vec<RecordedEvent>, Error> {
        let after = self.log.range(seq.saturating_add(1)..);
        Ok(after.take(limit).map(|(_, r)| r.clone()).collect())
    }

    fn for_each_record(
        &self,
        after: u64,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error> {
        for record in self.log.range(after.saturating_add(1)..).map(|(_, r)| r) {
            if visit(record.as_ref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn stored_reply(&self, key: &str) -> Result<Option<String>, Error> {
        Ok(self.replies.get(key).cloned())
    }

    fn stream(&self, stream: &StreamId) -> Result<Option<StreamState>, Error> {
        Ok(self.streams.get(stream).map(|s| s.state.clone()))
    }

    fn snapshot(&self, stream: &StreamId) -> Result<Option<StoredSnapshot>, Error> {
        let found = self.streams.get(stream);
        Ok(found.and_then(|s| s.state.snapshot.clone()))
    }

    fn open_streams(&self) -> Result<Vec<StreamState>, Error> {
        let all = self.by_age().into_iter().map(|s| &s.state);
        let live = all.filter(|s| s.head.open || !s.pending.is_empty());
        Ok(live.cloned().collect())
    }

    fn due_timers(&self, mono_ms: u64) -> Result<Vec<(StreamId, PendingItem)>, Error> {
        let mut due = Vec::new();
        for (id, stream) in &self.streams {
            let timers = stream.state.pending.iter();
            let past = timers.filter(|o| o.due_mono_ms.is_some_and(|t| t <= mono_ms));
            due.extend(past.map(|o| (id.clone(), o.clone())));
        }
        due.sort_by(|(a, x), (b, y)| (x.due_mono_ms, a, &x.key).cmp(&(y.due_mono_ms, b, &y.key)));
        Ok(due)
    }

    fn list_projections(
        &self,
        query: ProjectionQuery<'_>,
        visit: &mut dyn FnMut(ProjectionRef<'_>) -> VisitFlow,
    ) -> Result<Option<ListCursor>, Error> {
        let mut left = query.limit;
        if left == 0 {
            return Ok(query.after);
        }
        let by_age = self.by_age();
        for half in query.halves() {
            let of_kind = by_age.iter().rev().filter(|s| {
                let head = &s.state.head;
                head.stream.kind() == query.kind
                    && head.open == half.open
                    && head.created_seq < half.created_seq
            });
            for stream in of_kind {
                left -= 1;
                let projection = stream.projection();
                let cursor = projection.cursor();
                if visit(projection).is_break() || left == 0 {
                    return Ok(Some(cursor));
                }
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
        let fits = |stream: &&&MemStream| match by {
            Lookup::Words(sought) => {
                sought.matches_any_of([&stream.search_terms.name, &stream.search_terms.words])
            }
            Lookup::Parts(sought) => sought.matches(&stream.search_terms.parts),
            Lookup::Name(text) => {
                NameQuery::new(text).matches(stream.state.head.stream.key(), &stream.search_terms)
            }
        };
        let by_age = self.by_age();
        let of_kind = by_age.iter().rev().filter(|s| s.state.head.stream.kind() == kind);
        for stream in of_kind.filter(fits).take(limit) {
            if visit(stream.projection()).is_break() {
                break;
            }
        }
        Ok(true)
    }

    fn find_events(
        &self,
        kind: &str,
        sought: &TermQuery,
        limit: usize,
        visit: &mut dyn FnMut(RecordedEventRef<'_>) -> VisitFlow,
    ) -> Result<(), Error> {
        let fitting = self.words.iter().rev().filter(|(_, words)| sought.matches(words));
        let records = fitting.filter_map(|(seq, _)| self.log.get(seq));
        for record in records.filter(|record| record.stream.kind() == kind).take(limit) {
            if visit(record.as_ref()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn is_imported(&self, _: &StreamId) -> Result<bool, Error> {
        Ok(false)
    }

    fn seq_before(&self, wall_ms: i64) -> Result<u64, Error> {
        let first = self.log.values().find(|record| record.at.wall_ms >= wall_ms);
        Ok(first.map_or(self.last_seq, |record| record.seq - 1))
    }

    fn stream_version_at(&self, stream: &StreamId, seq: u64) -> Result<u64, Error> {
        let found = self.streams.get(stream);
        let until = |stream: &MemStream| stream.seqs.partition_point(|own| *own <= seq);
        Ok(found.map_or(0, until) as u64)
    }

    fn for_each_stream(&self, visit: &mut dyn FnMut(StreamHead) -> VisitFlow) -> Result<(), Error> {
        for stream in self.by_age() {
            if visit(stream.state.head.clone()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn for_each_reply(&self, visit: &mut dyn FnMut(&str, &str) -> VisitFlow) -> Result<(), Error> {
        for (key, reply) in &self.replies {
            if visit(key, reply).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn archivable(&self, before_wall_ms: i64, limit: usize) -> Result<Vec<StreamId>, Error> {
        let all = self.by_age().into_iter();
        let old = all.filter(|s| s.may_be_archived(before_wall_ms));
        let ids = old.map(|s| s.state.head.stream.clone());
        Ok(ids.take(limit).collect())
    }

    fn read_consistent(&self, read: &mut dyn FnMut(&dyn ReadLedger)) -> Result<(), Error> {
        read(self);
        Ok(())
    }
}

/// Sorts pending items by their keys, as on disk, because they are a set.
fn sorted(mut items: Vec<PendingItem>) -> Vec<PendingItem> {
    items.sort();
    items
}
