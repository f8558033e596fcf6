//! Opens files that an agent can write, without following symbolic links, without blocking, and
//! without reading more than a given number of bytes.
//!
//! An agent can replace a file with a link, a FIFO or a device between two lookups of its name.
//! Therefore no decision is based on a name. Instead, a file is opened once, and then checked and
//! read through its descriptor.

use std::{
    fs::File,
    io::{self, Read},
    os::fd::{AsFd, OwnedFd},
    path::{Component, Path, PathBuf},
};

use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2,
        unlinkat,
    },
    io::Errno,
};

/// The reason why a file that an agent can write to was not opened or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is not a regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("{} is longer than {limit} bytes", path.display())]
    TooLong { path: PathBuf, limit: u64 },
    #[error("{} is outside the expected directory, or reached through a symbolic link", .0.display())]
    Outside(PathBuf),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::NotRegular(_) | Error::Outside(_) => io::ErrorKind::InvalidInput,
            Error::TooLong { .. } => io::ErrorKind::FileTooLarge,
            Error::Io { source, .. } => source.kind(),
        };
        io::Error::new(kind, error)
    }
}

const READ_LINKED: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

const READ: OFlags = READ_LINKED.union(OFlags::NOFOLLOW);

/// Opens a regular file for reading. Fails if the last component is a symbolic link. Links above it
/// are followed.
pub fn open(path: &Path) -> Result<File, Error> {
    regular(openat(CWD, path, READ, Mode::empty()), path)
}

/// Opens a file like [`open`], but follows a symbolic link as the last component. This is intended
/// for files that users like to link, such as their settings. A link can point to any file, so the
/// content must not be shown to an agent.
pub fn open_linked(path: &Path) -> Result<File, Error> {
    regular(openat(CWD, path, READ_LINKED, Mode::empty()), path)
}

/// Reads a regular file of at most `limit` bytes. Follows a symbolic link, as [`open_linked`] does.
pub fn read_linked(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    read_opened(open_linked(path)?, path, limit)
}

/// Reads the first `limit` bytes of a regular file. Follows a symbolic link, as [`open_linked`]
/// does.
pub fn read_start(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut start = open_linked(path)?.take(limit);
    start.read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    read_opened(open(path)?, path, limit)
}

/// Reads a regular file of at most `limit` bytes, which must be UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, Error> {
    String::from_utf8(read(path, limit)?).map_err(|why| Error::Io {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidData, why),
    })
}

/// Reads an open file to its end. Fails if the file is longer than `limit` bytes.
pub fn read_opened(file: File, path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let mut limited = file.take(limit.saturating_add(1));
    limited.read_to_end(&mut bytes).map_err(|source| failed(path, source))?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLong { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// A directory in which an agent can write. Paths below it are resolved without following symbolic
/// links, and cannot lead out of it.
#[derive(Debug)]
pub struct AgentDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl AgentDir {
    /// Opens the directory itself, whose own path is trusted.
    pub fn open(path: &Path) -> Result<AgentDir, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty()).map_err(|why| failed(path, why.into()))?;
        Ok(AgentDir { fd, path: path.to_owned() })
    }

    /// Opens a regular file below the directory for reading.
    pub fn open_file(&self, below: &Path) -> Result<File, Error> {
        let (parent, name) = self.parent(below)?;
        regular(openat(parent, name, READ, Mode::empty()), &self.path.join(below))
    }

    /// Whether an entry with this name exists. A dangling symbolic link counts as well.
    pub fn has(&self, below: &Path) -> Result<bool, Error> {
        let (parent, name) = match self.parent(below) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(false);
            }
            found => found?,
        };
        match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(why) => Err(failed(&self.path.join(below), why.into())),
        }
    }

    /// Creates a new file below the directory, and any missing directories above the file.
    pub fn create_file(&self, below: &Path, mode: Mode) -> Result<File, Error> {
        let full = self.path.join(below);
        let names = names(below).ok_or_else(|| Error::Outside(full.clone()))?;
        let (name, parents) = names.split_last().ok_or_else(|| Error::Outside(full.clone()))?;
        let mut there = PathBuf::new();
        for directory in parents {
            let parent = self.directory(&there)?;
            match mkdirat(&parent, *directory, Mode::RWXU | Mode::RWXG | Mode::RWXO) {
                Ok(()) | Err(Errno::EXIST) => there.push(directory),
                Err(why) => return Err(failed(&full, why.into())),
            }
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(self.directory(&there)?, *name, flags, mode);
        made.map(File::from).map_err(|why| failed(&full, why.into()))
    }

    /// Removes an entry below the directory. For a symbolic link, removes the link and not its
    /// target. Fails if the entry is a directory.
    pub fn remove_file(&self, below: &Path) -> Result<(), Error> {
        let (parent, name) = self.parent(below)?;
        unlinkat(parent, name, AtFlags::empty())
            .map_err(|why| failed(&self.path.join(below), why.into()))
    }

    fn parent<'a>(&self, below: &'a Path) -> Result<(OwnedFd, &'a std::ffi::OsStr), Error> {
        let outside = || Error::Outside(self.path.join(below));
        let names = names(below).ok_or_else(outside)?;
        let (name, parents) = names.split_last().ok_or_else(outside)?;
        Ok((self.directory(&parents.iter().collect::<PathBuf>())?, name))
    }

    /// Opens a directory below this one, without following symbolic links.
    fn directory(&self, below: &Path) -> Result<OwnedFd, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = match openat2(&self.fd, below, flags, Mode::empty(), resolve) {
            // Kernels before 5.6 and some container runtimes do not support `openat2`.
            Err(Errno::NOSYS | Errno::PERM) => step_by_step(self.fd.as_fd(), below, flags),
            opened => opened,
        };
        opened.map_err(|why| match why {
            Errno::LOOP | Errno::XDEV | Errno::NOTDIR => Error::Outside(self.path.join(below)),
            why => failed(&self.path.join(below), why.into()),
        })
    }
}

/// Opens a directory component by component, so that no symbolic link is followed.
fn step_by_step(
    from: std::os::fd::BorrowedFd<'_>,
    below: &Path,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let mut at = openat(from, ".", flags, Mode::empty())?;
    for name in names(below).ok_or(Errno::XDEV)? {
        at = openat(&at, name, flags, Mode::empty())?;
    }
    Ok(at)
}

/// Returns the components of a relative path, or `None` if it could lead out of the directory.
fn names(below: &Path) -> Option<Vec<&std::ffi::OsStr>> {
    let parts = below.components().filter(|part| *part != Component::CurDir);
    parts
        .map(|part| match part {
            Component::Normal(name) => Some(name),
            Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir => None,
        })
        .collect()
}

fn regular(opened: Result<OwnedFd, Errno>, path: &Path) -> Result<File, Error> {
    let fd = match opened {
        // The entry is a symbolic link, a socket, or a FIFO or device without a peer.
        Err(Errno::LOOP | Errno::NXIO) => return Err(Error::NotRegular(path.to_owned())),
        opened => opened.map_err(|why| failed(path, why.into()))?,
    };
    let about = fstat(&fd).map_err(|why| failed(path, why.into()))?;
    if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
        return Err(Error::NotRegular(path.to_owned()));
    }
    Ok(File::from(fd))
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, os::unix::fs::symlink};

    use super::*;

    fn fifo(path: &Path) {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    }

    #[test]
    fn only_regular_files_are_read_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        fifo(&at("fifo"));
        symlink(at("file"), at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        assert_eq!(read(&at("file"), 4).unwrap(), b"text");
        for name in ["fifo", "link", "zero", "socket", "."] {
            let found = read(&at(name), 100);
            assert!(matches!(found, Err(Error::NotRegular(_))), "{name}: {found:?}");
        }
        let missing = io::Error::from(read(&at("missing"), 1).unwrap_err());
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn link_is_followed_only_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "text").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fifo(&at("fifo"));
        symlink(at("fifo"), at("to a pipe")).unwrap();
        assert_eq!(read_linked(&at("link"), 4).unwrap(), b"text");
        assert_eq!(read_start(&at("link"), 2).unwrap(), b"te");
        assert!(matches!(read_linked(&at("link"), 3), Err(Error::TooLong { .. })));
        for name in ["fifo", "to a pipe", "."] {
            let found = read_linked(&at(name), 100);
            assert!(matches!(found, Err(Error::NotRegular(_))), "{name}: {found:?}");
            assert!(read_start(&at(name), 100).is_err());
        }
    }

    #[test]
    fn error_names_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("long"), "12345").unwrap();
        let error = read(&dir.path().join("long"), 4).unwrap_err();
        assert!(error.to_string().ends_with("is longer than 4 bytes"), "{error}");
    }

    #[test]
    fn nothing_leaves_the_root() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("kept"), "").unwrap();
        symlink(outside.path(), dir.path().join("out")).unwrap();
        let root = AgentDir::open(dir.path()).unwrap();
        for below in ["out/new", "../new", "/new", "", "a/../../new"] {
            let made = root.create_file(Path::new(below), Mode::RUSR | Mode::WUSR);
            assert!(matches!(made, Err(Error::Outside(_))), "{below}: {made:?}");
        }
        assert!(matches!(root.remove_file(Path::new("out/kept")), Err(Error::Outside(_))));
        assert!(outside.path().join("kept").exists());
        root.remove_file(Path::new("out")).unwrap();
        assert!(outside.path().exists() && !root.has(Path::new("out")).unwrap());
    }

    #[test]
    fn create_makes_directories_and_replaces_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let root = AgentDir::open(dir.path()).unwrap();
        let below = Path::new("a/b/file");
        let mode = Mode::RUSR | Mode::WUSR;
        root.create_file(below, mode).unwrap().write_all(b"one").unwrap();
        let again = io::Error::from(root.create_file(below, mode).unwrap_err());
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let mut text = String::new();
        root.open_file(below).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "one");
        assert!(!root.has(Path::new("x/y")).unwrap());
    }

    #[test]
    fn walk_without_openat2_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        let root = AgentDir::open(dir.path()).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        assert!(step_by_step(root.fd.as_fd(), Path::new("a/b"), flags).is_ok());
        assert!(step_by_step(root.fd.as_fd(), Path::new("link/b"), flags).is_err());
        assert!(step_by_step(root.fd.as_fd(), Path::new("../a"), flags).is_err());
    }
}
