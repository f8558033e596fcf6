//! A cache of repository settings, so that Provost does not have to run git for them every time.
//!
//! A configuration is unchanged if the kernel metadata of its files is unchanged. Two changes
//! within one clock tick look like one, so a recently changed file is not cached. A configuration
//! that includes other files is not cached either, because includes may depend on the checkout.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use provost_sys::{agent_file, clock::wall_ms};

use crate::settings::RepoSettings;
use crate::worktree::MAX_POINTER;

/// The time for which a file must have been unchanged before it is cached, in seconds.
const SETTLED_SECONDS: i64 = 2;

/// The maximum number of cached repositories. The limit is needed because removed repositories stay
/// in the cache.
const MAX_KNOWN: usize = 1_000;

/// The settings read for each git directory. All copies of a handle share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SettingsCache {
    found: Arc<Mutex<BTreeMap<PathBuf, CachedSettings>>>,
}

#[derive(Debug)]
struct CachedSettings {
    files: ConfigFiles,
    settings: RepoSettings,
}

/// The state of a configuration's files when they were inspected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigFiles(Vec<Option<FileStamp>>);

/// Metadata that changes whenever the file changes.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl SettingsCache {
    /// Returns the cached settings, if the files are unchanged.
    pub(crate) fn get(&self, git_dir: &Path, files: &ConfigFiles) -> Option<RepoSettings> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.get(git_dir).filter(|known| known.files == *files);
        known.map(|known| known.settings.clone())
    }

    /// Caches settings. The files were inspected before git ran, so a change in between will be
    /// noticed.
    pub(crate) fn keep(&self, git_dir: &Path, files: ConfigFiles, settings: &RepoSettings) {
        if !files.are_settled(now_seconds()) {
            return;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() >= MAX_KNOWN {
            found.clear();
        }
        found.insert(git_dir.to_owned(), CachedSettings { files, settings: settings.clone() });
    }
}

impl ConfigFiles {
    /// Inspects the configuration files of a repository. `None` if one of them cannot be inspected.
    pub(crate) fn inspect(git_dir: &Path, home: &Path) -> Option<Self> {
        let pointer = git_dir.join("commondir");
        let common = match agent_file::read(&pointer, MAX_POINTER).map_err(io::Error::from) {
            Ok(text) => git_dir.join(OsStr::from_bytes(text.trim_ascii_end())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => git_dir.to_owned(),
            Err(_) => return None,
        };
        let files = [
            pointer,
            common.join("config"),
            common.join("config.worktree"),
            git_dir.join("config.worktree"),
            home.join(".gitconfig"),
            home.join(".config/git/config"),
            PathBuf::from("/etc/gitconfig"),
        ];
        files.iter().map(|file| FileStamp::read(file).ok()).collect::<Option<_>>().map(Self)
    }

    fn are_settled(&self, now: i64) -> bool {
        let is_old_enough = |mark: &FileStamp| mark.changed.0.saturating_add(SETTLED_SECONDS) < now;
        self.0.iter().flatten().all(is_old_enough)
    }
}

impl FileStamp {
    fn read(file: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(file) {
            Ok(about) => Ok(Some(Self {
                device: about.dev(),
                inode: about.ino(),
                size: about.size(),
                changed: (about.ctime(), about.ctime_nsec()),
            })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether the given settings (NUL-separated) do not include other files.
pub(crate) fn has_no_includes(settings: &[u8]) -> bool {
    let includes = |item: &[u8]| item.starts_with(b"include.") || item.starts_with(b"includeif.");
    !settings.split(|byte| *byte == 0).any(includes)
}

fn now_seconds() -> i64 {
    i64::try_from(wall_ms() / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn at(seconds: i64) -> ConfigFiles {
        let mark = FileStamp { device: 1, inode: 2, size: 3, changed: (seconds, 0) };
        ConfigFiles(vec![None, Some(mark)])
    }

    #[test]
    fn recently_changed_file_is_not_cached() {
        assert!(at(100).are_settled(103));
        assert!(!at(100).are_settled(102));
        assert!(!at(100).are_settled(90), "its clock is ahead");
    }

    #[test]
    fn configuration_with_includes_is_not_cached() {
        assert!(has_no_includes(b"core.bare\0user.name\0"));
        assert!(!has_no_includes(b"core.bare\0include.path\0"));
        assert!(!has_no_includes(b"includeif.onbranch:main.path\0"));
    }

    #[test]
    fn cache_is_valid_until_a_file_changes() {
        let place = tempfile::tempdir().unwrap();
        let (own, home) = (place.path().join("git"), place.path().join("home"));
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("config"), "[core]\n").unwrap();
        let look = || ConfigFiles::inspect(&own, &home).unwrap();
        let known = SettingsCache::default();
        let setting = RepoSettings {
            adopted: vec![("core.eol".into(), "lf".into())],
            ..RepoSettings::default()
        };
        let keep = |files| {
            known
                .found
                .lock()
                .unwrap()
                .insert(own.clone(), CachedSettings { files, settings: setting.clone() })
        };
        for change in [
            &(|| fs::write(own.join("config"), "[core]\n[a]\n")) as &dyn Fn() -> io::Result<()>,
            &|| fs::write(own.join("config.worktree"), ""),
            &|| fs::remove_file(own.join("config.worktree")),
            &|| fs::create_dir_all(&home).and_then(|()| fs::write(home.join(".gitconfig"), "")),
            &|| fs::remove_file(own.join("config")).and_then(|()| symlink("x", own.join("config"))),
            &|| fs::write(own.join("commondir"), "../other\n"),
            &|| fs::remove_file(own.join("commondir")),
        ] {
            keep(look());
            assert_eq!(known.get(&own, &look()).as_ref(), Some(&setting));
            change().unwrap();
            assert_eq!(known.get(&own, &look()), None);
        }
        known.keep(&own, look(), &setting);
        assert_eq!(known.get(&own, &look()), None, "it was changed just now");
    }
}
