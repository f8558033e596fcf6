//! Watches for the creation or growth of a file through a pollable descriptor, at no cost while
//! nothing happens.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::FileId;

/// The events to watch for on an existing file.
const FILE_EVENTS: WatchFlags = WatchFlags::MODIFY
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF);
/// The events to watch for on a directory in which a file is expected to appear.
const DIRECTORY_EVENTS: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::ONLYDIR);
/// The events that mean that a file has appeared.
const CREATION_EVENTS: ReadFlags = ReadFlags::CREATE.union(ReadFlags::MOVED_TO);
/// The number of directory levels below `sessions`: year, month and day.
const LEVELS: usize = 3;

/// A watch on a file, or on the directories in which it is expected to appear.
#[derive(Debug)]
pub struct RolloutFileWatch {
    inotify: OwnedFd,
    target: InotifyTarget,
    watched: Vec<(InotifyPath, i32)>,
    /// Whether a file has appeared in a directory since the last query.
    appeared: bool,
}

/// An existing file or directory, together with its identity, because its name may be reused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct InotifyPath {
    path: PathBuf,
    id: FileId,
}

#[derive(Debug)]
enum InotifyTarget {
    File(PathBuf),
    /// Any file below the `sessions` directory, in which Codex creates a directory for each day.
    Sessions(PathBuf),
    /// A file, and any other files that appear below `sessions`. One descriptor watches both,
    /// because the system limits how many a user may have.
    Both(PathBuf, PathBuf),
}

impl RolloutFileWatch {
    /// Watches a file or, while it does not exist, its nearest existing ancestor directory.
    pub fn file(path: &Path) -> io::Result<Self> {
        Self::new(InotifyTarget::File(path.to_owned()))
    }

    /// Watches for files that appear below the `sessions` directory of a home.
    pub fn sessions(directory: &Path) -> io::Result<Self> {
        Self::new(InotifyTarget::Sessions(directory.to_owned()))
    }

    /// Watches a file, and any other files that appear below the `sessions` directory of a home.
    pub fn watch_file_and_sessions(path: &Path, directory: &Path) -> io::Result<Self> {
        Self::new(InotifyTarget::Both(path.to_owned(), directory.to_owned()))
    }

    /// Whether a file has appeared in a directory since the last call.
    pub fn has_appeared(&mut self) -> bool {
        std::mem::take(&mut self.appeared)
    }

    fn new(target: InotifyTarget) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let mut watch = Self { inotify, target, watched: Vec::new(), appeared: false };
        watch.arm()?;
        Ok(watch)
    }

    /// Drains pending events and updates the watches. Returns true if something may have changed,
    /// possibly in another file.
    pub fn drain_events(&mut self) -> io::Result<bool> {
        let mut any = false;
        while self.drain()? {
            any = true;
            self.arm()?;
        }
        Ok(any)
    }

    fn drain(&mut self) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut space);
        let mut any = false;
        loop {
            match reader.next() {
                Ok(event) => {
                    any |= !event.events().contains(ReadFlags::IGNORED);
                    self.appeared |= event.events().intersects(CREATION_EVENTS);
                }
                Err(Errno::AGAIN) => return Ok(any),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Watches exactly the required paths. Repeats this until no path has appeared between the
    /// check and the watch.
    fn arm(&mut self) -> io::Result<()> {
        loop {
            let wanted = self.target.existing_paths();
            let is_watched =
                |wanted: &InotifyPath| self.watched.iter().any(|(watched, _)| watched == wanted);
            if wanted.iter().all(is_watched) && wanted.len() == self.watched.len() {
                return Ok(());
            }
            self.forget_all_but(&wanted);
            self.add(wanted)?;
        }
    }

    fn forget_all_but(&mut self, wanted: &[InotifyPath]) {
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.watched)
            .into_iter()
            .partition(|(watched, _)| wanted.contains(watched));
        self.watched = kept;
        for (_, descriptor) in gone {
            // If the file was deleted, the kernel has already removed the watch.
            inotify::remove_watch(&self.inotify, descriptor).ok();
        }
    }

    fn add(&mut self, wanted: Vec<InotifyPath>) -> io::Result<()> {
        for wanted in wanted {
            if self.watched.iter().any(|(watched, _)| *watched == wanted) {
                continue;
            }
            let flags = if wanted.path.is_dir() { DIRECTORY_EVENTS } else { FILE_EVENTS };
            match inotify::add_watch(&self.inotify, &wanted.path, flags) {
                Ok(descriptor) => self.watched.push((wanted, descriptor)),
                // The path was removed in the meantime. Its parent directory is watched next.
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl std::os::fd::AsRawFd for RolloutFileWatch {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.inotify.as_raw_fd()
    }
}

impl AsFd for RolloutFileWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

impl InotifyTarget {
    fn existing_paths(&self) -> Vec<InotifyPath> {
        let there = |path: PathBuf| {
            let id = FileId::from_metadata(&std::fs::metadata(&path).ok()?);
            Some(InotifyPath { path, id })
        };
        self.paths().into_iter().filter_map(there).collect()
    }

    fn paths(&self) -> Vec<PathBuf> {
        match self {
            Self::Both(path, directory) => {
                let (file, below) = (Self::File(path.clone()), Self::Sessions(directory.clone()));
                let mut paths = file.paths();
                let more = below.paths().into_iter().filter(|path| !paths.contains(path));
                let more: Vec<PathBuf> = more.collect();
                paths.extend(more);
                paths
            }
            // The watch on the directory reports if the file is replaced by another one of the same
            // name.
            Self::File(path) if path.exists() => {
                path.parent().map(Path::to_owned).into_iter().chain([path.clone()]).collect()
            }
            Self::File(path) => nearest(path).into_iter().collect(),
            Self::Sessions(directory) if directory.is_dir() => newest_days(directory),
            Self::Sessions(directory) => nearest(directory).into_iter().collect(),
        }
    }
}

/// Returns the nearest existing directory above a path.
fn nearest(path: &Path) -> Option<PathBuf> {
    path.ancestors().skip(1).find(|above| above.is_dir()).map(Path::to_owned)
}

/// Returns the directory, its newest year, that year's newest month, and that month's newest day.
fn newest_days(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_owned()];
    let mut at = directory.to_owned();
    for _ in 0..LEVELS {
        let Some(newest) = newest_below(&at) else { break };
        found.push(newest.clone());
        at = newest;
    }
    found
}

fn newest_below(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).ok()?.flatten();
    let is_dated = |name: &OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let dated = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    dated
        .map(|entry| entry.file_name())
        .filter(|name| is_dated(name))
        .max()
        .map(|name| directory.join(name))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Waits until the descriptor is readable, and drains it.
    fn wakes(watch: &mut RolloutFileWatch) -> bool {
        let patience = Timespec { tv_sec: 30, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&*watch, PollFlags::IN)], Some(&patience)).unwrap();
        ready > 0 && watch.drain_events().unwrap()
    }

    fn append(path: &Path) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(b"x").unwrap();
    }

    #[test]
    fn file_growth_wakes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        append(&path);
        let mut watch = RolloutFileWatch::file(&path).unwrap();
        assert!(!watch.drain_events().unwrap());
        append(&path);
        assert!(wakes(&mut watch));
        assert!(!watch.drain_events().unwrap());
        append(&path);
        assert!(wakes(&mut watch));
    }

    #[test]
    fn missing_directories_are_watched() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/file");
        let mut watch = RolloutFileWatch::file(&path).unwrap();
        fs::create_dir(directory.path().join("a")).unwrap();
        assert!(wakes(&mut watch));
        fs::create_dir(directory.path().join("a/b")).unwrap();
        assert!(wakes(&mut watch));
        fs::write(&path, "").unwrap();
        assert!(wakes(&mut watch));
        append(&path);
        assert!(wakes(&mut watch));
    }

    #[test]
    fn replaced_file_wakes() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        append(&path);
        append(&other);
        let mut watch = RolloutFileWatch::file(&path).unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(wakes(&mut watch));
        append(&path);
        assert!(wakes(&mut watch));
    }

    #[test]
    fn new_day_directory_wakes() {
        let home = tempfile::tempdir().unwrap();
        let sessions = home.path().join("sessions");
        let mut watch = RolloutFileWatch::sessions(&sessions).unwrap();
        for day in ["2026/11/15", "2026/11/16", "2027/01/01"] {
            fs::create_dir_all(sessions.join(day)).unwrap();
            assert!(wakes(&mut watch), "{day}");
            fs::write(sessions.join(day).join("rollout"), "").unwrap();
            assert!(wakes(&mut watch), "{day}");
        }
    }
}
