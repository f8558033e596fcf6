//! What a scripted agent does to files, and waiting for one.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Error;
use super::play::expect_exit;
use crate::clock::{Deadline, pause};
use crate::scenario::Expect;

/// How often a file that is waited for is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) fn write(path: &str, content: &str) -> Result<(), Error> {
    make_parent(path)?;
    fs::write(path, content).map_err(Error::io(format!("write {path}")))
}

/// Adds to a file, which is created if need be; with nothing to add this is `touch`.
pub(super) fn append(path: &str, content: &str) -> Result<(), Error> {
    make_parent(path)?;
    let file = OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(content.as_bytes()))
        .map_err(Error::io(format!("append to {path}")))
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

/// Writes the names, never the values, of the agent's environment variables.
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
        pause(LOOK_EVERY);
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
    expect_exit("git", status.code(), Expect::Code(0))
}
