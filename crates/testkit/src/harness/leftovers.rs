//! Leftovers of a test: processes, listening sockets, stray worktrees, panics in logs.
//!
//! A test's home is a directory whose name starts with [`PREFIX`]; it contains `home` (the
//! `PROVOST_HOME`), `repos` and a few more. If a check fails, the result contains a finding and is
//! never empty.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::Value;

use super::processes::{self, HomeProcess};
use super::repo;

/// The prefix of the directories of test homes.
pub(super) const PREFIX: &str = "pv-";
/// Maximum depth of the search for sockets and launches below a test's directory.
const MAX_DEPTH: usize = 8;
/// Directories that contain work rather than state, and may be large.
const NOT_SEARCHED: &[&str] = &[".git", "target", "node_modules"];

/// Describes the leftovers of one test's home. Empty for a clean home.
pub fn leftovers(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let state = LeftoverWalk::through(root, &mut found);
    match processes::belonging_to(root, &state.launches) {
        Ok(left) => found.extend(left.iter().map(process_line)),
        Err(error) => found.push(format!("cannot list processes: {error}")),
    }
    found.extend(state.sockets.iter().filter_map(|socket| accepting_line(socket)));
    found.extend(panics(&root.join("home/log")));
    found.extend(stray_worktrees(root));
    found
}

/// Describes the leftovers of all tests with homes below `test_root`, including the homes themselves.
pub fn leftovers_under(test_root: &Path) -> Vec<String> {
    let test_root = &test_root.canonicalize().unwrap_or_else(|_| test_root.to_owned());
    let homes = match homes_under(test_root) {
        Ok(homes) => homes,
        Err(error) => return vec![format!("cannot list {}: {error}", test_root.display())],
    };
    let mut found = Vec::new();
    for home in homes {
        found.push(format!("home left behind: {}", home.display()));
        found.extend(leftovers(&home));
    }
    match processes::belonging_to(test_root, &BTreeSet::new()) {
        Ok(left) => found.extend(left.iter().map(process_line)),
        Err(error) => found.push(format!("cannot list processes: {error}")),
    }
    found.sort();
    found.dedup();
    found
}

/// Returns the living processes of one test's home.
pub(super) fn processes_of(root: &Path) -> io::Result<Vec<HomeProcess>> {
    processes::belonging_to(root, &LeftoverWalk::through(root, &mut Vec::new()).launches)
}

/// The findings of a walk through a test's directory.
#[derive(Default)]
struct LeftoverWalk {
    sockets: Vec<PathBuf>,
    /// The keys of the launches whose records exist.
    launches: BTreeSet<String>,
}

impl LeftoverWalk {
    fn through(root: &Path, troubles: &mut Vec<String>) -> Self {
        let mut walk = Self::default();
        walk.enter(root, 0, troubles);
        walk
    }

    fn enter(&mut self, dir: &Path, depth: usize, troubles: &mut Vec<String>) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            // The directory was removed in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => {
                return troubles.push(format!("cannot list {}: {error}", dir.display()));
            }
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if kind.is_dir() {
                if depth < MAX_DEPTH && !NOT_SEARCHED.iter().any(|skipped| name == *skipped) {
                    self.enter(&entry.path(), depth + 1, troubles);
                }
            } else if kind.is_socket() {
                self.sockets.push(entry.path());
            } else if name == "held.json" {
                self.launches.extend(launch_key(&entry.path()));
            }
        }
    }
}

fn launch_key(record: &Path) -> Option<String> {
    let record: Value = serde_json::from_slice(&fs::read(record).ok()?).ok()?;
    record["key"].as_str().map(str::to_owned)
}

fn process_line(process: &HomeProcess) -> String {
    format!("process left running: {} {}", process.pid, process.command)
}

fn accepting_line(socket: &Path) -> Option<String> {
    match is_listening(socket) {
        Ok(true) => Some(format!("socket that accepts: {}", socket.display())),
        Ok(false) => None,
        Err(error) => Some(format!("cannot connect to the socket {}: {error}", socket.display())),
    }
}

/// Tries to connect to a socket without waiting. A full queue also means that a process is
/// listening.
fn is_listening(path: &Path) -> io::Result<bool> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
    let Some(dir) = missing_as_none(File::open(dir))? else { return Ok(false) };
    // The path uses the directory's descriptor, because a socket address has at most 107 bytes.
    let short = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    let address = SocketAddrUnix::new(&short)?;
    for kind in [SocketType::STREAM, SocketType::SEQPACKET] {
        let socket = socket_with(
            AddressFamily::UNIX,
            kind,
            SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
            None,
        )?;
        match connect(&socket, &address) {
            Ok(()) | Err(rustix::io::Errno::AGAIN) => return Ok(true),
            Err(rustix::io::Errno::PROTOTYPE) => {}
            Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}

/// Returns the lines of a home's logs that report a panic.
fn panics(log: &Path) -> Vec<String> {
    let files = match missing_as_none(fs::read_dir(log)) {
        Ok(Some(files)) => files,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![format!("cannot list {}: {error}", log.display())],
    };
    files.flatten().flat_map(|file| panics_in(&file.path())).collect()
}

fn panics_in(path: &Path) -> Vec<String> {
    if path.is_dir() {
        return panics(path);
    }
    match missing_as_none(File::open(path)) {
        Ok(Some(file)) => {
            let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
            let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
            lines
                .filter(|line| line.contains("panicked at"))
                .map(|line| format!("panic in {}: {line}", path.display()))
                .collect()
        }
        Ok(None) => Vec::new(),
        Err(error) => vec![format!("cannot read {}: {error}", path.display())],
    }
}

/// Describes worktrees that a sample repository has registered but that no longer exist or are
/// outside the test's directory.
fn stray_worktrees(root: &Path) -> Vec<String> {
    let repos = match missing_as_none(fs::read_dir(root.join("repos"))) {
        Ok(Some(repos)) => repos,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![format!("cannot list repositories: {error}")],
    };
    repos.flatten().flat_map(|repo| strays_of(&repo.path(), root)).collect()
}

fn strays_of(repo: &Path, root: &Path) -> Vec<String> {
    let worktrees = match repo::worktrees(repo) {
        Ok(worktrees) => worktrees,
        Err(why) => return vec![why],
    };
    let is_known = |worktree: &PathBuf| worktree.is_dir() && worktree.starts_with(root);
    let strays = worktrees.into_iter().filter(|worktree| !is_known(worktree));
    strays
        .map(|stray| format!("stray worktree of {}: {}", repo.display(), stray.display()))
        .collect()
}

fn homes_under(test_root: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(entries) = missing_as_none(fs::read_dir(test_root))? else { return Ok(Vec::new()) };
    let homes =
        entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    Ok(homes.map(|entry| entry.path()).collect())
}

/// Maps a missing file to `None`, because it cannot be a leftover.
fn missing_as_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
