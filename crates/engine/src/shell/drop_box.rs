//! The drop box: reports that an agent wrote to files because the daemon could not be reached. Every report is recorded
//! exactly once.
//!
//! Each report is a separate file, which is moved into place with a rename and is named after its launch and key. The
//! home contains one box for all sessions. If the sandbox of a session's agent permits access neither to that box nor
//! to a socket, the session has a box of its own.
//!
//! Nothing proves who wrote a file, because every process of the user can read a token. Therefore,
//! a report from a box is recorded as coming from a box, and reports for a session that has its own
//! box are not accepted from the home's box.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use provost_api::{ErrorCode, ReportRequest};
use provost_core::{ids::LaunchId, session::Reporter};
use provost_sys::{agent_file, private};

use super::{
    engine_world::EngineWorld,
    handle::{EngineHandle, EngineRequest},
    home::Home,
    supervised_command, watch,
};
use crate::report;

/// A file longer than this was not written by `provost report`.
const MAX_REPORT: u64 = 1 << 20;

/// Maximum number of reports to read in one pass. The rest wait for the next pass.
const MAX_REPORTS: usize = 1_000;

/// If a box contains more entries than this, the rest are ignored.
const MAX_ENTRIES: usize = 10_000;

/// A report that is waiting in the box.
#[derive(Debug)]
struct DroppedReport {
    path: PathBuf,
    launch: LaunchId,
    key: String,
    report: ReportRequest,
}

/// Returns the path of the box in the home.
pub fn home_box(home: &Path) -> PathBuf {
    Home::new(home).drop_box()
}

/// Puts a report from a launch into a box.
pub fn put_report(
    directory: &Path,
    launch: LaunchId,
    key: &str,
    report: &ReportRequest,
) -> io::Result<PathBuf> {
    private::create_dir_all(directory)?;
    let path = directory.join(format!("{launch}~{key}.json"));
    let new = directory.join(format!(".{launch}~{key}"));
    private::write(&new, &serde_json::to_vec(report)?)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    Ok(path)
}

/// Sends every report in the home's box to the owner or, if `only` is given, the reports of that
/// launch from both of its boxes. Files that are not reports are left alone.
pub(crate) async fn collect_reports(
    world: &EngineWorld,
    handle: &EngineHandle,
    only: Option<LaunchId>,
) {
    collect_box(world, handle, &world.home.drop_box(), only).await;
    if let Some(launch) = only {
        collect_box(world, handle, &world.home.agent_drop_box(launch.session), only).await;
    }
}

async fn collect_box(
    world: &EngineWorld,
    handle: &EngineHandle,
    directory: &Path,
    only: Option<LaunchId>,
) {
    let (home, place) = (world.home.clone(), directory.to_owned());
    let found = supervised_command::blocking(move || {
        let mut found = read_reports(&place, only);
        found.retain(|dropped| may_use_box(&home, &place, dropped.launch));
        found
    });
    for dropped in found.await {
        if dropped.report.token.as_deref() != Some(world.token(dropped.launch).as_str()) {
            continue;
        }
        if record_report(world, handle, &dropped).await {
            // If the file cannot be removed, the report is recognized by its key the next time.
            supervised_command::blocking(move || fs::remove_file(&dropped.path)).await.ok();
        }
    }
}

/// Whether a launch may use this box. The sandboxes of other agents prevent access to a session's
/// own box, but not necessarily to the home's box.
fn may_use_box(home: &Home, directory: &Path, launch: LaunchId) -> bool {
    let own = home.agent_drop_box(launch.session);
    directory == own || !own.exists()
}

/// Detects changes to a session's box, so that the box need not be read for every line that its
/// agent prints.
#[derive(Debug, Default)]
pub(crate) struct DropBoxWatch {
    settled: Option<i128>,
}

/// Two changes within this time may have the same timestamp, because file systems record timestamps
/// in steps of a few milliseconds.
const STEP_NS: i128 = 50_000_000;

impl DropBoxWatch {
    /// Whether the box may contain new files since it was last read. `now_ms` is the wall-clock time.
    pub(crate) fn changed(&mut self, directory: &Path, now_ms: i64) -> bool {
        let Ok(about) = fs::symlink_metadata(directory) else { return false };
        let changed = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        if self.settled == Some(changed) {
            return false;
        }
        let old = i128::from(now_ms) * 1_000_000 - changed > STEP_NS;
        self.settled = old.then_some(changed);
        true
    }
}

/// Records a report under its key, so that it counts only once, no matter how often it is read.
async fn record_report(
    world: &EngineWorld,
    handle: &EngineHandle,
    dropped: &DroppedReport,
) -> bool {
    let actor = format!("drop/{}", dropped.launch);
    // Reports on the socket use the same key, because the same report may also have arrived on the socket.
    let key = format!("launch/{}/report/{}", dropped.launch, dropped.key);
    if let Some(hook) = &dropped.report.hook {
        let taken = watch::take_hook_event(world, handle, dropped.launch, hook, &actor, &key).await;
        return !matches!(taken, Err(error) if error.code == ErrorCode::Unreachable);
    }
    match report::parse_testimony(&dropped.report) {
        // Drop a report that cannot be parsed.
        Err(_) => true,
        Ok(testimony) => {
            let from = Reporter::DropBox(dropped.launch);
            let ask = EngineRequest::Report { session: None, from, testimony };
            match handle.request(ask, &actor, Some(key)).await {
                Ok(_) => true,
                // The launch has used up its report budget, and its session already shows this. Drop the report,
                // because it would be refused again.
                Err(error) => error.code == ErrorCode::Refused,
            }
        }
    }
}

/// Reads the reports in the box, oldest first.
fn read_reports(directory: &Path, only: Option<LaunchId>) -> Vec<DroppedReport> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(MAX_ENTRIES);
    let mut found: Vec<(std::time::SystemTime, DroppedReport)> =
        entries.filter_map(|entry| read_report(entry.path(), only)).take(MAX_REPORTS).collect();
    found.sort_by_key(|(written, _)| *written);
    found.into_iter().map(|(_, dropped)| dropped).collect()
}

fn read_report(
    path: PathBuf,
    only: Option<LaunchId>,
) -> Option<(std::time::SystemTime, DroppedReport)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".json")?;
    let (launch, key) = name.split_once('~')?;
    let (launch, key) = (launch.parse().ok()?, key.to_owned());
    if only.is_some_and(|only| only != launch) {
        return None;
    }
    let written = fs::symlink_metadata(&path).ok()?.modified().ok()?;
    let bytes = agent_file::read(&path, MAX_REPORT).ok()?;
    let report: ReportRequest = serde_json::from_slice(&bytes).ok()?;
    let own = report.launch.as_deref() == Some(format!("{launch}").as_str());
    own.then_some((written, DroppedReport { path, launch, key, report }))
}
