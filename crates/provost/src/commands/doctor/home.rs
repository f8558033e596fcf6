//! Checks of the home: its owner, location and free space.

use std::{os::unix::fs::MetadataExt, path::Path};

use provost_agent::front_end::DoctorFinding;
use provost_engine::{
    shell::{self, error_chain, unknown_holders},
    stream,
};
use provost_ledger::{OpenError, ReadLedger, SqliteReader};
use rustix::fs::Access;

use super::daemon::processes_finding;
use crate::{home::ProvostHome, ui::format_size};

/// The number of free bytes below which a warning is shown.
const LOW_SPACE_BYTES: u64 = 1 << 30;

/// The number of free bytes below which writing to the ledger may soon fail.
const CRITICAL_SPACE_BYTES: u64 = 64 << 20;

/// The kernel's magic number for tmpfs.
const TMPFS: i64 = 0x0102_1994;

/// The suggested fix if the ledger cannot be read.
const RESTORE: &str = "run `provost ledger verify`, then restore a backup";

/// The maximum length of a path in a socket address.
const MAX_SOCKET_PATH: usize = 107;

pub(super) fn examine(home: &ProvostHome) -> Vec<DoctorFinding> {
    let mut findings = vec![ownership(home)];
    let there = nearest_existing(home);
    findings.push(disk_space(there));
    findings.push(storage(home, there));
    findings.push(socket(home));
    findings.extend(ledger(home));
    findings
}

fn ownership(home: &ProvostHome) -> DoctorFinding {
    let path = home.path.display().to_string();
    let found = match home.metadata() {
        Ok(None) => return creatable(home),
        Ok(Some(found)) => found,
        Err(error) => {
            return DoctorFinding::fail("home", error.message, "check the parent directories");
        }
    };
    if home.is_read_only() {
        let what = format!("the home is read-only: {path}");
        return DoctorFinding::fail(
            "home",
            what,
            "make it writable: remount its file system, or run `chmod u+rwx` on it",
        );
    }
    if let Err(error) = home.prepare() {
        let fix = error.next.first().map(ToString::to_string).unwrap_or_default();
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

/// Checks that a missing home can be created.
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
            "export PROVOST_HOME=DIRECTORY, where DIRECTORY is writable",
        ),
    }
}

/// Returns the home, or its nearest existing ancestor.
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
                0..CRITICAL_SPACE_BYTES => DoctorFinding::fail(
                    "disk",
                    text,
                    "free some space, for example with `provost gc`",
                ),
                CRITICAL_SPACE_BYTES..LOW_SPACE_BYTES => DoctorFinding::warn(
                    "disk",
                    text,
                    "free some space, for example with `provost gc`",
                ),
                _ => DoctorFinding::ok("disk", text),
            }
        }
    }
}

/// Warns if the home is in memory or in a temporary directory, because a reboot or a cleanup would
/// delete it.
fn storage(home: &ProvostHome, there: &Path) -> DoctorFinding {
    let tmpfs = rustix::fs::statfs(there).is_ok_and(|found| found.f_type == TMPFS);
    if tmpfs {
        return DoctorFinding::warn(
            "storage",
            "the home is on tmpfs, so a reboot deletes it",
            "export PROVOST_HOME=DIRECTORY, where DIRECTORY is on a disk",
        );
    }
    let cleaned = ["/tmp", "/var/tmp"].iter().any(|dir| home.path.starts_with(dir));
    if cleaned {
        DoctorFinding::warn(
            "storage",
            "the home is in a temporary directory, which the system may delete",
            "export PROVOST_HOME=DIRECTORY, where DIRECTORY is not a temporary directory",
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
            "export PROVOST_HOME=DIRECTORY, where DIRECTORY is a shorter path",
        )
    }
}

/// Checks the ledger quickly. `provost ledger verify` checks it thoroughly.
fn ledger(home: &ProvostHome) -> Vec<DoctorFinding> {
    match SqliteReader::open(&home.ledger()) {
        Ok(reader) => vec![ledger_content(&reader)],
        Err(OpenError::Missing { .. }) => vec![DoctorFinding::ok("ledger", "none yet")],
        Err(why) => {
            let mut findings = vec![DoctorFinding::fail("ledger", error_chain(&why), RESTORE)];
            findings.extend(why.is_damage().then(|| living_processes(home)).flatten());
            findings
        }
    }
}

/// Reports the home's running processes if its ledger cannot be read.
fn living_processes(home: &ProvostHome) -> Option<DoctorFinding> {
    let found = unknown_holders::living(&shell::Home::new(&home.path));
    (!found.is_empty()).then(|| processes_finding(&found, "provost ledger recover --stop-unknown"))
}

fn ledger_content(reader: &SqliteReader) -> DoctorFinding {
    if let Some(loss) = reader.loss() {
        return DoctorFinding::fail("ledger", loss.to_string(), "provost ledger recover");
    }
    let mut unknown = None;
    let looked = reader.last_seq().and_then(|last| {
        check_newest_records(reader, last)?;
        let newest = reader.read_after(last.saturating_sub(1), 1)?;
        unknown = newest.into_iter().find(|record| !stream::is_known(&record.kind, record.v));
        Ok(last)
    });
    match (looked, unknown) {
        (Err(why), _) => DoctorFinding::fail("ledger", why.to_string(), RESTORE),
        (Ok(_), Some(record)) => DoctorFinding::fail(
            "ledger",
            format!(
                "read-only, because the ledger contains events of a newer version of Provost ({})",
                record.kind
            ),
            "use that version of Provost or a newer one",
        ),
        (Ok(last), None) => DoctorFinding::ok("ledger", format!("readable, {last} events")),
    }
}

/// The maximum number of records whose checksums `doctor` verifies. The limit keeps the command
/// fast.
const MAX_VERIFIED_RECORDS: u64 = 20_000;

/// Verifies the checksums of the newest records. Returns an error for the first damaged record.
fn check_newest_records(reader: &SqliteReader, last: u64) -> Result<(), provost_ledger::Error> {
    let after = last.saturating_sub(MAX_VERIFIED_RECORDS);
    reader.for_each_record(after, &mut |_| std::ops::ControlFlow::Continue(()))
}
