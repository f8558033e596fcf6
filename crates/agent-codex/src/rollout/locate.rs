//! Finds rollout files below `sessions` and `archived_sessions` in one or several Codex homes.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};

use crate::ThreadId;

/// The directories to search, and the number of levels below them: year, month, day.
const DIRECTORIES: [(&str, usize); 2] = [("sessions", 3), ("archived_sessions", 3)];
/// The maximum number of entries to examine in one search.
const MAX_ENTRIES: usize = 200_000;

/// The Codex homes to search.
#[derive(Debug, Clone)]
pub struct CodexHomes {
    homes: Vec<PathBuf>,
    most_entries: usize,
}

/// A rollout file, identified by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rollout {
    pub path: PathBuf,
    pub thread: ThreadId,
    pub archived: bool,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct RolloutSearch {
    /// The files ordered by name, oldest first. The last one contains the continuation of the
    /// thread.
    pub rollouts: Vec<Rollout>,
    /// The paths that could not be read, each with its error.
    pub skipped: Vec<(PathBuf, io::Error)>,
    /// Whether the search stopped at its limit.
    pub truncated: bool,
}

impl CodexHomes {
    pub fn new(homes: Vec<PathBuf>) -> Self {
        Self { homes, most_entries: MAX_ENTRIES }
    }

    /// Returns the files of a thread. There are several if its history was rewound, or copied to
    /// another home.
    pub fn find(&self, thread: &ThreadId) -> RolloutSearch {
        self.search(&mut |rollout| rollout.thread == *thread, usize::MAX)
    }

    /// Returns the newest files of all threads, by name.
    pub fn newest(&self, most: usize) -> RolloutSearch {
        self.search(&mut |_| true, most)
    }

    fn search(&self, wanted: &mut dyn FnMut(&Rollout) -> bool, most: usize) -> RolloutSearch {
        let mut search = RolloutWalk {
            found: RolloutSearch::default(),
            left: self.most_entries,
            wanted,
            most,
            taken_here: 0,
        };
        for home in &self.homes {
            for (name, depth) in DIRECTORIES {
                search.taken_here = 0;
                search.directory(&home.join(name), depth, name == "archived_sessions");
            }
        }
        let mut found = search.found;
        found.rollouts.sort_by(|a, b| order(a).cmp(&order(b)));
        found.rollouts.dedup_by(|later, earlier| same_but_compressed(later, earlier));
        let surplus = found.rollouts.len().saturating_sub(most);
        found.rollouts.drain(..surplus);
        found
    }
}

impl Rollout {
    /// Recognizes a file by its name. It is archived if it is below the directory for that.
    pub fn from_any_path(path: &Path) -> Option<Self> {
        let archived = path.iter().any(|part| part == OsStr::new(DIRECTORIES[1].0));
        Rollout::from_path(path, archived)
    }

    /// Recognizes a file by its name, `rollout-TIME-THREAD.jsonl`, which may be compressed.
    pub fn from_path(path: &Path, archived: bool) -> Option<Self> {
        let stem = stem(path)?.strip_prefix("rollout-")?;
        // The time looks like 2026-11-15T18-49-53, and the id follows it.
        let id = stem.get(20..)?;
        if stem.as_bytes()[19] != b'-' {
            return None;
        }
        Some(Self { thread: ThreadId::parse(id)?, path: path.to_owned(), archived })
    }
}

struct RolloutWalk<'a> {
    found: RolloutSearch,
    left: usize,
    wanted: &'a mut dyn FnMut(&Rollout) -> bool,
    most: usize,
    /// The number of files taken from the current directory. Directories of days are visited newest
    /// first.
    taken_here: usize,
}

impl RolloutWalk<'_> {
    /// Searches a directory. Does not follow symbolic links, because they may lead outside of the
    /// home.
    fn directory(&mut self, directory: &Path, depth: usize, archived: bool) {
        let mut entries = match self.entries(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.found.skipped.push((directory.to_owned(), error)),
        };
        entries.sort_by_key(|entry| Reverse(entry.file_name()));
        for entry in entries {
            if self.taken_here >= self.most {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 => {
                    self.directory(&entry.path(), depth - 1, archived)
                }
                Ok(kind) if kind.is_file() => self.file(&entry, archived),
                Ok(kind) if kind.is_symlink() => self.found.skipped.push((entry.path(), link())),
                Ok(_) => {}
                Err(error) => self.found.skipped.push((entry.path(), error)),
            }
        }
    }

    fn file(&mut self, entry: &DirEntry, archived: bool) {
        let rollout =
            Rollout::from_path(&entry.path(), archived).filter(|rollout| (self.wanted)(rollout));
        self.taken_here += usize::from(rollout.is_some());
        self.found.rollouts.extend(rollout);
    }

    fn entries(&mut self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory)? {
            if self.left == 0 {
                self.found.truncated = true;
                break;
            }
            self.left -= 1;
            entries.push(entry?);
        }
        Ok(entries)
    }
}

fn link() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "links are not followed")
}

fn stem(path: &Path) -> Option<&str> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".zst").unwrap_or(name).strip_suffix(".jsonl")
}

/// Returns the sort key, which is the name and then the directory. If two files have the same name,
/// the uncompressed one comes first.
fn order(rollout: &Rollout) -> (Option<&str>, Option<&Path>, usize) {
    let length = rollout.path.as_os_str().len();
    (stem(&rollout.path), rollout.path.parent(), length)
}

fn same_but_compressed(later: &Rollout, earlier: &Rollout) -> bool {
    stem(&later.path) == stem(&earlier.path) && later.path.parent() == earlier.path.parent()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const THREAD: &str = "01a1e08b-614a-7c61-a49a-d6ec86726bf8";
    const OTHER: &str = "01a1e08b-614a-7c61-a49a-d6ec86726bf9";

    fn thread() -> ThreadId {
        ThreadId::parse(THREAD).unwrap()
    }

    fn touch(home: &Path, directory: &str, time: &str, thread: &str, end: &str) -> PathBuf {
        let directory = home.join(directory);
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(format!("rollout-{time}-{thread}.{end}"));
        fs::write(&path, "").unwrap();
        path
    }

    fn paths(found: &RolloutSearch) -> Vec<&Path> {
        found.rollouts.iter().map(|rollout| rollout.path.as_path()).collect()
    }

    #[test]
    fn thread_files_are_found_in_all_homes() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let late = touch(one.path(), "sessions/2026/11/16", "2026-11-16T01-00-00", THREAD, "jsonl");
        let early =
            touch(one.path(), "archived_sessions", "2026-11-15T18-49-53", THREAD, "jsonl.zst");
        let middle =
            touch(two.path(), "sessions/2026/11/15", "2026-11-15T20-00-00", THREAD, "jsonl");
        touch(one.path(), "sessions/2026/11/16", "2026-11-16T01-00-00", OTHER, "jsonl");
        touch(one.path(), "sessions/2026/11/16", "2026-11-16T01-00-00", THREAD, "txt");
        let places =
            CodexHomes::new(vec![one.path().into(), two.path().into(), "/nonexistent".into()]);
        let found = places.find(&thread());
        assert_eq!(paths(&found), [&early, &middle, &late]);
        assert_eq!(
            found.rollouts.iter().map(|r| r.archived).collect::<Vec<_>>(),
            [true, false, false]
        );
        assert!(found.skipped.is_empty() && !found.truncated, "{found:?}");
    }

    #[test]
    fn plain_file_wins_over_compressed() {
        let home = tempfile::tempdir().unwrap();
        let plain =
            touch(home.path(), "sessions/2026/11/16", "2026-11-16T01-00-00", THREAD, "jsonl");
        touch(home.path(), "sessions/2026/11/16", "2026-11-16T01-00-00", THREAD, "jsonl.zst");
        let found = CodexHomes::new(vec![home.path().into()]).find(&thread());
        assert_eq!(paths(&found), [&plain]);
    }

    #[test]
    fn links_are_reported_not_followed() {
        let (home, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = touch(outside.path(), "11", "2026-11-16T01-00-00", THREAD, "jsonl");
        fs::create_dir_all(home.path().join("sessions/2026/12/01")).unwrap();
        symlink(outside.path().join("11"), home.path().join("sessions/2026/11")).unwrap();
        let name = target.file_name().unwrap();
        symlink(&target, home.path().join("sessions/2026/12/01").join(name)).unwrap();
        let found = CodexHomes::new(vec![home.path().into()]).find(&thread());
        assert!(found.rollouts.is_empty());
        assert_eq!(found.skipped.len(), 2, "{found:?}");
    }

    #[test]
    fn search_is_bounded() {
        let home = tempfile::tempdir().unwrap();
        for second in 10..20 {
            let time = format!("2026-11-16T01-00-{second}");
            touch(home.path(), "sessions/2026/11/16", &time, THREAD, "jsonl");
        }
        let places = CodexHomes { most_entries: 9, ..CodexHomes::new(vec![home.path().into()]) };
        assert!(places.find(&thread()).truncated);
        let newest = CodexHomes::new(vec![home.path().into()]).newest(2);
        let names =
            paths(&newest).iter().map(|path| stem(path).unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(
            names,
            [18, 19].map(|second| format!("rollout-2026-11-16T01-00-{second}-{THREAD}"))
        );
    }
}
