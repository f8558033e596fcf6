//! Creates files and directories that only their owner can access, regardless of the umask.
//!
//! The umask itself is not changed, so git, agents, checks and hooks keep the daemon's umask.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FILE: u32 = 0o600;
const DIRECTORY: u32 = 0o700;

/// Creates a directory and its missing parents. An existing directory keeps its mode.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY).create(path)
}

/// Like [`create_dir_all`], but also removes other users' access to an existing directory.
pub fn make_private_dir(path: &Path) -> io::Result<()> {
    create_dir_all(path)?;
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    if mode & !DIRECTORY != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode & DIRECTORY))?;
    }
    Ok(())
}

/// Creates or truncates a file, and opens it for writing.
pub fn create(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE))?;
    Ok(file)
}

/// Writes a whole file.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn access_of_others_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (file, below) = (dir.path().join("file"), dir.path().join("a/b"));
        fs::write(&file, "before").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        write(&file, b"after").unwrap();
        assert_eq!((mode(&file), fs::read(&file).unwrap()), (0o600, b"after".to_vec()));
        create_dir_all(&below).unwrap();
        assert_eq!((mode(&below), mode(below.parent().unwrap())), (0o700, 0o700));
        fs::set_permissions(&below, Permissions::from_mode(0o755)).unwrap();
        make_private_dir(&below).unwrap();
        assert_eq!(mode(&below), 0o700);
    }
}
