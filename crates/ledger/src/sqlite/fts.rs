//! The search index. It is updated with each write, and rebuilt for streams that an older program wrote.

use std::hash::{DefaultHasher, Hash, Hasher};

use rusqlite::{Connection, Result, params};

use super::db::int;
use super::ledger::SqliteLedger;
use super::rows;
use crate::search_terms::id_index_text;
use crate::{FoldFn, ReadLedger, SearchTerms, StreamId, TermSet};

impl SqliteLedger {
    /// Indexes the streams that an older program wrote without an index. Costs only one query if
    /// there are no such streams.
    pub fn index_missing(&mut self, fold: FoldFn<'_>) -> std::result::Result<u64, crate::Error> {
        if self.unknown.is_some() || self.reader.loss.is_some() {
            return Ok(0);
        }
        let mut indexed = 0;
        while let Some(stream) = self.reader.db.run(next_unindexed)? {
            self.index_stream(&stream, fold)?;
            indexed += 1;
        }
        Ok(indexed)
    }

    /// Indexes one stream. If the stream cannot be folded, it can be found only by its id.
    fn index_stream(
        &mut self,
        stream: &StreamId,
        fold: FoldFn<'_>,
    ) -> std::result::Result<(), crate::Error> {
        let records = self.read_stream(stream, 0).unwrap_or_default();
        let folded = fold(stream, &records).ok();
        let archived = self.stream(stream)?.is_some_and(|state| state.head.archived);
        let seqs: Vec<u64> = records.iter().map(|record| record.seq).collect();
        let db = &self.reader.db;
        let tx = db.begin()?;
        db.run(|conn| {
            let found_by = folded.as_ref().map(|folded| folded.search_terms.clone());
            put_stream(conn, stream, &found_by.unwrap_or_default())?;
            let words = folded.iter().flat_map(|folded| &folded.event_terms);
            if !archived {
                for (seq, words) in seqs.iter().zip(words) {
                    put_event(conn, *seq, stream.kind(), words)?;
                }
            }
            conn.prepare_cached("DELETE FROM unindexed WHERE id = ?1")?
                .execute([stream.as_str()])
                .map(drop)
        })?;
        tx.commit().map_err(|e| db.error(e))
    }
}

/// Returns a digest that shows whether a stream's search terms changed, without storing them.
pub(crate) fn digest(found_by: &SearchTerms) -> u64 {
    let mut hasher = DefaultHasher::new();
    found_by.hash(&mut hasher);
    hasher.finish()
}

/// Replaces all search terms of a stream.
pub(crate) fn put_stream(
    conn: &Connection,
    stream: &StreamId,
    found_by: &SearchTerms,
) -> Result<()> {
    conn.prepare_cached(
        "INSERT OR REPLACE INTO stream_words (rowid, subject, ids, name, words, parts)
         SELECT created_seq, kind, ?2, ?3, ?4, ?5 FROM stream WHERE id = ?1",
    )?
    .execute(params![
        stream.as_str(),
        id_index_text(stream.key()),
        found_by.name.text(),
        found_by.words.text(),
        found_by.parts.text(),
    ])
    .map(drop)
}

pub(crate) fn put_event(conn: &Connection, seq: u64, kind: &str, words: &TermSet) -> Result<()> {
    if words.is_empty() {
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT OR REPLACE INTO event_words (rowid, subject, words) VALUES (?1, ?2, ?3)",
    )?
    .execute(params![int(seq), kind, words.text()])
    .map(drop)
}

/// Deletes the search terms of an event before the event is moved out of the log.
pub(crate) fn drop_event(conn: &Connection, seq: u64) -> Result<()> {
    conn.prepare_cached("DELETE FROM event_words WHERE rowid = ?1")?.execute([int(seq)]).map(drop)
}

/// Whether a stream is indexed under all these terms.
pub(crate) fn has_stream(
    conn: &Connection,
    created_seq: u64,
    found_by: &SearchTerms,
) -> Result<bool> {
    let part = |column: &str, words: &TermSet| {
        let words: Vec<String> = words.iter().take(20).map(|word| format!("\"{word}\"")).collect();
        (!words.is_empty()).then(|| format!("{column} : ({})", words.join(" AND ")))
    };
    let parts = [
        part("name", &found_by.name),
        part("words", &found_by.words),
        part("parts", &found_by.parts),
    ];
    let query = parts.into_iter().flatten().collect::<Vec<_>>().join(" AND ");
    if query.is_empty() {
        let sql = "SELECT 1 FROM stream_words WHERE rowid = ?1";
        return rows::exists(conn, sql, [int(created_seq)]);
    }
    let sql = "SELECT 1 FROM stream_words WHERE rowid = ?1 AND stream_words MATCH ?2";
    rows::exists(conn, sql, params![int(created_seq), query])
}

fn next_unindexed(conn: &Connection) -> Result<Option<StreamId>> {
    use rusqlite::OptionalExtension;
    conn.prepare_cached("SELECT id FROM unindexed LIMIT 1")?
        .query_row([], |row| row.get(0).map(StreamId::stored))
        .optional()
}
