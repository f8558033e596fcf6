//! A log that lost its end or was replaced: detected at the next opening, readable meanwhile, and
//! without false alarms.

use std::fs::{self, File, OpenOptions};
use std::path::Path;

use provost_ledger::{
    AppendError, Ledger, LedgerLoss, OpenError, ReadLedger, SqliteLedger, SqliteReader, verify,
};

use crate::common::{add, all_records, batch, event, fold, id, open, try_open, write};
use crate::crash::{kill_after, run};
use crate::roles::{Role, command};

const NOW: i64 = 1_700_000_000_000;

/// A ledger as a killed process leaves it: everything since its opening is in the write-ahead log.
fn killed(acks: u64) -> (tempfile::TempDir, u64) {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged = kill_after(dir.path(), acks);
    (dir, acknowledged)
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_file()
            && !entry.file_name().to_str().unwrap().ends_with("-shm")
        {
            fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
        }
    }
    to
}

fn cut(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

fn losses(dir: &Path) -> Option<LedgerLoss> {
    let reader = SqliteReader::open(dir).unwrap();
    let (found, records) = (reader.loss(), all_records(&reader).len());
    drop(reader);
    let writer = open(dir);
    assert_eq!(writer.loss(), found, "reader and writer differ");
    assert_eq!(all_records(&writer).len(), records);
    found
}

#[test]
fn truncated_log_with_lost_event_is_noticed() {
    let (dir, acknowledged) = killed(20);
    let whole = fs::metadata(dir.path().join("ledger.db-wal")).unwrap().len();
    let (mut noticed, mut harmless) = (0, 0);
    // The tables are created in the first pages; a log without them is rejected as damaged.
    for part in 1..=60 {
        let copied = copy(dir.path());
        cut(&copied.path().join("ledger.db-wal"), whole - whole * (part - 1) / 60);
        let reader = match SqliteReader::open(copied.path()) {
            Err(OpenError::Storage(_) | OpenError::Vanished { .. }) => continue,
            opened => opened.unwrap(),
        };
        let found = reader.last_seq().unwrap();
        match reader.loss() {
            None => {
                assert!(found >= acknowledged, "{found} of {acknowledged}, and no alarm");
                harmless += 1;
            }
            Some(loss) => {
                assert!(loss.found == found && loss.known >= acknowledged, "{loss:?}");
                assert!(found < loss.known && !loss.replaced, "{loss:?}");
                noticed += 1;
            }
        }
    }
    assert!(noticed > 10 && harmless >= 1, "{noticed} noticed, {harmless} harmless");
}

#[test]
fn zeroed_page_in_the_log_is_noticed() {
    let (dir, acknowledged) = killed(20);
    let wal = dir.path().join("ledger.db-wal");
    let mut bytes = fs::read(&wal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4096].fill(0);
    fs::write(&wal, bytes).unwrap();
    let loss = losses(dir.path()).unwrap();
    assert!(loss.found < acknowledged && loss.known >= acknowledged, "{loss:?}");
}

#[test]
fn restored_older_copy_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/first", &["x"]);
    let checkpointed = fs::read(dir.path().join("ledger.db")).unwrap();
    kill_after(dir.path(), 3);
    let (db, wal) = ("ledger.db", "ledger.db-wal");
    let older = copy(dir.path());
    kill_after(dir.path(), 3);
    assert_eq!(losses(copy(dir.path()).path()), None);
    // A recent copy, with its log.
    let restored = copy(dir.path());
    for name in [db, wal] {
        fs::copy(older.path().join(name), restored.path().join(name)).unwrap();
    }
    let loss = losses(restored.path()).unwrap();
    assert!(loss.found > 1 && loss.found < loss.known, "{loss:?}");
    // A copy without a log.
    let restored = copy(dir.path());
    fs::remove_file(restored.path().join(wal)).unwrap();
    fs::write(restored.path().join(db), checkpointed).unwrap();
    assert_eq!(losses(restored.path()).unwrap().found, 1);
}

#[test]
fn deleted_log_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/first", &["x"]);
    let acknowledged = kill_after(dir.path(), 5);
    fs::remove_file(dir.path().join("ledger.db-wal")).unwrap();
    let loss = losses(dir.path()).unwrap();
    assert!(loss.found == 1 && loss.known >= acknowledged, "{loss:?}");
}

#[test]
fn other_ledger_of_the_same_length_is_noticed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    add(&mut open(dir.path()), "session/a", &["x", "y"]);
    add(&mut open(other.path()), "session/b", &["x", "y", "z"]);
    fs::copy(other.path().join("ledger.db"), dir.path().join("ledger.db")).unwrap();
    let loss = losses(dir.path()).unwrap();
    assert!(loss.replaced && loss.known == 2 && loss.found == 3, "{loss:?}");
    assert!(loss.to_string().contains("event 2"), "{loss}");
    let mut ledger = open(dir.path());
    ledger.accept_loss(NOW).unwrap().unwrap();
    assert_eq!(add(&mut ledger, "session/b", &["w"]).first_seq(), 5);
    drop(ledger);
    assert_eq!(losses(dir.path()), None);
}

#[test]
fn archived_last_record_is_not_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = open(dir.path());
    add(&mut ledger, "session/a", &["x", "close"]);
    ledger.archive(&[id("session/a")]).unwrap();
    drop(ledger);
    assert_eq!(losses(dir.path()), None);
}

#[test]
fn commit_without_its_mark_is_not_a_loss() {
    let dir = tempfile::tempdir().unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    for role in [Role::DieUnmarked, Role::DieStaged] {
        assert!(!run(command(role, dir.path(), &[])).0);
        assert_eq!(losses(dir.path()), None, "{role:?}");
    }
    assert_eq!(all_records(&open(dir.path())).len(), 2);
}

#[test]
fn unwritable_mark_is_neither_loss_nor_failure() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()));
    let head = dir.path().join("ledger.head");
    fs::remove_file(&head).unwrap();
    std::os::unix::fs::symlink("/dev/full", &head).unwrap();
    let mut ledger = open(dir.path());
    for _ in 0..3 {
        add(&mut ledger, "session/a", &["x"]);
    }
    drop(ledger);
    assert_eq!(losses(dir.path()), None);
    fs::remove_file(&head).unwrap();
    // A mark that stayed behind since then is renewed.
    File::create(&head).unwrap();
    add(&mut open(dir.path()), "session/a", &["x"]);
    assert_eq!(losses(dir.path()), None);
}

#[test]
fn lossy_ledger_is_read_only_and_unchanged() {
    let (dir, _) = killed(20);
    let wal = dir.path().join("ledger.db-wal");
    cut(&wal, fs::metadata(&wal).unwrap().len() / 2);
    let before = (fs::read(&wal).unwrap(), fs::read(dir.path().join("ledger.db")).unwrap());
    let mut ledger = open(dir.path());
    let loss = ledger.loss().unwrap();
    let change = write(&ledger, "session/b", &[event("x")]);
    let error = ledger.append(batch(vec![change])).unwrap_err();
    assert!(
        matches!(&error, AppendError::ReadOnly { why } if *why == loss.to_string()),
        "{error:?}"
    );
    assert!(verify(&SqliteReader::open(dir.path()).unwrap(), &mut fold).is_ok());
    drop(ledger);
    let after = (fs::read(&wal).unwrap(), fs::read(dir.path().join("ledger.db")).unwrap());
    assert!(before == after, "the evidence was changed");
    assert_eq!(losses(dir.path()), Some(loss));
}

#[test]
fn accepted_loss_reuses_no_number() {
    let (dir, acknowledged) = killed(20);
    let wal = dir.path().join("ledger.db-wal");
    cut(&wal, fs::metadata(&wal).unwrap().len() / 2);
    let mut ledger = open(dir.path());
    let loss = ledger.loss().unwrap();
    let recovered = ledger.accept_loss(NOW).unwrap().unwrap();
    assert_eq!((recovered.loss.first, recovered.loss.last), (loss.found + 1, loss.known));
    assert!(recovered.loss.seq > acknowledged);
    assert!(recovered.copy.join("ledger.db-wal").exists());
    assert_eq!(ledger.loss(), None);
    assert_eq!(ledger.accept_loss(NOW).unwrap(), None, "there is nothing more to accept");
    let next = add(&mut ledger, "session/new", &["x"]).first_seq();
    assert_eq!(next, recovered.loss.seq + 1);
    drop(ledger);
    assert_eq!(losses(dir.path()), None);
    let reader = SqliteReader::open(dir.path()).unwrap();
    assert_eq!(reader.accepted_losses().unwrap(), [recovered.loss]);
    assert_eq!(reader.newest_record().unwrap().unwrap().seq, next);
}

#[test]
fn backup_opens_and_is_noticed_over_newer_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let (home, backup) = (dir.path().join("home"), dir.path().join("backup"));
    let mut ledger = open(&home);
    add(&mut ledger, "session/a", &["x"]);
    ledger.backup(&backup).unwrap();
    add(&mut ledger, "session/a", &["y"]);
    drop(ledger);
    for entry in fs::read_dir(&backup).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), home.join(entry.file_name())).unwrap();
    }
    assert_eq!(losses(&home).map(|loss| (loss.found, loss.known)), Some((1, 2)));
    assert_eq!(losses(&backup), None);
    fs::remove_dir_all(&home).unwrap();
    fs::rename(&backup, &home).unwrap();
    let ledger: SqliteLedger = try_open(&home).unwrap();
    assert_eq!((ledger.loss(), ledger.last_seq().unwrap()), (None, 1));
}
