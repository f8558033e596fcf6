//! A projection as of a past event, and the difference between two points in time.

use provost_api::{ApiError, AsOfReply, ChangeRow, DiffReply, ErrorCode, Hint};
use provost_ledger::{ReadLedger, RecordedEvent, StreamId};
use serde_json::Value;

use super::{ALL_KINDS, fold_error, not_found, read_whole_stream};
use crate::{
    shell::read_error,
    stored_aggregate::StoredAggregate,
    stream::{self, Subject, for_subject},
};

/// Returns the row of a session, run or team as of the ledger event with this sequence number.
pub fn as_of(ledger: &dyn ReadLedger, subject: Subject, seq: u64) -> Result<AsOfReply, ApiError> {
    let past = StreamHistory::read(ledger, subject)?;
    let (after, row) = past.row_at(ledger, seq)?;
    let before = past.records.iter().map(|record| record.seq).take_while(|seq| *seq < after).last();
    let (of, id, archived) = (past.kind(), past.stream.key().to_owned(), past.archived);
    Ok(AsOfReply { ok: true, kind: of, id, at: seq, after, before, archived, row })
}

/// Returns the fields of a row that differ between two events: the row as of one event is compared with the row as of
/// the other.
pub fn diff(
    ledger: &dyn ReadLedger,
    subject: Subject,
    from: u64,
    to: u64,
) -> Result<DiffReply, ApiError> {
    let past = StreamHistory::read(ledger, subject)?;
    let (before, after) = (past.row_at(ledger, from)?.1, past.row_at(ledger, to)?.1);
    let mut changes = Vec::new();
    compare("", &before, &after, &mut changes);
    let (of, id, archived) = (past.kind(), past.stream.key().to_owned(), past.archived);
    Ok(DiffReply { ok: true, kind: of, id, from, to, archived, changes })
}

/// A stream and all its records.
struct StreamHistory {
    subject: Subject,
    stream: StreamId,
    records: Vec<RecordedEvent>,
    archived: bool,
}

impl StreamHistory {
    fn read(ledger: &dyn ReadLedger, subject: Subject) -> Result<StreamHistory, ApiError> {
        let stream = stream::stream_id(subject);
        let (records, archived) = read_whole_stream(ledger, &stream)?
            .ok_or_else(|| not_found(ledger, &ALL_KINDS, stream.key()))?;
        Ok(StreamHistory { subject, stream, records, archived })
    }

    fn kind(&self) -> String {
        self.stream.kind().to_owned()
    }

    fn row_at(&self, ledger: &dyn ReadLedger, seq: u64) -> Result<(u64, Value), ApiError> {
        let newest = ledger.last_seq().map_err(|why| read_error(&why))?;
        if seq > newest {
            let message = format!("event {seq} has not happened; the newest is {newest}");
            return Err(ApiError::new(ErrorCode::BadRequest, message).next(Hint::AllEvents));
        }
        let until = self.records.partition_point(|record| record.seq <= seq);
        let known = &self.records[..until];
        let Some(last) = known.last() else {
            let began = self.records.first().map_or(0, |first| first.seq);
            let message = format!("it did not exist at event {seq}; it began at event {began}");
            return Err(ApiError::new(ErrorCode::NotFound, message));
        };
        let stream = &self.stream;
        let row = for_subject!(self.subject, |_id: A| {
            stream::fold::<A>(stream, None, known).map(|folded| folded.row_value())
        });
        Ok((last.seq, row.map_err(|why| fold_error(&why))?))
    }
}

/// Lists every field that differs, down to individual values.
fn compare(field: &str, from: &Value, to: &Value, changes: &mut Vec<ChangeRow>) {
    match (from, to) {
        (from, to) if from == to => {}
        (Value::Object(before), Value::Object(after)) => {
            let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let place = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                let part = |side: &serde_json::Map<String, Value>| {
                    side.get(name).cloned().unwrap_or(Value::Null)
                };
                compare(&place, &part(before), &part(after), changes);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for at in 0..before.len().max(after.len()) {
                let part = |side: &[Value]| side.get(at).cloned().unwrap_or(Value::Null);
                compare(&format!("{field}[{at}]"), &part(before), &part(after), changes);
            }
        }
        (from, to) => {
            changes.push(ChangeRow { field: field.to_owned(), from: from.clone(), to: to.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn diff_lists_single_fields() {
        let from = json!({"state": "open", "members": [{"name": "a", "left": false}], "same": 1});
        let to = json!({"state": "open", "members": [{"name": "a", "left": true}, 7], "same": 1, "new": []});
        let mut changes = Vec::new();
        compare("", &from, &to, &mut changes);
        let lines: Vec<String> =
            changes.iter().map(|one| format!("{} {} {}", one.field, one.from, one.to)).collect();
        assert_eq!(lines, ["members[0].left false true", "members[1] null 7", "new null []"]);
    }
}
