//! The checksums that are stored with every record and every projection.
//!
//! SQLite does not notice if the bytes of a value change on disk, but the checksum reveals the
//! change. Because the checksum also covers the record's stream and position, it detects swapped
//! rows as well. It protects against damage, not against an attacker, who could write a matching
//! checksum.

use crc32fast::Hasher;

use crate::RecordedEventRef;

/// Returns the checksum of a record. It covers all fields.
pub(crate) fn checksum(record: RecordedEventRef<'_>) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&record.seq.to_le_bytes());
    hasher.update(&record.version.to_le_bytes());
    hasher.update(&record.v.to_le_bytes());
    hasher.update(&record.at.wall_ms.to_le_bytes());
    hasher.update(&record.at.mono_ms.to_le_bytes());
    for text in [record.stream, record.kind, record.actor, record.data] {
        // Include the length, so that moving bytes from one text to the next changes the checksum.
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    hasher.finalize()
}

/// Returns the checksum of a stream's projection.
pub(crate) fn projection_checksum(stream: &str, projection: &str) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(stream.as_bytes());
    hasher.update(&[0]);
    hasher.update(projection.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClockReading;

    #[test]
    fn checksum_covers_every_field() {
        let at = ClockReading { wall_ms: 7, mono_ms: 8 };
        let (stream, kind, actor, data) = ("session/a", "x.y", "operator", "{}");
        let record = RecordedEventRef { seq: 1, stream, version: 2, kind, v: 1, at, actor, data };
        let changed = [
            RecordedEventRef { seq: 2, ..record },
            RecordedEventRef { stream: "session/b", ..record },
            RecordedEventRef { version: 1, ..record },
            RecordedEventRef { kind: "x.z", ..record },
            RecordedEventRef { v: 2, ..record },
            RecordedEventRef { at: ClockReading { wall_ms: 6, ..at }, ..record },
            RecordedEventRef { at: ClockReading { mono_ms: 9, ..at }, ..record },
            RecordedEventRef { actor: "operatos", ..record },
            RecordedEventRef { data: "[]", ..record },
            // This record has the same bytes, but divides them differently between two texts.
            RecordedEventRef { kind: "x.yo", actor: "perator", ..record },
        ];
        for other in changed {
            assert_ne!(checksum(other), checksum(record), "{other:?}");
        }
    }
}
