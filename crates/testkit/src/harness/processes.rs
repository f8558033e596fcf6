//! Finds and kills the processes of a home. They are recognized by two marks that they cannot
//! easily remove: their environment and their working directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use provost_sys::stat::ProcStat;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A living process, with its start time to detect a reused pid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HomeProcess {
    pub(super) pid: i32,
    start_time: u64,
    parent: i32,
    pub(super) command: String,
}

/// Returns the living processes of a home, except this one and its ancestors. A process belongs to
/// the home if its `PROVOST_HOME` or working directory is below `root`, or if its `PROVOST_LAUNCH`
/// is among `launches`.
pub(super) fn belonging_to(
    root: &Path,
    launches: &BTreeSet<String>,
) -> io::Result<Vec<HomeProcess>> {
    let own = own_ancestors();
    let living = living()?;
    let hidden = HiddenProcesses::find(root)?;
    let belongs =
        |found: &HomeProcess| is_marked(found.pid, root, launches) || hidden.contains(found.pid);
    Ok(living.into_iter().filter(|found| !own.contains(&found.pid) && belongs(found)).collect())
}

/// Returns the living process with this pid.
pub(super) fn process(pid: i32) -> Option<HomeProcess> {
    let stat = ProcStat::read_visible(u32::try_from(pid).ok()?).ok()??;
    let parent = i32::try_from(stat.ppid).ok()?;
    let start_time = stat.start_time;
    stat.is_living().then(|| HomeProcess { pid, start_time, parent, command: command_line(pid) })
}

impl HomeProcess {
    pub(super) fn is_alive(&self) -> bool {
        process(self.pid).is_some_and(|now| now.start_time == self.start_time)
    }

    /// Kills exactly this process, and not another one that reuses its pid.
    pub(super) fn kill(&self) -> io::Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        if !self.is_alive() {
            return Ok(());
        }
        match pidfd_send_signal(&pidfd, Signal::KILL) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn living() -> io::Result<Vec<HomeProcess>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let pid = entry?.file_name().to_string_lossy().parse().ok();
        found.extend(pid.and_then(process));
    }
    Ok(found)
}

/// Returns this process and its ancestors, because the test runner is not a leftover.
fn own_ancestors() -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(pid) = next.filter(|pid| *pid > 0 && line.insert(*pid)) {
        next = process(pid).map(|found| found.parent);
    }
    line
}

/// The daemon and the holders of a home. A test that is not root cannot read their environment, so
/// they are identified by the lock on the ledger and by their command lines.
struct HiddenProcesses<'a> {
    root: &'a Path,
    daemons: Vec<u32>,
}

impl HiddenProcesses<'_> {
    fn find(root: &Path) -> io::Result<HiddenProcesses<'_>> {
        let lock = root.join("home/ledger/ledger.lock");
        Ok(HiddenProcesses { root, daemons: provost_sys::lock::owners_of(&lock)? })
    }

    fn contains(&self, pid: i32) -> bool {
        let Ok(pid) = u32::try_from(pid) else { return false };
        let held = provost_sys::origin::holder_directory(pid);
        self.daemons.contains(&pid) || held.is_some_and(|dir| dir.starts_with(self.root))
    }
}

/// Whether a process is marked. A process that another user owns, or that has just exited, cannot
/// be read and does not count.
fn is_marked(pid: i32, root: &Path, launches: &BTreeSet<String>) -> bool {
    let below = |path: &Path| path.starts_with(root);
    let cwd = fs::read_link(format!("/proc/{pid}/cwd")).map(without_deleted);
    cwd.is_ok_and(|cwd| below(&cwd)) || {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| {
            let home = variable
                .strip_prefix(b"PROVOST_HOME=")
                .is_some_and(|home| below(Path::new(OsStr::from_bytes(home))));
            let launch = variable
                .strip_prefix(b"PROVOST_LAUNCH=")
                .and_then(|launch| std::str::from_utf8(launch).ok());
            home || launch.is_some_and(|launch| launches.contains(launch))
        })
    }
}

/// Removes the suffix that the kernel adds to the path of a deleted working directory.
fn without_deleted(cwd: PathBuf) -> PathBuf {
    match cwd.as_os_str().as_bytes().strip_suffix(b" (deleted)") {
        Some(path) => PathBuf::from(OsStr::from_bytes(path)),
        None => cwd,
    }
}

fn command_line(pid: i32) -> String {
    let words =
        u32::try_from(pid).ok().and_then(|pid| provost_sys::process::command_line(pid).ok());
    let words = words.unwrap_or_default().into_iter();
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
