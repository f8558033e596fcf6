//! Who a process is: pid, start time and boot id together, since a pid alone is reused.
//!
//! A zombie is dead. "Could not look" is an error, never "dead".

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// More generations than this are taken for a damaged process table.
const MAX_ANCESTORS: usize = 4096;

/// One process of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// Clock ticks between boot and the start of the process.
    pub start_time: u64,
    pub boot_id: String,
}

impl Identity {
    /// The identity of the process that has this pid now, a zombie included.
    pub fn of(pid: u32) -> io::Result<Option<Self>> {
        match ProcStat::read(pid)? {
            Some(stat) => Ok(Some(stat.identity(&boot_id()?))),
            None => Ok(None),
        }
    }

    /// The identity of the calling process.
    pub fn own() -> io::Result<Self> {
        Self::of(std::process::id())?
            .ok_or_else(|| io::Error::other("/proc does not show this process"))
    }

    /// Whether this very process still runs: same boot, same start time, not a zombie.
    pub fn is_alive(&self) -> io::Result<bool> {
        if self.boot_id != boot_id()? {
            return Ok(false);
        }
        let stat = ProcStat::read(self.pid)?;
        Ok(stat.is_some_and(|stat| stat.start_time == self.start_time && stat.is_living()))
    }
}

/// The id of the machine's current boot.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// The ancestors of a process, its parent first, as far as they may be seen: where the process table is
/// hidden, those of other users end the list. A process that is no more has none to show, which is an error:
/// otherwise whoever connects and leaves would descend from nobody.
pub fn ancestors(pid: u32) -> io::Result<Vec<Identity>> {
    let boot = boot_id()?;
    let mut found = Vec::new();
    let gone = || io::Error::new(io::ErrorKind::NotFound, format!("process {pid} is no more"));
    let mut next = ProcStat::read(pid)?.ok_or_else(gone)?.ppid;
    while next != 0 && found.len() < MAX_ANCESTORS {
        let Some(stat) = ProcStat::read_visible(next)? else { break };
        found.push(stat.identity(&boot));
        next = stat.ppid;
    }
    Ok(found)
}

/// The line of the process table that we need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcStat {
    pub(crate) pid: u32,
    pub(crate) ppid: u32,
    pub(crate) group: u32,
    /// 0 if the session was opened outside of this PID namespace, as in most containers.
    pub(crate) session: u32,
    pub(crate) start_time: u64,
    state: char,
    threads: u32,
}

impl ProcStat {
    pub(crate) fn read(pid: u32) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(bytes) => Self::parse(pid, &bytes).map(Some),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::read`], with what belongs to others and is hidden from us taken for absent.
    fn read_visible(pid: u32) -> io::Result<Option<Self>> {
        match Self::read(pid) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            other => other,
        }
    }

    /// Every process that can be seen, by pid.
    pub(crate) fn all() -> io::Result<BTreeMap<u32, Self>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            if let Some(stat) = Self::read_visible(pid)? {
                found.insert(pid, stat);
            }
        }
        Ok(found)
    }

    /// A process whose main thread ended while others run looks like a zombie, but lives.
    pub(crate) fn is_living(&self) -> bool {
        match self.state {
            'Z' => self.threads > 1,
            'X' | 'x' => false,
            _ => true,
        }
    }

    /// Whether it waits for a signal to go on.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    pub(crate) fn identity(&self, boot_id: &str) -> Identity {
        Identity { pid: self.pid, start_time: self.start_time, boot_id: boot_id.to_owned() }
    }

    /// The command's name is in parentheses and may itself hold any byte: fields are counted from the
    /// last closing one.
    fn parse(pid: u32, bytes: &[u8]) -> io::Result<Self> {
        let text = String::from_utf8_lossy(bytes);
        let after_name = text.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        let small = |at: usize| number(at).and_then(|number| u32::try_from(number).ok());
        let parsed = || {
            Some(Self {
                pid,
                state: fields.first()?.chars().next()?,
                ppid: small(1)?,
                group: small(2)?,
                session: small(3)?,
                threads: small(17)?,
                start_time: number(19)?,
            })
        };
        parsed().ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has an unknown shape")))
    }
}

/// Whether reading a file of a process failed because the process is no more.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::NOENT.raw_os_error()) || code == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let line = b"7 (a) Z 1 2) (b) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 6 0 789 0";
        let stat = ProcStat::parse(7, line).expect("parses");
        assert_eq!(
            (stat.state, stat.ppid, stat.group, stat.session, stat.threads, stat.start_time),
            ('S', 3, 4, 5, 6, 789)
        );
    }

    #[test]
    fn a_zombie_is_dead_unless_threads_remain() {
        let zombie = ProcStat::parse(1, b"1 (a) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0");
        let zombie = zombie.expect("parses");
        assert!(!zombie.is_living());
        assert!(ProcStat { threads: 2, ..zombie }.is_living());
    }

    #[test]
    fn another_boot_or_start_time_is_another_process() {
        let own = || Identity::own().expect("looks");
        assert!(own().is_alive().expect("looks"));
        assert!(!Identity { boot_id: "other".into(), ..own() }.is_alive().expect("looks"));
        assert!(!Identity { start_time: 1, ..own() }.is_alive().expect("looks"));
    }

    #[test]
    fn who_is_no_more_descends_from_nobody_that_can_be_told() {
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
