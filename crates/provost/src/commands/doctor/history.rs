//! Checks of the daemon's past: repeated crashes, and panics in its log.

use std::{
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use provost_agent::front_end::DoctorFinding;
use provost_sys::agent_file;

use crate::{
    clock,
    daemon::{self, history},
    home::ProvostHome,
    ui::ago,
};

/// The time window in which crashes count as repeated, in milliseconds.
const WINDOW_MS: i64 = 10 * 60 * 1_000;

/// The minimum number of crashes within the window to report.
const TOO_MANY: usize = 3;

/// The maximum number of bytes to read from the end of the log.
const LOG_TAIL_BYTES: u64 = 1 << 20;

/// The maximum length of a panic message to show.
const MAX_PANIC_MESSAGE: usize = 200;

/// Examines restarts and the log. `running` is the pid of the running daemon.
pub(super) fn examine(home: &ProvostHome, running: Option<u32>) -> Vec<DoctorFinding> {
    let (now, entries) = (clock::now_ms(), history::read(&home.log_dir()));
    let deaths = history::crash_times(&entries, running);
    vec![restarts(now, &deaths, home), panics(now, &home.log_dir().join(daemon::LOG_FILE))]
}

fn restarts(now: i64, deaths: &[i64], home: &ProvostHome) -> DoctorFinding {
    let recent = deaths.iter().filter(|at| now.saturating_sub(**at) <= WINDOW_MS).count();
    match recent {
        0..TOO_MANY => DoctorFinding::ok("restarts", "the daemon is not crashing repeatedly"),
        _ => DoctorFinding::warn(
            "restarts",
            format!("the daemon crashed {recent} times within 10 minutes"),
            format!(
                "check the logs in {}, then run `provost ledger verify`",
                home.log_dir().display()
            ),
        ),
    }
}

fn panics(now: i64, log: &Path) -> DoctorFinding {
    let (log_tail, written_ms) = tail(log).unwrap_or_default();
    let panics: Vec<&str> = log_tail.lines().filter(|line| line.contains("panicked at")).collect();
    match panics.last() {
        None => DoctorFinding::ok("daemon log", "no panics"),
        Some(last) => {
            let last: String = last.chars().take(MAX_PANIC_MESSAGE).collect();
            let (count, when) = (panics.len(), ago(now, written_ms));
            DoctorFinding::warn(
                "daemon log",
                format!("{count} panics, log last written {when}: {last}"),
                format!("report the panic with {}, then remove that file", log.display()),
            )
        }
    }
}

/// Returns the last part of a file as text, and the time of its last modification.
fn tail(path: &Path) -> std::io::Result<(String, i64)> {
    let mut file = agent_file::open(path)?;
    let about = file.metadata()?;
    file.seek(SeekFrom::Start(about.len().saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    let written = about.modified()?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let written_ms = i64::try_from(written.as_millis()).unwrap_or(i64::MAX);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), written_ms))
}

#[cfg(test)]
mod tests {
    use provost_agent::front_end::FindingLevel;

    use super::*;

    #[test]
    fn panic_in_log_is_reported_with_location() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("daemon.log");
        assert_eq!(panics(0, &log).level, FindingLevel::Ok, "a missing log has no panics");
        let text = "hello\nthread 'owner' (7) panicked at src/x.rs:1:2:\nboom\n";
        std::fs::write(&log, text).unwrap();
        let found = panics(0, &log);
        assert_eq!(found.level, FindingLevel::Warn);
        assert!(found.found.contains("1 panics") && found.found.contains("src/x.rs:1:2"));
    }

    #[test]
    fn old_deaths_do_not_count() {
        let home = ProvostHome { path: "/h".into() };
        let now = 100 * WINDOW_MS;
        assert_eq!(restarts(now, &[1, 2, 3, now, now], &home).level, FindingLevel::Ok);
        assert_eq!(restarts(now, &[1, now, now, now], &home).level, FindingLevel::Warn);
    }
}
