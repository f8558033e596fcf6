//! Finds skills, and directories that look like them, below a root.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{CODEX_OWN, MAX_DEPTH, MAX_DIRECTORIES, RootKind, SKILL_FILE, SkillRoot, SkipReason};

/// The number of levels to search. Codex searches fewer levels, so skills that are too deep for
/// Codex are found and reported too.
const SEARCHED_DEPTH: usize = MAX_DEPTH + 4;

/// An entry to list.
#[derive(Debug)]
pub(super) struct SkillEntry {
    pub(super) path: PathBuf,
    pub(super) spot: EntryKind,
}

/// The kind of a directory entry.
#[derive(Debug)]
pub(super) enum EntryKind {
    Skill,
    Fault(SkipReason),
}

/// Returns all entries to list for a root, ordered by path, with outer skills before inner ones. A
/// native root and the root in the Codex home do not have to exist.
pub(super) fn walk(root: &SkillRoot) -> Vec<SkillEntry> {
    let mut walk = SkillWalk { seen: BTreeSet::new(), found: Vec::new(), is_cut: false };
    match entries(&root.path) {
        Ok(entries) => entries.iter().for_each(|entry| walk.top(entry)),
        Err(error) => walk.missing_root(root, &error),
    }
    if walk.is_cut {
        walk.fault(&root.path, SkipReason::TooManyDirectories);
    }
    walk.found
}

struct SkillWalk {
    seen: BTreeSet<PathBuf>,
    found: Vec<SkillEntry>,
    is_cut: bool,
}

impl SkillWalk {
    /// Examines an entry of a root. Every entry yields at least one result, except a hidden entry
    /// that is not a skill.
    fn top(&mut self, entry: &Path) {
        if is_hidden(entry) {
            if !entry.ends_with(CODEX_OWN) && entry.join(SKILL_FILE).exists() {
                self.fault(entry, SkipReason::Hidden);
            }
            return;
        }
        match fs::metadata(entry) {
            Err(error) => self.fault(entry, unreadable(&error)),
            Ok(seen) if !seen.is_dir() => self.fault(entry, SkipReason::NotADirectory),
            Ok(_) => self.top_directory(entry),
        }
    }

    fn top_directory(&mut self, entry: &Path) {
        let before = self.found.len();
        let is_new = self.enter(entry, 1);
        if is_new && self.found.len() == before && !self.is_cut {
            self.fault(entry, SkipReason::NoSkillFile);
        }
    }

    /// Enters a directory. Returns true if it was not visited before.
    fn enter(&mut self, directory: &Path, depth: usize) -> bool {
        let real = match fs::canonicalize(directory) {
            Ok(real) => real,
            Err(error) => {
                self.fault(directory, unreadable(&error));
                return true;
            }
        };
        if self.seen.len() >= MAX_DIRECTORIES {
            self.is_cut = true;
            return true;
        }
        if !self.seen.insert(real.clone()) {
            return false;
        }
        self.look_for_skill(&real, depth);
        match entries(&real) {
            Ok(entries) => entries.iter().for_each(|entry| self.below(entry, depth + 1)),
            Err(error) => self.fault(&real, unreadable(&error)),
        }
        true
    }

    fn below(&mut self, entry: &Path, depth: usize) {
        if depth <= SEARCHED_DEPTH && !is_hidden(entry) && entry.is_dir() {
            self.enter(entry, depth);
        }
    }

    fn look_for_skill(&mut self, directory: &Path, depth: usize) {
        let Ok(seen) = directory.join(SKILL_FILE).symlink_metadata() else { return };
        let spot = match seen {
            seen if seen.is_symlink() => EntryKind::Fault(SkipReason::LinkedFile),
            seen if !seen.is_file() => return,
            _ if depth > MAX_DEPTH => EntryKind::Fault(SkipReason::TooDeep),
            _ => EntryKind::Skill,
        };
        self.found.push(SkillEntry { path: directory.to_owned(), spot });
    }

    fn missing_root(&mut self, root: &SkillRoot, error: &io::Error) {
        match (root.kind, error.kind()) {
            (RootKind::Native | RootKind::CodexHome, io::ErrorKind::NotFound) => {}
            (RootKind::Extra, io::ErrorKind::NotFound) => {
                self.fault(&root.path, SkipReason::NoSuchRoot);
            }
            (_, io::ErrorKind::NotADirectory) => self.fault(&root.path, SkipReason::NotADirectory),
            _ => self.fault(&root.path, unreadable(error)),
        }
    }

    fn fault(&mut self, path: &Path, reason: SkipReason) {
        self.found.push(SkillEntry { path: path.to_owned(), spot: EntryKind::Fault(reason) });
    }
}

fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut entries = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    entries.sort();
    Ok(entries)
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn unreadable(error: &io::Error) -> SkipReason {
    SkipReason::Unreadable { why: error.to_string() }
}
