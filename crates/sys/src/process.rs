//! The identity of a process: pid, start time and boot id together, because a pid alone may be
//! reused.
//!
//! A zombie counts as dead. A check that fails is an error, never evidence of death.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::stat::ProcStat;

/// The maximum number of ancestors. A longer list indicates a damaged process table.
const MAX_ANCESTORS: usize = 4096;
/// The number of times that a changing list of ancestors is read before the call fails.
const MAX_READS: u32 = 8;

/// One process, on one machine and during one boot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessInstance {
    pub pid: u32,
    /// Clock ticks between boot and the start of the process.
    pub start_time: u64,
    pub boot_id: String,
}

impl ProcessInstance {
    /// Returns the identity of the process that has this pid now. It may be a zombie.
    pub fn of_pid(pid: u32) -> io::Result<Option<Self>> {
        match ProcStat::read(pid)? {
            Some(stat) => Ok(Some(stat.identity(&boot_id()?))),
            None => Ok(None),
        }
    }

    /// Returns the identity of the calling process.
    pub fn own() -> io::Result<Self> {
        Self::of_pid(std::process::id())?
            .ok_or_else(|| io::Error::other("/proc does not show this process"))
    }

    /// Whether this process is still running, with the same boot and start time. A zombie does not
    /// count as running.
    pub fn is_alive(&self) -> io::Result<bool> {
        if self.boot_id != boot_id()? {
            return Ok(false);
        }
        let stat = ProcStat::read(self.pid)?;
        Ok(stat.is_some_and(|stat| stat.start_time == self.start_time && stat.is_living()))
    }
}

/// Makes the kernel terminate the command's process (SIGTERM) when the thread that starts it ends,
/// even if this process is killed. The thread must wait for the new process to exit.
pub fn end_with_thread(command: &mut Command) {
    let parent = getpid();
    let bind = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // The parent may have ended before the call.
        if getppid() == Some(parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    #[expect(
        unsafe_code,
        reason = "only the new process can set its signal; both system calls may follow a fork"
    )]
    unsafe {
        command.pre_exec(bind)
    };
}

/// Returns the id of the machine's current boot.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Returns the ancestors of a process, its parent first. If `/proc` hides processes of other users,
/// the list ends before the first hidden process. Fails if the process has exited, because it would
/// otherwise seem to have no ancestors.
pub fn ancestors(pid: u32) -> io::Result<Vec<ProcessInstance>> {
    let boot = boot_id()?;
    let family = family(pid)?;
    Ok(family.iter().skip(1).map(|stat| stat.identity(&boot)).collect())
}

/// Returns a process and its ancestors, itself first.
///
/// A parent may exit while the list is read, and its pid may be reused. To detect this, the list is
/// read twice. It is read again if it has changed, or if a parent is younger than its child.
pub fn family(pid: u32) -> io::Result<Vec<ProcStat>> {
    for _ in 0..MAX_READS {
        let family = read_family(pid)?;
        let ordered = family.windows(2).all(|pair| pair[1].start_time <= pair[0].start_time);
        let again = read_family(pid)?;
        let same = family.len() == again.len()
            && family
                .iter()
                .zip(&again)
                .all(|(one, other)| (one.pid, one.start_time) == (other.pid, other.start_time));
        if ordered && same {
            return Ok(family);
        }
    }
    Err(io::Error::other(format!("the ancestors of process {pid} change too fast")))
}

fn read_family(pid: u32) -> io::Result<Vec<ProcStat>> {
    let ended = || io::Error::new(io::ErrorKind::NotFound, format!("process {pid} has ended"));
    let first = ProcStat::read(pid)?.ok_or_else(ended)?;
    let mut next = first.ppid;
    let mut found = vec![first];
    while next != 0 && found.len() < MAX_ANCESTORS {
        let Some(stat) = ProcStat::read_visible(next)? else { break };
        next = stat.ppid;
        found.push(stat);
    }
    Ok(found)
}

/// Returns the time since boot, in the unit of [`ProcessInstance::start_time`].
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    let per_second = rustix::param::clock_ticks_per_second();
    seconds * per_second + nanos * per_second / 1_000_000_000
}

/// Returns the real user of a process, which a set-user-ID program does not change. `None` if the
/// process has exited.
pub fn real_uid(pid: u32) -> io::Result<Option<u32>> {
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Err(error) if is_gone(&error) => return Ok(None),
        status => status?,
    };
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let uid = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    uid.map(Some).ok_or_else(|| io::Error::other(format!("/proc/{pid}/status has no user")))
}

/// Returns the control groups of a process, as one text for comparison. `None` if the process has
/// exited.
pub fn control_groups(pid: u32) -> io::Result<Option<String>> {
    match fs::read_to_string(format!("/proc/{pid}/cgroup")) {
        Err(error) if is_gone(&error) => Ok(None),
        groups => groups.map(Some),
    }
}

/// Prevents the user's other processes from reading the memory, environment and descriptors of this
/// process.
///
/// The files of this process in `/proc` then belong to root. This does not affect the process
/// itself, nor world-readable files such as `stat`, `status` and `cmdline`. It also disables core
/// dumps.
pub fn hide_from_user() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Returns the program's name and its arguments, as the process was started or has set them itself.
pub fn command_line(pid: u32) -> io::Result<Vec<OsString>> {
    fs::read(format!("/proc/{pid}/cmdline")).map(|bytes| split_zero_terminated(&bytes))
}

/// Splits a list of NUL-terminated strings.
pub fn split_zero_terminated(bytes: &[u8]) -> Vec<OsString> {
    let ended = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if ended.is_empty() {
        return Vec::new();
    }
    ended.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// Returns a path to an open file of this process. Below an open directory, such a path is short
/// enough for the address of a socket, even if the directory's own path is too long.
pub fn descriptor_path(open: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()).into()
}

/// Whether reading a file of a process failed because the process has exited.
pub fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::NOENT.raw_os_error()) || code == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_boot_or_start_time_is_another_process() {
        let own = || ProcessInstance::own().expect("looks");
        assert!(own().is_alive().expect("looks"));
        assert!(!ProcessInstance { boot_id: "other".into(), ..own() }.is_alive().expect("looks"));
        assert!(!ProcessInstance { start_time: 1, ..own() }.is_alive().expect("looks"));
    }

    #[test]
    fn ancestors_of_dead_process_is_an_error() {
        let mut child = std::process::Command::new("true").spawn().expect("starts");
        child.wait().expect("ends");
        assert_eq!(ancestors(child.id()).expect_err("it left").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_parent_is_the_first_ancestor() {
        let parent = ancestors(std::process::id()).expect("looks").remove(0);
        assert_eq!(parent.pid, std::os::unix::process::parent_id());
    }
}
