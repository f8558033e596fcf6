//! Readers beside a writer see complete batches, in order, and miss nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use provost_ledger::{Ledger, ReadLedger, SqliteReader};

use crate::common::{batch, event, id, open_fast, write};

const BATCHES: u64 = 400;

#[test]
fn readers_see_complete_batches_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open_fast(dir.path());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| follow(&SqliteReader::open(dir.path()).unwrap(), &done)))
            .collect();
        let frozen = scope.spawn(|| compare(&SqliteReader::open(dir.path()).unwrap(), &done));
        for _ in 0..BATCHES {
            let writes = ["session/a", "inbox/a"].map(|s| write(&ledger, s, &[event("x")]));
            ledger.append(batch(writes.to_vec())).unwrap();
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert_eq!(reader.join().unwrap(), 2 * BATCHES);
        }
        let seen = frozen.join().unwrap();
        assert!(seen.len() > 2, "the reader saw no state in between: {seen:?}");
    });
}

/// Tails the log to its end; returns the number of records.
fn follow(reader: &SqliteReader, done: &AtomicBool) -> u64 {
    let mut seq = 0;
    loop {
        let last_round = done.load(Ordering::Acquire);
        for record in reader.read_after(seq, 7).unwrap() {
            assert_eq!(record.seq, seq + 1);
            seq = record.seq;
        }
        if last_round && reader.last_seq().unwrap() == seq {
            return seq;
        }
    }
}

/// Compares two streams that are always written together; returns the versions seen.
fn compare(reader: &SqliteReader, done: &AtomicBool) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    while !done.load(Ordering::Acquire) {
        reader
            .read_consistent(&mut |ledger| {
                let a = ledger.read_stream(&id("session/a"), 0).unwrap().len();
                let b = ledger.read_stream(&id("inbox/a"), 0).unwrap().len();
                assert_eq!(a, b, "a batch was seen in half");
                seen.insert(a);
            })
            .unwrap();
    }
    seen
}
