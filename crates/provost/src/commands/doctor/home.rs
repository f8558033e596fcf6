//! The home: its owner, location and free space.

use std::{os::unix::fs::MetadataExt, path::Path};

use provost_engine::stream;
use provost_ledger::{OpenError, ReadLedger, SqliteReader};
use rustix::fs::Access;

use crate::{
    home::Home,
    ui::{Finding, size},
};

/// Less free space than this is a warning.
const LITTLE_ROOM: u64 = 1 << 30;

/// Less free space than this soon blocks the ledger.
const NO_ROOM: u64 = 64 << 20;

/// The kernel's magic number for tmpfs.
const TMPFS: i64 = 0x0102_1994;

/// The longest path that a socket address can hold.
const MAX_SOCKET_PATH: usize = 107;

pub(super) fn examine(home: &Home) -> Vec<Finding> {
    let mut findings = vec![ownership(home)];
    let there = nearest(home);
    findings.push(room(there));
    findings.push(storage(home, there));
    findings.push(socket(home));
    findings.push(ledger(home));
    findings
}

fn ownership(home: &Home) -> Finding {
    let path = home.path.display().to_string();
    let found = match home.look() {
        Ok(None) => return to_be_made(home),
        Ok(Some(found)) => found,
        Err(error) => {
            return Finding::fail("home", error.message, "check the directories above it");
        }
    };
    if let Err(error) = home.prepare() {
        let fix = error.next.first().cloned().unwrap_or_default();
        return Finding::fail("home", error.message, fix);
    }
    match found.mode() & 0o077 {
        0 => Finding::ok("home", format!("{path} is private to you")),
        _ => Finding::warn(
            "home",
            format!("{path} is readable by other users (mode {:03o})", found.mode() & 0o777),
            format!("chmod 700 {path}"),
        ),
    }
}

/// Checks that a missing home can be created in its parent.
fn to_be_made(home: &Home) -> Finding {
    let path = home.path.display().to_string();
    let there = nearest(home);
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => {
            Finding::ok("home", format!("{path} will be created by the first command"))
        }
        Ok(()) => Finding::fail(
            "home",
            format!("cannot create {path}: {} is not a directory", there.display()),
            "export PROVOST_HOME=DIRECTORY",
        ),
        Err(why) => Finding::fail(
            "home",
            format!("cannot create {path} in {}: {why}", there.display()),
            "export PROVOST_HOME=DIRECTORY where you may write",
        ),
    }
}

/// Returns the home, or its nearest existing parent.
fn nearest(home: &Home) -> &Path {
    home.path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}

fn room(there: &Path) -> Finding {
    match rustix::fs::statvfs(there) {
        Err(why) => Finding::warn(
            "disk",
            format!("cannot read the free space: {why}"),
            "check the file system",
        ),
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let text = format!("{} free", size(free));
            match free {
                0..NO_ROOM => Finding::fail("disk", text, "free some space; provost gc"),
                NO_ROOM..LITTLE_ROOM => Finding::warn("disk", text, "free some space; provost gc"),
                _ => Finding::ok("disk", text),
            }
        }
    }
}

/// Warns about a home in memory or among temporary files, which a ledger must outlive.
fn storage(home: &Home, there: &Path) -> Finding {
    let tmpfs = rustix::fs::statfs(there).is_ok_and(|found| found.f_type == TMPFS);
    if tmpfs {
        return Finding::warn(
            "storage",
            "the home is on tmpfs and is lost at reboot",
            "export PROVOST_HOME=DIRECTORY on a disk",
        );
    }
    let cleaned = ["/tmp", "/var/tmp"].iter().any(|dir| home.path.starts_with(dir));
    if cleaned {
        Finding::warn(
            "storage",
            "the home is in a temporary directory, which the system cleans up",
            "export PROVOST_HOME=DIRECTORY elsewhere",
        )
    } else {
        Finding::ok("storage", "on a disk")
    }
}

fn socket(home: &Home) -> Finding {
    let path = home.socket();
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        Finding::ok("socket", path.display().to_string())
    } else {
        Finding::warn(
            "socket",
            format!("{} is too long for other programs to connect to", path.display()),
            "export PROVOST_HOME=DIRECTORY with a shorter path",
        )
    }
}

/// Quickly checks the ledger; `provost ledger verify` is the thorough check.
fn ledger(home: &Home) -> Finding {
    let restore = "provost ledger verify, then restore a backup";
    let reader = match SqliteReader::open(&home.ledger()) {
        Ok(reader) => reader,
        Err(OpenError::Missing { .. }) => return Finding::ok("ledger", "none yet"),
        Err(why) => return Finding::fail("ledger", why.to_string(), restore),
    };
    if let Some(loss) = reader.loss() {
        return Finding::fail("ledger", loss.to_string(), "provost ledger recover");
    }
    let mut unknown = None;
    let looked = reader.last_seq().and_then(|last| {
        let newest = reader.read_after(last.saturating_sub(1), 1)?;
        unknown = newest.into_iter().find(|record| !stream::is_known(&record.kind, record.v));
        Ok(last)
    });
    match (looked, unknown) {
        (Err(why), _) => Finding::fail("ledger", why.to_string(), restore),
        (Ok(_), Some(record)) => Finding::fail(
            "ledger",
            format!("read-only: it has events of a newer provost ({})", record.kind),
            "use that version of provost, or a newer one",
        ),
        (Ok(last), None) => Finding::ok("ledger", format!("readable, {last} events")),
    }
}
