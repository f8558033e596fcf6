//! The roles of this test binary when another test starts it as a separate process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_ledger::{
    AppendError, Durability, Error, Ledger, ReadLedger, SqliteReader, StoragePoint, verify,
};

use crate::common::{
    add, batch, error_chain, event, event_with, fold, id, open, open_with, try_open, write,
};

const ROLE: &str = "PROVOST_LEDGER_TEST_ROLE";
const HOME: &str = "PROVOST_LEDGER_TEST_HOME";

/// The streams that the writer writes together.
pub(crate) const PAIR: [&str; 2] = ["session/a", "inbox/a"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Appends without end and acknowledges each batch.
    Writer,
    /// Appends a few batches and acknowledges them.
    DurableFew,
    /// The same without syncing.
    UndurableFew,
    /// Dies when the archive file is written but its events are still in the log.
    DieArchiving,
    /// Dies with a batch written but not committed.
    DieStaged,
    /// Dies with a batch committed and the mark not yet written.
    DieUnmarked,
    /// Fills a small disk, frees space, and continues.
    FillDisk,
    /// Tries to open in a read-only directory.
    ReadOnlyDisk,
}

const ROLES: [Role; 8] = [
    Role::Writer,
    Role::DurableFew,
    Role::UndurableFew,
    Role::DieArchiving,
    Role::DieStaged,
    Role::DieUnmarked,
    Role::FillDisk,
    Role::ReadOnlyDisk,
];

impl Role {
    fn name(self) -> String {
        format!("{self:?}")
    }

    fn play(self, home: &Path) {
        match self {
            Self::Writer => append_pairs(home, Durability::Full, u64::MAX),
            Self::DurableFew => append_pairs(home, Durability::Full, FEW),
            Self::UndurableFew => append_pairs(home, Durability::ProcessOnly, FEW),
            Self::DieArchiving => {
                let mut ledger = dying(home, StoragePoint::ArchiveWritten);
                ledger.archive(&[id("session/a"), id("session/b")]).unwrap();
            }
            Self::DieStaged => {
                add(&mut dying(home, StoragePoint::AppendStaged), "session/a", &["lost"]);
            }
            Self::DieUnmarked => {
                add(&mut dying(home, StoragePoint::AppendCommitted), "session/a", &["unmarked"]);
            }
            Self::FillDisk => fill_disk(home),
            Self::ReadOnlyDisk => read_only_disk(home),
        }
    }
}

/// The number of batches that the roles with a few append.
pub(crate) const FEW: u64 = 25;

/// A command that plays a role, to be run directly or under another program.
pub(crate) fn command(role: Role, home: &Path, under: &[&str]) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut command = match under.split_first() {
        None => Command::new(&exe),
        Some((program, args)) => {
            let mut outer = Command::new(program);
            outer.args(args).arg(&exe);
            outer
        }
    };
    command.args(["roles::play", "--exact", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, role.name()).env(HOME, home);
    command
}

/// Plays the role named in the environment; does nothing without one.
#[test]
#[expect(clippy::disallowed_methods, reason = "the role comes through the environment")]
fn play() {
    let (Ok(role), Some(home)) = (std::env::var(ROLE), std::env::var_os(HOME)) else { return };
    let role = ROLES.into_iter().find(|known| known.name() == role).unwrap();
    role.play(&PathBuf::from(home));
}

fn append_pairs(home: &Path, durability: Durability, batches: u64) {
    let mut ledger = open_with(home, durability, &|_, _| true).unwrap();
    let written = ledger.read_stream(&id(PAIR[0]), 0).unwrap().len() as u64;
    for expected in written..written.saturating_add(batches) {
        let writes = PAIR.map(|stream| {
            let mut write = write(&provost_ledger::MemLedger::new(), stream, &[event("x")]);
            write.expected = expected;
            write
        });
        let committed = ledger.append(batch(writes.to_vec())).unwrap();
        say(&format!("ack {}\n", committed.last_seq()));
    }
}

/// One write per line, so that strace shows it as one.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).unwrap();
    out.flush().unwrap();
}

/// A ledger whose process is killed when it reaches a point.
fn dying(home: &Path, fatal: StoragePoint) -> provost_ledger::SqliteLedger {
    let mut ledger = open(home);
    ledger.set_probe(Box::new(move |point| {
        if point == fatal {
            let me = rustix::process::getpid();
            rustix::process::kill_process(me, rustix::process::Signal::KILL).unwrap();
        }
    }));
    ledger
}

fn fill_disk(home: &Path) {
    let ballast = home.join("ballast");
    std::fs::write(&ballast, vec![1; 512 * 1024]).unwrap();
    let mut ledger = open(&home.join("ledger"));
    let data = format!("\"{}\"", "x".repeat(20_000));
    let mut appended = 0;
    let error = loop {
        let write = write(
            &ledger,
            &format!("session/{appended}"),
            &[event_with("big", &data), event("owe:k")],
        );
        match ledger.append(batch(vec![write])) {
            Ok(_) => appended += 1,
            Err(error) => break error,
        }
        assert!(appended < 10_000, "the disk does not get full");
    };
    assert!(matches!(error, AppendError::Storage(Error::Full { .. })), "{error:?}");
    assert!(appended > 10);
    assert_eq!(ledger.last_seq().unwrap(), appended * 2);
    let home = home.join("ledger");
    assert_eq!(
        verify(&SqliteReader::open(&home).unwrap(), &mut fold).unwrap().records,
        appended * 2
    );
    std::fs::remove_file(&ballast).unwrap();
    let next = add(&mut ledger, "session/after", &["x"]);
    assert_eq!(next.first_seq(), appended * 2 + 1);
    drop(ledger);
    assert_eq!(open(&home).loss(), None);
    let report = verify(&SqliteReader::open(&home).unwrap(), &mut fold).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(report.records, appended * 2 + 1);
    say("played\n");
}

fn read_only_disk(home: &Path) {
    let error = error_chain(&try_open(&home.join("new")).unwrap_err());
    assert!(
        error.contains("could not create the directory") && error.contains("ead-only"),
        "{error}"
    );
    let error = error_chain(&try_open(home).unwrap_err());
    assert!(error.contains("ledger.lock") && error.contains("ead-only"), "{error}");
    say("played\n");
}
