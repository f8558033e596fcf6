//! The only module that reads files.

use std::fmt;
use std::path::{Path, PathBuf};

use provost_sys::agent_file;

use crate::problem::escape;

/// Maximum size of a configuration file. Real configuration files are far smaller.
pub const MAX_FILE_BYTES: u64 = 128 << 10;

/// The paths of the two configuration files.
#[derive(Debug, Clone, Default)]
pub struct ConfigPaths {
    /// `provost/provost.toml` in the XDG configuration directory.
    pub user: Option<PathBuf>,
    /// `provost.toml` in the repository.
    pub project: Option<PathBuf>,
}

/// The text of a file, and the file name to show in messages. `Debug` omits the text, because it may contain secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigFile {
    pub name: String,
    pub text: String,
}

/// Why an existing file cannot be used. A missing file is not an error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("failed to read {}", escape(&path.to_string_lossy()))]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{} is not a regular file", escape(&path.to_string_lossy()))]
    NotAFile { path: PathBuf },
    #[error("{} is larger than {MAX_FILE_BYTES} bytes", escape(&path.to_string_lossy()))]
    TooLarge { path: PathBuf },
    #[error("{} is not UTF-8 (byte {valid})", escape(&path.to_string_lossy()))]
    NotUtf8 { path: PathBuf, valid: usize },
}

/// Reads the user's file and the project's file, if they exist.
pub fn load(paths: &ConfigPaths) -> Result<(Option<ConfigFile>, Option<ConfigFile>), Error> {
    let read = |path: &Option<PathBuf>| path.as_deref().map_or(Ok(None), read_file);
    Ok((read(&paths.user)?, read(&paths.project)?))
}

impl fmt::Debug for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("name", &self.name).finish_non_exhaustive()
    }
}

fn read_file(path: &Path) -> Result<Option<ConfigFile>, Error> {
    match read_bytes(path) {
        Ok(bytes) => decode(path, bytes).map(Some),
        Err(Error::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Reads a file. The path can be a symbolic link, because users often link their settings. Does not block if the path
/// turns out to be a pipe.
fn read_bytes(path: &Path) -> Result<Vec<u8>, Error> {
    agent_file::read_linked(path, MAX_FILE_BYTES).map_err(|why| match why {
        agent_file::Error::NotRegular(path) => Error::NotAFile { path },
        agent_file::Error::TooLong { path, .. } => Error::TooLarge { path },
        agent_file::Error::Io { path, source } => Error::Read { path, source },
        why @ agent_file::Error::Outside(_) => {
            Error::Read { path: path.to_owned(), source: why.into() }
        }
    })
}

fn decode(path: &Path, bytes: Vec<u8>) -> Result<ConfigFile, Error> {
    let text = String::from_utf8(bytes).map_err(|error| Error::NotUtf8 {
        path: path.to_owned(),
        valid: error.utf8_error().valid_up_to(),
    })?;
    Ok(ConfigFile { name: path.to_string_lossy().into_owned(), text })
}
