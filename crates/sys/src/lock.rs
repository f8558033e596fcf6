//! Finds the process that holds a lock on a file, according to the kernel.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The kernel's list of all file locks. Any user may read it, and it includes processes whose
/// descriptors are hidden.
const LOCKS: &str = "/proc/locks";

/// The number of bytes of a lock file in which to search for a pid.
const MAX_PID_BYTES: u64 = 32;

/// The number of times to read the list of locks before a file is considered unlocked. The kernel
/// returns the list page by page, and a lock that is released between two pages can hide another
/// one.
const READS: usize = 8;

/// An exclusive `flock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FlockEntry {
    pid: u32,
    inode: u64,
}

/// Returns the processes that hold an exclusive `flock` on the file at this path. A missing file
/// has no owners.
///
/// Files are compared by inode number alone, because some file systems (btrfs) show one device to
/// `stat` and another in the list of locks. Other file systems (overlayfs) may also show a
/// different inode number. In that case, the result is the process whose pid is in the file, if
/// that process holds any such lock.
pub fn owners_of(path: &Path) -> io::Result<Vec<u32>> {
    let file = match fs::metadata(path) {
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        found => found?,
    };
    for _ in 0..READS {
        let owners = owners_in_list(path, &file)?;
        if !owners.is_empty() {
            return Ok(owners);
        }
    }
    Ok(Vec::new())
}

fn owners_in_list(path: &Path, file: &Metadata) -> io::Result<Vec<u32>> {
    let locks = fs::read_to_string(LOCKS)?;
    let locks: Vec<FlockEntry> = locks.lines().filter_map(parse).collect();
    let pids = |is_it: &dyn Fn(&&FlockEntry) -> bool| -> Vec<u32> {
        locks.iter().filter(is_it).map(|lock| lock.pid).collect()
    };
    let owners = pids(&|lock| lock.inode == file.ino());
    if !owners.is_empty() {
        return Ok(owners);
    }
    Ok(pid_in_file(path)?.map_or(Vec::new(), |named| pids(&|lock| lock.pid == named)))
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the pid in the file's first line.
fn pid_in_file(path: &Path) -> io::Result<Option<u32>> {
    let mut text = String::new();
    File::open(path)?.take(MAX_PID_BYTES).read_to_string(&mut text)?;
    Ok(text.lines().next().and_then(|line| line.trim().parse().ok()))
}

/// Parses a line such as `1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF`. A line with an arrow
/// describes a process that is waiting for a lock.
fn parse(line: &str) -> Option<FlockEntry> {
    let mut words = line.split_ascii_whitespace().skip(1);
    if [words.next()?, words.next()?, words.next()?] != ["FLOCK", "ADVISORY", "WRITE"] {
        return None;
    }
    let pid = words.next()?.parse().ok()?;
    let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
    Some(FlockEntry { pid, inode })
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, flock};

    use super::*;

    #[test]
    fn only_exclusive_flock_lines_are_parsed() {
        let read = |line| parse(line).map(|lock| (lock.pid, lock.inode));
        assert_eq!(read("1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"), Some((4711, 1234)));
        assert_eq!(read("1: FLOCK  ADVISORY  READ 4711 fe:00:1234 0 EOF"), None);
        assert_eq!(read("1: POSIX  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"), None);
        assert_eq!(read("1: -> FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn owner_is_the_process_that_took_the_lock() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(owners_of(file.path()).unwrap().is_empty());
        flock(&file, FlockOperation::LockExclusive).unwrap();
        assert_eq!(owners_of(file.path()).unwrap(), [std::process::id()]);
        assert!(owners_of(Path::new("/nowhere/at/all")).unwrap().is_empty());
    }
}
