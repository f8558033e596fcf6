//! Reads files in the project's directory, and never outside it. A name must match exactly one
//! file, and a file is read only up to a size limit.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use provost_sys::agent_file;

use crate::reason::UnverifiedReason;

/// Maximum size of a file. Larger files are rejected.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// The maximum number of directory entries to examine. In a larger directory, Provost cannot be
/// sure that a match is unique.
const MAX_NAMES: usize = 100_000;

/// A project's directory, with symbolic links in its path resolved.
#[derive(Debug)]
pub struct ProjectDir {
    root: PathBuf,
}

/// A path below the project's directory. A star in its last part matches any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern {
    directory: PathBuf,
    name: String,
}

/// The text of a file, and the path from which it was read.
#[derive(Debug)]
pub struct ProjectText {
    pub path: String,
    pub text: String,
}

impl FilePattern {
    /// Parses a relative path without `..`. The last part may contain one star.
    pub fn new(text: &str) -> Result<Self, String> {
        let path = Path::new(text);
        let down = |part: Component<'_>| matches!(part, Component::Normal(_));
        if text.is_empty() || !path.components().all(down) || text.contains('\0') {
            return Err(format!("{text:?} is not a path inside the project's directory"));
        }
        let (directory, name) = text.rsplit_once('/').unwrap_or(("", text));
        if directory.contains('*') || name.matches('*').count() > 1 || name.is_empty() {
            return Err(format!("{text:?} may contain only one star, and only in the file name"));
        }
        Ok(Self { directory: PathBuf::from(directory), name: name.to_owned() })
    }

    fn shown(&self) -> String {
        self.directory.join(&self.name).display().to_string()
    }

    /// Whether a file name matches. Hidden files only match patterns that start with a dot.
    fn matches(&self, name: &str) -> bool {
        match self.name.split_once('*') {
            None => name == self.name,
            Some((start, end)) => {
                let hidden = name.starts_with('.') && !start.starts_with('.');
                !hidden
                    && name.len() >= start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
            }
        }
    }
}

impl ProjectDir {
    pub fn open(root: &Path) -> Result<Self, UnverifiedReason> {
        match root.canonicalize() {
            Ok(root) if root.is_dir() => Ok(Self { root }),
            Ok(_) => {
                Err(UnverifiedReason::NoProject { why: "the path is not a directory".to_owned() })
            }
            Err(why) => Err(UnverifiedReason::NoProject { why: why.to_string() }),
        }
    }

    /// Returns the matching paths, sorted, or none if the directory does not exist.
    pub(crate) fn matching(&self, pattern: &FilePattern) -> Result<Vec<PathBuf>, UnverifiedReason> {
        if !pattern.name.contains('*') {
            let path = pattern.directory.join(&pattern.name);
            return match self.root.join(&path).symlink_metadata() {
                Ok(_) => Ok(vec![path]),
                Err(why) if why.kind() == io::ErrorKind::NotFound => {
                    self.check_dangling_links(&path).map(|()| Vec::new())
                }
                Err(why) => Err(UnverifiedReason::Unreadable {
                    path: pattern.shown(),
                    why: why.to_string(),
                }),
            };
        }
        let unreadable = |why: io::Error| UnverifiedReason::Unreadable {
            path: pattern.directory.display().to_string(),
            why: why.to_string(),
        };
        let entries = match fs::read_dir(self.root.join(&pattern.directory)) {
            Ok(entries) => entries,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return self.check_dangling_links(&pattern.directory).map(|()| Vec::new());
            }
            Err(why) => return Err(unreadable(why)),
        };
        let mut found = Vec::new();
        for (count, entry) in entries.enumerate() {
            if count == MAX_NAMES {
                return Err(unreadable(io::Error::other("the directory has too many entries")));
            }
            let name = entry.map_err(unreadable)?.file_name();
            if name.to_str().is_some_and(|name| pattern.matches(name)) {
                found.push(pattern.directory.join(name));
            }
        }
        found.sort();
        Ok(found)
    }

    /// Returns the path that matches one of the patterns, if there is exactly one.
    pub fn find_one(&self, patterns: &[FilePattern]) -> Result<PathBuf, UnverifiedReason> {
        let mut found = Vec::new();
        for pattern in patterns {
            found.extend(self.matching(pattern)?);
        }
        let path = || patterns.first().map(FilePattern::shown).unwrap_or_default();
        match found.as_slice() {
            [] => Err(UnverifiedReason::NoFile { path: path() }),
            [_] => Ok(found.remove(0)),
            several => {
                let found = several.iter().map(|path| path.display().to_string()).collect();
                Err(UnverifiedReason::SeveralFiles { path: path(), found })
            }
        }
    }

    /// Reads a text file, provided that its real path is inside the project.
    pub fn read(&self, relative: &Path) -> Result<ProjectText, UnverifiedReason> {
        let path = relative.display().to_string();
        match String::from_utf8(self.bytes(relative, MAX_FILE_BYTES)?) {
            Ok(text) => Ok(ProjectText { path, text }),
            Err(_) => {
                Err(UnverifiedReason::Unreadable { path, why: "the file is not UTF-8".to_owned() })
            }
        }
    }

    /// Reads a file of at most `limit` bytes, provided that its real path is inside the project.
    pub(crate) fn bytes(&self, relative: &Path, limit: u64) -> Result<Vec<u8>, UnverifiedReason> {
        let path = relative.display().to_string();
        let file = self.file(relative, &path)?;
        let mut bytes = Vec::new();
        match file.take(limit + 1).read_to_end(&mut bytes) {
            Err(why) => Err(UnverifiedReason::Unreadable { path, why: why.to_string() }),
            Ok(_) if bytes.len() as u64 > limit => Err(UnverifiedReason::TooLarge { path, limit }),
            Ok(_) => Ok(bytes),
        }
    }

    /// Checks that a path is a regular file inside the project.
    pub(crate) fn is_file(&self, relative: &Path) -> Result<(), UnverifiedReason> {
        self.file(relative, &relative.display().to_string()).map(drop)
    }

    /// Checks whether a missing path is a dangling link, or leads through one. Such a path is
    /// broken and not merely absent.
    fn check_dangling_links(&self, relative: &Path) -> Result<(), UnverifiedReason> {
        let broken = relative.ancestors().map(|part| self.root.join(part)).any(|part| {
            let is_link = part.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
            is_link && !part.exists()
        });
        let why = || "the path is a dangling link".to_owned();
        let path = || relative.display().to_string();
        if broken { Err(UnverifiedReason::Unreadable { path: path(), why: why() }) } else { Ok(()) }
    }

    fn file(&self, relative: &Path, path: &str) -> Result<File, UnverifiedReason> {
        let path = path.to_owned();
        let real = match self.root.join(relative).canonicalize() {
            Ok(real) => real,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return self
                    .check_dangling_links(relative)
                    .and(Err(UnverifiedReason::NoFile { path }));
            }
            Err(why) => return Err(UnverifiedReason::Unreadable { path, why: why.to_string() }),
        };
        let Ok(below) = real.strip_prefix(&self.root) else {
            return Err(UnverifiedReason::Outside { path });
        };
        // `AgentDir` neither blocks on a pipe that has no writer nor follows a link that was
        // created in the meantime.
        match agent_file::AgentDir::open(&self.root).and_then(|root| root.open_file(below)) {
            Ok(file) => Ok(file),
            Err(agent_file::Error::Io { source, .. }) => {
                Err(UnverifiedReason::Unreadable { path, why: source.to_string() })
            }
            Err(_) => Err(UnverifiedReason::NotAFile { path }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::Mode;

    use super::*;

    fn project(files: &[&str]) -> (tempfile::TempDir, ProjectDir) {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let project = ProjectDir::open(dir.path()).unwrap();
        (dir, project)
    }

    fn one(project: &ProjectDir, pattern: &str) -> Result<PathBuf, UnverifiedReason> {
        project.find_one(&[FilePattern::new(pattern).unwrap()])
    }

    #[test]
    fn pattern_goes_down_with_one_star() {
        for good in ["a", "a/b.md", "a/1-2-*.md", "*"] {
            assert!(FilePattern::new(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "../a", "a/../b", "./a", "a*/b", "a/*-*", "a/", "a\0"] {
            assert!(FilePattern::new(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn exactly_one_file_has_to_match() {
        let (_dir, project) = project(&["d/1-2-a.md", "d/1-20-b.md", "d/1-3-a.md", "d/1-3-b.md"]);
        assert_eq!(one(&project, "d/1-2-*.md").unwrap(), Path::new("d/1-2-a.md"));
        assert!(matches!(one(&project, "d/1-4-*.md"), Err(UnverifiedReason::NoFile { .. })));
        assert!(matches!(one(&project, "e/*"), Err(UnverifiedReason::NoFile { .. })));
        let Err(UnverifiedReason::SeveralFiles { found, .. }) = one(&project, "d/1-3-*.md") else {
            panic!()
        };
        assert_eq!(found, ["d/1-3-a.md", "d/1-3-b.md"]);
    }

    #[test]
    fn star_skips_hidden_files() {
        let (_dir, project) = project(&["d/.md", "d/aba"]);
        assert!(matches!(one(&project, "d/*.md"), Err(UnverifiedReason::NoFile { .. })));
        assert!(matches!(one(&project, "d/ab*ba"), Err(UnverifiedReason::NoFile { .. })));
    }

    #[test]
    fn links_out_of_project_are_refused() {
        let outside = tempfile::NamedTempFile::new().unwrap();
        let (dir, project) = project(&["real"]);
        symlink(outside.path(), dir.path().join("out")).unwrap();
        symlink("real", dir.path().join("in")).unwrap();
        assert!(matches!(project.read(Path::new("out")), Err(UnverifiedReason::Outside { .. })));
        assert_eq!(project.read(Path::new("in")).unwrap().text, "x");
    }

    #[test]
    fn dangling_link_is_broken_not_absent() {
        let (dir, project) = project(&["d/x"]);
        symlink("gone", dir.path().join("link.md")).unwrap();
        symlink("gone", dir.path().join("e")).unwrap();
        for path in ["link.md", "e/x.md"] {
            let read = project.read(Path::new(path)).map_err(|why| why.as_str());
            assert_eq!(read.err(), Some("unreadable"), "{path}");
        }
        for pattern in ["e/x.md", "e/*.md"] {
            let found = one(&project, pattern).map_err(|why| why.as_str());
            assert_eq!(found, Err("unreadable"), "{pattern}");
        }
        assert!(matches!(project.read(Path::new("d/y/z")), Err(UnverifiedReason::NoFile { .. })));
    }

    #[test]
    fn non_text_or_large_file_is_not_read() {
        let (dir, project) = project(&["d/x"]);
        let at = |name: &str| dir.path().join(name);
        fs::write(at("binary"), [0xff, 0xfe]).unwrap();
        File::create(at("large")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        File::create(at("limit")).unwrap().set_len(MAX_FILE_BYTES).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        let word = |name: &str| project.read(Path::new(name)).map_err(|why| why.as_str()).err();
        assert_eq!(word("d"), Some("not_a_file"));
        assert_eq!(word("pipe"), Some("not_a_file"));
        assert_eq!(word("binary"), Some("unreadable"));
        assert_eq!(word("large"), Some("too_large"));
        assert_eq!(word("limit"), None);
        assert_eq!(word("nothing"), Some("no_file"));
    }
}
