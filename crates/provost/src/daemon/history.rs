//! The record of the daemon's starts and stops, which shows repeated crashes.
//!
//! The record is a file in the log directory with one line per entry. A start without a stop is a crash.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use provost_sys::agent_file;
use serde::{Deserialize, Serialize};

/// The name of the record in the log directory.
const FILE: &str = "starts.jsonl";

/// The maximum size of the record. If the record grows larger, only the newest half is kept, because only the last few
/// minutes matter.
const MAX_BYTES: usize = 64 << 10;

/// The maximum number of bytes to read. The record may briefly exceed its limit by a few lines.
const MAX_READ: u64 = 1 << 20;

/// One line of the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonHistoryEntry {
    pub(crate) at_ms: i64,
    pub(crate) pid: u32,
    pub(crate) event: DaemonTransition,
}

/// What happened to a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DaemonTransition {
    Started,
    /// The daemon shut down in an orderly way.
    Stopped,
    /// The daemon failed with an error that is in the log.
    Failed,
}

/// Records an event for this process.
pub(crate) fn record(log_dir: &Path, what: DaemonTransition) {
    let at_ms = super::server::wall_ms();
    let entry = DaemonHistoryEntry { at_ms, pid: std::process::id(), event: what };
    // The daemon also works without this record, for example if the disk is full.
    append(&log_dir.join(FILE), &entry).ok();
}

/// Reads the record, oldest first. Unreadable lines are skipped.
pub(crate) fn read(log_dir: &Path) -> Vec<DaemonHistoryEntry> {
    let text = agent_file::read_text(&log_dir.join(FILE), MAX_READ).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the times of crashes. A daemon crashed if it recorded a failure, or if it is not running
/// but recorded no stop. `running` is the pid of the current daemon.
pub(crate) fn crash_times(entries: &[DaemonHistoryEntry], running: Option<u32>) -> Vec<i64> {
    let mut deaths = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        // The next daemon may record its start before the previous daemon records its stop.
        let next = entries[at + 1..].iter().find(|next| next.pid == entry.pid);
        let alive = next.is_none() && running == Some(entry.pid);
        let ended = next.is_some_and(|next| next.event != DaemonTransition::Started);
        match entry.event {
            DaemonTransition::Failed => deaths.push(entry.at_ms),
            DaemonTransition::Started if !ended && !alive => deaths.push(entry.at_ms),
            DaemonTransition::Started | DaemonTransition::Stopped => {}
        }
    }
    deaths
}

fn append(path: &Path, entry: &DaemonHistoryEntry) -> io::Result<()> {
    truncate(path)?;
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)?.write_all(&line)
}

fn truncate(path: &Path) -> io::Result<()> {
    let bytes = agent_file::read(path, MAX_READ).unwrap_or_default();
    if bytes.len() <= MAX_BYTES {
        return Ok(());
    }
    let half = &bytes[bytes.len() - MAX_BYTES / 2..];
    let whole = half.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let new = path.with_extension("new");
    provost_sys::private::write(&new, &half[whole..])?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(at_ms: i64, pid: u32, what: DaemonTransition) -> DaemonHistoryEntry {
        DaemonHistoryEntry { at_ms, pid, event: what }
    }

    #[test]
    fn start_without_end_is_a_crash_unless_running() {
        let entries = [
            entry(1, 7, DaemonTransition::Started),
            entry(2, 8, DaemonTransition::Started),
            entry(3, 9, DaemonTransition::Started),
            entry(3, 8, DaemonTransition::Stopped),
            entry(4, 9, DaemonTransition::Failed),
            entry(5, 7, DaemonTransition::Started),
        ];
        assert_eq!(crash_times(&entries, Some(7)), [1, 4]);
        assert_eq!(crash_times(&entries, None), [1, 4, 5]);
        assert_eq!(crash_times(&entries, Some(1)), [1, 4, 5]);
    }

    #[test]
    fn long_record_keeps_its_newest_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        for at_ms in 0..2_000 {
            append(&path, &entry(at_ms, 1, DaemonTransition::Started)).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() <= MAX_BYTES as u64 + 100);
        let kept = read(dir.path());
        assert_eq!(kept.last(), Some(&entry(1_999, 1, DaemonTransition::Started)));
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert_eq!(kept.len(), lines, "no line was cut");
    }
}
