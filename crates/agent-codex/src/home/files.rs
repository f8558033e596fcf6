//! File operations in a session's home. Each write is completed by a rename.
//!
//! An agent may have changed its home. If it has replaced one of Provost's directories with a
//! symbolic link, the link is removed and never followed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use super::Error;

/// The maximum size of a copied file, in bytes.
pub(super) const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The maximum number of files in a copied directory, over all levels.
const MAX_FILES: usize = 1000;

/// The maximum depth of a copied directory.
const MAX_LEVELS: usize = 8;

/// The name prefix of unfinished files.
const UNFINISHED: &str = ".provost-";

const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;

/// The result of creating a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkResult {
    Done,
    /// The path exists and is not a link.
    Occupied,
}

/// Runs an operation on a path, and adds the path to its error.
pub(super) fn with_path<T>(
    path: &Path,
    act: impl FnOnce(&Path) -> io::Result<T>,
) -> Result<T, Error> {
    act(path).map_err(|source| Error::File { path: path.to_owned(), source })
}

/// Creates a private directory, and its ancestors.
pub(super) fn make_private_tree(directory: &Path) -> Result<(), Error> {
    with_path(directory, |directory| {
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))
    })
}

/// Creates a private directory in a home. It replaces a link or a file of the same name.
pub(super) fn make_private(directory: &Path) -> Result<(), Error> {
    with_path(directory, |directory| {
        if directory.symlink_metadata().is_ok_and(|seen| !seen.is_dir()) {
            fs::remove_file(directory)?;
        }
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))
    })
}

/// Removes the unfinished files that an interrupted call left behind.
pub(super) fn remove_unfinished(directory: &Path) -> Result<(), Error> {
    for name in names(directory)? {
        if name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            remove(&directory.join(name))?;
        }
    }
    Ok(())
}

/// Returns the names of a directory's entries.
pub(super) fn names(directory: &Path) -> Result<BTreeSet<OsString>, Error> {
    with_path(directory, |directory| {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    })
}

/// Reads a file. Returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    // `NONBLOCK` keeps this from blocking on a FIFO that has no writer.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => with_path(path, |_| other)?,
    };
    if !with_path(path, |_| file.metadata())?.is_file() {
        return Err(not_copyable(path, "the path is not a file".into()));
    }
    let mut bytes = Vec::new();
    with_path(path, |_| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(not_copyable(path, format!("the file is larger than {MAX_FILE_BYTES} bytes")));
    }
    Ok(Some(bytes))
}

/// Reads a file as text. Returns `None` if it does not exist.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, Error> {
    let text = read(path)?.map(String::from_utf8).transpose();
    text.map_err(|_| not_copyable(path, "the file is not UTF-8".into()))
}

/// Writes a file, replacing any existing entry. A power loss may undo the write, but then it also
/// undoes the launch, and the next launch writes the file again.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_by_rename(path, bytes, |_| Ok(()))
}

/// Writes a file that must survive a power loss.
pub(super) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_by_rename(path, bytes, File::sync_all)
}

fn write_by_rename(
    path: &Path,
    bytes: &[u8],
    sync: fn(&File) -> io::Result<()>,
) -> Result<(), Error> {
    clear_directory(path)?;
    with_path(path, |path| {
        let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut file = tempfile::Builder::new()
            .prefix(UNFINISHED)
            .permissions(Permissions::from_mode(PRIVATE_FILE))
            .tempfile_in(directory)?;
        file.write_all(bytes)?;
        sync(file.as_file())?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    })
}

/// Creates a symbolic link, or removes it if the target is missing. An entry that is not a link is
/// kept, because the agent created it.
pub(super) fn link(path: &Path, target: Option<&Path>) -> Result<LinkResult, Error> {
    match path.symlink_metadata() {
        Ok(seen) if !seen.is_symlink() => return Ok(LinkResult::Occupied),
        Ok(_) if fs::read_link(path).ok().as_deref() == target => return Ok(LinkResult::Done),
        Ok(_) | Err(_) => {}
    }
    link_over(path, target).map(|()| LinkResult::Done)
}

/// Creates a symbolic link, or removes it if the target is missing. Replaces any existing entry.
pub(super) fn link_over(path: &Path, target: Option<&Path>) -> Result<(), Error> {
    let Some(target) = target else { return remove(path) };
    clear_directory(path)?;
    with_path(path, |path| {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut unfinished = OsString::from(UNFINISHED);
        unfinished.push(name);
        let unfinished = path.with_file_name(unfinished);
        remove_any(&unfinished)?;
        symlink(target, &unfinished)?;
        fs::rename(&unfinished, path)
    })
}

/// Removes a file, a link, or a directory with its contents.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    with_path(path, remove_any)
}

/// Makes a directory a copy of another one, file by file, or removes it if the source is missing.
/// Returns true if there were files to copy.
pub(super) fn mirror(from: Option<&Path>, to: &Path) -> Result<bool, Error> {
    let Some(from) = from.filter(|from| from.is_dir()) else {
        return remove(to).map(|()| false);
    };
    let mut files = 0;
    copy_level(from, to, 1, &mut files)?;
    Ok(true)
}

fn copy_level(from: &Path, to: &Path, level: usize, files: &mut usize) -> Result<(), Error> {
    if level > MAX_LEVELS {
        return Err(not_copyable(
            from,
            format!("the directory is deeper than {MAX_LEVELS} levels"),
        ));
    }
    make_private(to)?;
    let wanted = names(from)?;
    for stale in names(to)?.difference(&wanted) {
        remove(&to.join(stale))?;
    }
    for name in &wanted {
        *files += 1;
        if *files > MAX_FILES {
            return Err(not_copyable(
                from,
                format!("the directory has more than {MAX_FILES} files"),
            ));
        }
        copy_entry(&from.join(name), &to.join(name), level, files)?;
    }
    Ok(())
}

fn copy_entry(from: &Path, to: &Path, level: usize, files: &mut usize) -> Result<(), Error> {
    if from.is_dir() {
        return copy_level(from, to, level + 1, files);
    }
    match read(from)? {
        Some(bytes) => write(to, &bytes),
        // The source is a dangling link, or was removed in the meantime.
        None => remove(to),
    }
}

/// Removes a directory at the path. A file can be renamed over a file or a link, but not over a
/// directory.
fn clear_directory(path: &Path) -> Result<(), Error> {
    let is_directory = path.symlink_metadata().is_ok_and(|seen| seen.is_dir());
    if is_directory { remove(path) } else { Ok(()) }
}

fn remove_any(path: &Path) -> io::Result<()> {
    let removed = match path.symlink_metadata() {
        Ok(seen) if seen.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn not_copyable(path: &Path, why: String) -> Error {
    Error::NotCopyable { path: path.to_owned(), why }
}
