//! The home: its owner, location and free space.

use std::{os::unix::fs::MetadataExt, path::Path};

use provost_engine::stream;
use provost_ledger::{OpenError, ReadLedger, SqliteReader};
use rustix::fs::Access;

use crate::{
    home::ProvostHome,
    ui::{DoctorFinding, format_size},
};

/// Less free space than this is a warning.
const LOW_SPACE_BYTES: u64 = 1 << 30;

/// Less free space than this soon blocks the ledger.
const CRITICAL_SPACE_BYTES: u64 = 64 << 20;

/// The kernel's magic number for tmpfs.
const TMPFS: i64 = 0x0102_1994;

/// The longest path that a socket address can hold.
const MAX_SOCKET_PATH: usize = 107;

pub(super) fn examine(home: &ProvostHome) -> Vec<DoctorFinding> {
    let mut findings = vec![ownership(home)];
    let there = nearest_existing(home);
    findings.push(disk_space(there));
    findings.push(storage(home, there));
    findings.push(socket(home));
    findings.push(ledger(home));
    findings
}

fn ownership(home: &ProvostHome) -> DoctorFinding {
    let path = home.path.display().to_string();
    let found = match home.metadata() {
        Ok(None) => return creatable(home),
        Ok(Some(found)) => found,
        Err(error) => {
            return DoctorFinding::fail("home", error.message, "check the directories above it");
        }
    };
    if let Err(error) = home.prepare() {
        let fix = error.next.first().cloned().unwrap_or_default();
        return DoctorFinding::fail("home", error.message, fix);
    }
    match found.mode() & 0o077 {
        0 => DoctorFinding::ok("home", format!("{path} is private to you")),
        _ => DoctorFinding::warn(
            "home",
            format!("{path} is readable by other users (mode {:03o})", found.mode() & 0o777),
            format!("chmod 700 {path}"),
        ),
    }
}

/// Checks that a missing home can be created in its parent.
fn creatable(home: &ProvostHome) -> DoctorFinding {
    let path = home.path.display().to_string();
    let there = nearest_existing(home);
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => {
            DoctorFinding::ok("home", format!("{path} will be created by the first command"))
        }
        Ok(()) => DoctorFinding::fail(
            "home",
            format!("cannot create {path}: {} is not a directory", there.display()),
            "export PROVOST_HOME=DIRECTORY",
        ),
        Err(why) => DoctorFinding::fail(
            "home",
            format!("cannot create {path} in {}: {why}", there.display()),
            "export PROVOST_HOME=DIRECTORY where you may write",
        ),
    }
}

/// Returns the home, or its nearest existing parent.
fn nearest_existing(home: &ProvostHome) -> &Path {
    home.path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"))
}

fn disk_space(there: &Path) -> DoctorFinding {
    match rustix::fs::statvfs(there) {
        Err(why) => DoctorFinding::warn(
            "disk",
            format!("cannot read the free space: {why}"),
            "check the file system",
        ),
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let text = format!("{} free", format_size(free));
            match free {
                0..CRITICAL_SPACE_BYTES => {
                    DoctorFinding::fail("disk", text, "free some space; provost gc")
                }
                CRITICAL_SPACE_BYTES..LOW_SPACE_BYTES => {
                    DoctorFinding::warn("disk", text, "free some space; provost gc")
                }
                _ => DoctorFinding::ok("disk", text),
            }
        }
    }
}

/// Warns about a home in memory or among temporary files, which a ledger must outlive.
fn storage(home: &ProvostHome, there: &Path) -> DoctorFinding {
    let tmpfs = rustix::fs::statfs(there).is_ok_and(|found| found.f_type == TMPFS);
    if tmpfs {
        return DoctorFinding::warn(
            "storage",
            "the home is on tmpfs and is lost at reboot",
            "export PROVOST_HOME=DIRECTORY on a disk",
        );
    }
    let cleaned = ["/tmp", "/var/tmp"].iter().any(|dir| home.path.starts_with(dir));
    if cleaned {
        DoctorFinding::warn(
            "storage",
            "the home is in a temporary directory, which the system cleans up",
            "export PROVOST_HOME=DIRECTORY elsewhere",
        )
    } else {
        DoctorFinding::ok("storage", "on a disk")
    }
}

fn socket(home: &ProvostHome) -> DoctorFinding {
    let path = home.socket();
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        DoctorFinding::ok("socket", path.display().to_string())
    } else {
        DoctorFinding::warn(
            "socket",
            format!("{} is too long for other programs to connect to", path.display()),
            "export PROVOST_HOME=DIRECTORY with a shorter path",
        )
    }
}

/// Quickly checks the ledger; `provost ledger verify` is the thorough check.
fn ledger(home: &ProvostHome) -> DoctorFinding {
    let restore = "provost ledger verify, then restore a backup";
    let reader = match SqliteReader::open(&home.ledger()) {
        Ok(reader) => reader,
        Err(OpenError::Missing { .. }) => return DoctorFinding::ok("ledger", "none yet"),
        Err(why) => return DoctorFinding::fail("ledger", why.to_string(), restore),
    };
    if let Some(loss) = reader.loss() {
        return DoctorFinding::fail("ledger", loss.to_string(), "provost ledger recover");
    }
    let mut unknown = None;
    let looked = reader.last_seq().and_then(|last| {
        let newest = reader.read_after(last.saturating_sub(1), 1)?;
        unknown = newest.into_iter().find(|record| !stream::is_known(&record.kind, record.v));
        Ok(last)
    });
    match (looked, unknown) {
        (Err(why), _) => DoctorFinding::fail("ledger", why.to_string(), restore),
        (Ok(_), Some(record)) => DoctorFinding::fail(
            "ledger",
            format!("read-only: it has events of a newer provost ({})", record.kind),
            "use that version of provost, or a newer one",
        ),
        (Ok(last), None) => DoctorFinding::ok("ledger", format!("readable, {last} events")),
    }
}
