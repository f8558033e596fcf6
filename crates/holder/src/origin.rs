//! Where a process comes from: which holder is above it, and which mark it was given.
//!
//! Both can be made up, by which one loses rights and wins none.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::identity::ancestors;
use crate::spec::MARK;

/// Says whether a process is held, or was started by one that is: whether it or one above it is a holder, or
/// has the mark of one, whose directory is in one of these places. A process that is no more is an error.
pub fn is_held(pid: u32, places: &[PathBuf]) -> io::Result<bool> {
    let above = ancestors(pid)?;
    let mut family = std::iter::once(pid).chain(above.iter().map(|one| one.pid));
    Ok(family.any(|pid| {
        let holds = held_directory(pid).is_some_and(|dir| is_in(&dir, places));
        holds || mark(pid).is_some_and(|key| places.iter().any(|place| place.join(&key).exists()))
    }))
}

/// The directory that a process holds, if it is a holder by its command line.
pub fn held_directory(pid: u32) -> Option<PathBuf> {
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = command.split(|byte| *byte == 0).skip(1);
    let (word, dir) = (words.next()?, words.next()?);
    (word == b"hold").then(|| Path::new(OsStr::from_bytes(dir)).to_owned())
}

/// The mark in the environment that a process was started with, if it may be seen and can name a directory.
pub fn mark(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mark = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="));
    let mark = String::from_utf8(mark?.to_owned()).ok()?;
    (!mark.is_empty() && !mark.contains('/') && !mark.starts_with('.')).then_some(mark)
}

/// Says whether two paths lead to the same place.
pub fn same_place(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn is_in(dir: &Path, places: &[PathBuf]) -> bool {
    dir.parent().is_some_and(|parent| places.iter().any(|place| same_place(parent, place)))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that waits for the end of its input. It has begun: until then its environment cannot be seen.
    fn shell(mark: Option<&str>) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read line"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        match mark {
            Some(mark) => command.env(MARK, mark),
            None => command.env_remove(MARK),
        };
        let mut child = command.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        child
    }

    fn told(mut child: Child, places: &[PathBuf]) -> bool {
        let told = is_held(child.id(), places);
        drop(child.stdin.take());
        child.wait().unwrap();
        told.unwrap()
    }

    #[test]
    fn a_mark_counts_where_its_directory_is() {
        let dir = tempfile::tempdir().unwrap();
        let places = [dir.path().join("launches"), dir.path().join("checks")];
        fs::create_dir_all(places[1].join("c1")).unwrap();
        assert!(told(shell(Some("c1")), &places));
        assert!(!told(shell(Some("c2")), &places), "it is of another home");
        assert!(!told(shell(Some("..")), &places));
        assert!(!told(shell(None), &places));
    }

    #[test]
    fn who_left_cannot_be_judged() {
        let mut gone = shell(None);
        drop(gone.stdin.take());
        gone.wait().unwrap();
        assert!(is_held(gone.id(), &[]).is_err());
    }
}
