//! The file operations of a scripted agent, including waiting for a file.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Error;
use super::play::expect_exit;
use crate::clock::{Deadline, pause};
use crate::scenario::ExpectedExit;

/// Poll interval for an awaited file.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub(super) fn write(path: &str, content: &str) -> Result<(), Error> {
    make_parent(path)?;
    let written = match create_atomically(Path::new(path), content) {
        Ok(()) => Ok(()),
        Err(error) if is_there(&error) => fs::write(path, content),
        Err(error) => Err(error),
    };
    written.map_err(Error::io(format!("write {path}")))
}

/// Appends to a file, and creates it if necessary. Without content this is `touch`.
pub(super) fn append(path: &str, content: &str) -> Result<(), Error> {
    make_parent(path)?;
    let added = match create_atomically(Path::new(path), content) {
        Ok(()) => Ok(()),
        Err(error) if is_there(&error) => {
            let file = OpenOptions::new().append(true).open(path);
            file.and_then(|mut file| file.write_all(content.as_bytes()))
        }
        Err(error) => Err(error),
    };
    added.map_err(Error::io(format!("append to {path}")))
}

/// Creates a new file atomically with its content, because tests wait for files and must not read
/// an empty one.
fn create_atomically(path: &Path, content: &str) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let place = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut whole = tempfile::Builder::new()
        .prefix(".appears-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(place.unwrap_or(Path::new(".")))?;
    whole.write_all(content.as_bytes())?;
    whole.persist_noclobber(path).map(drop).map_err(|failed| failed.error)
}

fn is_there(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

pub(super) fn delete(path: &str) -> Result<(), Error> {
    let is_dir = fs::symlink_metadata(path)
        .map(|found| found.is_dir())
        .map_err(Error::io(format!("delete {path}")))?;
    if is_dir { fs::remove_dir_all(path) } else { fs::remove_file(path) }
        .map_err(Error::io(format!("delete {path}")))
}

pub(super) fn mkdir(path: &str) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(Error::io(format!("make the directory {path}")))
}

/// Writes the names, but not the values, of the agent's environment variables.
pub(super) fn env_dump(path: &str) -> Result<(), Error> {
    let mut names: Vec<String> =
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    names.sort();
    write(path, &format!("{}\n", names.join("\n")))
}

/// Commits everything in the current directory's repository.
pub(super) fn git_commit(message: &str) -> Result<(), Error> {
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--no-verify", "--allow-empty", "--message", message])
}

pub(super) fn wait_file(path: &str, within: Duration) -> Result<(), Error> {
    let deadline = Deadline::after(within);
    while !Path::new(path).exists() {
        if deadline.passed() {
            return Err(Error::Step(format!("see {path} within {} ms", within.as_millis())));
        }
        pause(POLL_INTERVAL);
    }
    Ok(())
}

fn make_parent(path: &str) -> Result<(), Error> {
    match Path::new(path).parent() {
        Some(parent) if !parent.as_os_str().is_empty() => {
            fs::create_dir_all(parent).map_err(Error::io(format!("make the directory of {path}")))
        }
        _ => Ok(()),
    }
}

fn git(args: &[&str]) -> Result<(), Error> {
    let identity = [
        "-c",
        "user.name=Scripted Agent",
        "-c",
        "user.email=agent@example.invalid",
        "-c",
        "commit.gpgsign=false",
    ];
    let status =
        Command::new("git").args(identity).args(args).status().map_err(Error::io("run git"))?;
    expect_exit("git", status.code(), ExpectedExit::Code(0))
}
