//! The drop box: reports that an agent wrote down because no daemon answered. None is lost, none counts twice.
//!
//! One file per report in the launch's directory, written by rename, its name the report's key.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use provost_api::ReportRequest;
use provost_core::ids::LaunchId;

/// The directory of reports in a launch's directory.
const DIRECTORY: &str = "drop";

/// A longer file was not written by `provost report`.
const MAX_REPORT: u64 = 1 << 20;

/// More reports than this are left for the next look.
const MAX_REPORTS: usize = 1_000;

/// A report that waits in the box.
#[derive(Debug)]
pub struct Dropped {
    pub path: PathBuf,
    pub key: String,
    pub report: ReportRequest,
}

/// Puts a report into the box of a launch.
pub fn put(launch_dir: &Path, key: &str, report: &ReportRequest) -> io::Result<PathBuf> {
    let directory = launch_dir.join(DIRECTORY);
    fs::create_dir_all(&directory)?;
    let (new, path) = (directory.join(format!(".{key}")), directory.join(format!("{key}.json")));
    fs::write(&new, serde_json::to_vec(report)?)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(&new, &path)?;
    Ok(path)
}

/// Takes the reports of a launch out of its box, oldest first. What is no report of this launch is left alone.
pub(crate) fn waiting(launch_dir: &Path, launch: LaunchId, token: &str) -> Vec<Dropped> {
    let entries = fs::read_dir(launch_dir.join(DIRECTORY)).into_iter().flatten().flatten();
    let mut found: Vec<(std::time::SystemTime, Dropped)> = entries
        .take(MAX_REPORTS)
        .filter_map(|entry| {
            let about = entry
                .metadata()
                .ok()
                .filter(|about| about.is_file() && about.len() <= MAX_REPORT)?;
            let dropped = read(entry.path())?;
            let own = dropped.report.launch.as_deref() == Some(launch.to_string().as_str());
            let proved = dropped.report.token.as_deref() == Some(token);
            (own && proved).then_some((about.modified().ok()?, dropped))
        })
        .collect();
    found.sort_by_key(|(written, _)| *written);
    found.into_iter().map(|(_, dropped)| dropped).collect()
}

fn read(path: PathBuf) -> Option<Dropped> {
    let name = path.file_name()?.to_str()?;
    let key = name.strip_suffix(".json").filter(|key| !key.starts_with('.'))?.to_owned();
    let report = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    Some(Dropped { path, key, report })
}
