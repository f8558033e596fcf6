//! Process identity: pid, start time and boot id together, because a pid alone is reused.
//!
//! A zombie counts as dead. A failed check is an error, never "dead".

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// More generations than this indicate a damaged process table.
const MAX_ANCESTORS: usize = 4096;
/// How often a changing list of ancestors is read before it is an error.
const MAX_READS: u32 = 8;

/// One process of one boot of one machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessInstance {
    pub pid: u32,
    /// Clock ticks between boot and the start of the process.
    pub start_time: u64,
    pub boot_id: String,
}

impl ProcessInstance {
    /// The identity of the process that has this pid now, including a zombie.
    pub fn of_pid(pid: u32) -> io::Result<Option<Self>> {
        match ProcStat::read(pid)? {
            Some(stat) => Ok(Some(stat.identity(&boot_id()?))),
            None => Ok(None),
        }
    }

    /// The identity of the calling process.
    pub fn own() -> io::Result<Self> {
        Self::of_pid(std::process::id())?
            .ok_or_else(|| io::Error::other("/proc does not show this process"))
    }

    /// Whether exactly this process still runs: same boot, same start time, not a zombie.
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

/// The ancestors of a process, its parent first. Where `/proc` hides processes of other users, the
/// list ends at the first of those. A process that has ended is an error: otherwise it would have
/// no ancestors.
pub fn ancestors(pid: u32) -> io::Result<Vec<ProcessInstance>> {
    let boot = boot_id()?;
    let family = family(pid)?;
    Ok(family.iter().skip(1).map(|stat| stat.identity(&boot)).collect())
}

/// A process and its ancestors, itself first.
///
/// A parent may end while the list is read, and its pid may be reused. Such a list is read again: a
/// parent is never younger than its child, and the process must have the same parent before and
/// after.
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
    Err(io::Error::other(format!("the ancestors of process {pid} change too fast to be read")))
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

/// The time since boot in the unit of [`ProcessInstance::start_time`].
pub fn ticks_since_boot() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(now.tv_nsec).unwrap_or(0);
    let per_second = rustix::param::clock_ticks_per_second();
    seconds * per_second + nanos * per_second / 1_000_000_000
}

/// The real user of a process, which a set-user-ID program does not change. `None` if the process has ended.
pub fn real_uid(pid: u32) -> io::Result<Option<u32>> {
    let status = match fs::read_to_string(format!("/proc/{pid}/status")) {
        Err(error) if is_gone(&error) => return Ok(None),
        status => status?,
    };
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let uid = line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
    uid.map(Some).ok_or_else(|| io::Error::other(format!("/proc/{pid}/status has no user")))
}

/// The control groups of a process, as one text for comparison. `None` if the process has ended.
pub fn control_groups(pid: u32) -> io::Result<Option<String>> {
    match fs::read_to_string(format!("/proc/{pid}/cgroup")) {
        Err(error) if is_gone(&error) => Ok(None),
        groups => groups.map(Some),
    }
}

/// Prevents the user's other processes from reading this one's memory, environment and descriptors.
///
/// The files of this process in `/proc` then belong to root. This process itself, and readers of
/// world-readable files such as `stat`, `status` and `cmdline`, are not affected. Core dumps are
/// disabled.
pub fn hide_from_user() -> io::Result<()> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// The fields of a process's `stat` line that we need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcStat {
    pub pid: u32,
    pub ppid: u32,
    pub group: u32,
    /// 0 if the session was created outside this PID namespace, as in most containers.
    pub session: u32,
    pub start_time: u64,
    state: char,
    threads: u32,
}

impl ProcStat {
    pub fn read(pid: u32) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(bytes) => Self::parse(pid, &bytes).map(Some),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Like [`Self::read`]; a hidden process of another user counts as absent.
    pub fn read_visible(pid: u32) -> io::Result<Option<Self>> {
        match Self::read(pid) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            other => other,
        }
    }

    /// Every visible process, by pid.
    pub fn all() -> io::Result<BTreeMap<u32, Self>> {
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

    /// The children of this process, by pid. One that ends meanwhile can hide another from this
    /// call.
    pub fn children() -> io::Result<BTreeMap<u32, Self>> {
        let own = std::process::id();
        if !Path::new(&format!("/proc/self/task/{own}/children")).exists() {
            // A kernel without such lists.
            let mut all = Self::all()?;
            all.retain(|_, stat| stat.ppid == own);
            return Ok(all);
        }
        let mut found = BTreeMap::new();
        for thread in fs::read_dir("/proc/self/task")? {
            let list = match fs::read_to_string(thread?.path().join("children")) {
                // A thread that has just ended; its children were adopted by another.
                Err(error) if is_gone(&error) => continue,
                list => list?,
            };
            for pid in list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()) {
                if let Some(stat) = Self::read_visible(pid)?.filter(|stat| stat.ppid == own) {
                    found.insert(pid, stat);
                }
            }
        }
        Ok(found)
    }

    /// A process whose main thread ended while others run looks like a zombie, but lives.
    pub fn is_living(&self) -> bool {
        match self.state {
            'Z' => self.threads > 1,
            'X' | 'x' => false,
            _ => true,
        }
    }

    /// Whether it is stopped until a signal continues it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    pub fn identity(&self, boot_id: &str) -> ProcessInstance {
        ProcessInstance { pid: self.pid, start_time: self.start_time, boot_id: boot_id.to_owned() }
    }

    /// The command's name is in parentheses and may contain any byte: fields are counted from the
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
        parsed().ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat has an unknown format")))
    }
}

/// Whether reading a file of a process failed because the process has ended.
pub fn is_gone(error: &io::Error) -> bool {
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
    fn children_of_all_threads_are_found() {
        let sleep = || std::process::Command::new("sleep").arg("60").spawn().expect("starts");
        let mut children = [sleep(), std::thread::spawn(sleep).join().expect("joins")];
        let found = ProcStat::children().expect("looks");
        for child in &mut children {
            assert!(found.contains_key(&child.id()), "{found:?}");
            child.kill().expect("ends");
        }
        assert!(ProcStat::children().expect("looks").contains_key(&children[0].id()), "a zombie");
        for child in &mut children {
            child.wait().expect("is reaped");
        }
        let found = ProcStat::children().expect("looks");
        assert!(children.iter().all(|child| !found.contains_key(&child.id())), "{found:?}");
    }

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
