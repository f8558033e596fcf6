//! The drop box: reports that an agent wrote to files because no daemon answered. None is lost,
//! none counts twice.
//!
//! One file per report, written by rename, named by its launch and its key. There is one box in the
//! home, and one for each session whose agent runs in a sandbox that allows neither that box nor a
//! socket.
//!
//! The author of a file is unproven: every process of the user can read a token. So a report from a
//! box is recorded as such, and a session with its own box is not represented through the home's.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use provost_api::{ErrorCode, ReportRequest};
use provost_core::{ids::LaunchId, session::Reporter};
use provost_sys::{agent_file, private};

use super::{
    executor::EngineWorld,
    handle::{EngineHandle, EngineRequest},
    home::Home,
    supervised_command, watch,
};
use crate::report;

/// A longer file was not written by `provost report`.
const MAX_REPORT: u64 = 1 << 20;

/// More reports than this are left for the next pass.
const MAX_REPORTS: usize = 1_000;

/// More names than this in one box are ignored.
const MAX_ENTRIES: usize = 10_000;

/// A report that waits in the box.
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

/// Puts a report of a launch into a box.
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

/// Sends every report in the home's box to the owner, or those of one launch from both of its
/// boxes. Files that are not reports are left alone.
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
            // A file that stays is recognised by its key the next time.
            supervised_command::blocking(move || fs::remove_file(&dropped.path)).await.ok();
        }
    }
}

/// Whether a launch may use this box. A session's own box is out of reach of other agents'
/// sandboxes; the home's may not be.
fn may_use_box(home: &Home, directory: &Path, launch: LaunchId) -> bool {
    let own = home.agent_drop_box(launch.session);
    directory == own || !own.exists()
}

/// Detects changes of a session's box, so that the box is not read on every line of its agent.
#[derive(Debug, Default)]
pub(crate) struct DropBoxWatch {
    settled: Option<i128>,
}

/// A change this soon after a read could have the same time: file systems keep it in steps of a few
/// ms.
const STEP_NS: i128 = 50_000_000;

impl DropBoxWatch {
    /// Whether the box may have new files since it was last read, at this moment of the wall clock.
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

/// Records a report under its key, so that it counts once however often it is read.
async fn record_report(
    world: &EngineWorld,
    handle: &EngineHandle,
    dropped: &DroppedReport,
) -> bool {
    let actor = format!("drop/{}", dropped.launch);
    // The same key as over the socket, where the same report may have arrived.
    let key = format!("launch/{}/report/{}", dropped.launch, dropped.key);
    if let Some(hook) = &dropped.report.hook {
        let taken = watch::take_hook_event(world, handle, dropped.launch, hook, &actor, &key).await;
        return !matches!(taken, Err(error) if error.code == ErrorCode::Unreachable);
    }
    match report::parse_testimony(&dropped.report) {
        // An unreadable report is dropped.
        Err(_) => true,
        Ok(testimony) => {
            let from = Reporter::DropBox(dropped.launch);
            let ask = EngineRequest::Report { session: None, from, testimony };
            match handle.request(ask, &actor, Some(key)).await {
                Ok(_) => true,
                // The launch's budget is used up, which its session shows. The file would be
                // refused again.
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
