//! The identity of a process: pid, start time and boot id together, because a pid alone may be
//! reused.
//!
//! A zombie counts as dead. A check that fails is an error, never evidence of death.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

/// The maximum number of ancestors. A longer list indicates a damaged process table.
const MAX_ANCESTORS: usize = 4096;
/// The number of times that a changing list of ancestors is read before the call fails.
const MAX_READS: u32 = 8;
/// More bytes than a `stat` line can have. Such a line consists of a name of up to 64 bytes and
/// about 50 numbers.
const MAX_STAT_BYTES: usize = 4096;

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

/// The fields of a process's `stat` line that Provost needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcStat {
    pub pid: u32,
    pub ppid: u32,
    pub group: u32,
    /// The session id. It is 0 if the session was created outside this PID namespace, as in most
    /// containers.
    pub session: u32,
    pub start_time: u64,
    state: char,
    pub threads: u32,
}

impl ProcStat {
    /// Reads the process that has this pid now. It may be a zombie. `None` if the process does not
    /// exist, or if the kernel is currently removing it.
    pub fn read(pid: u32) -> io::Result<Option<Self>> {
        Self::read_from(pid, || read_stat_text(pid))
    }

    /// Parses the text. An empty or truncated text is read once more, because the text can be empty
    /// or truncated if the process exits in the meantime.
    fn read_from(
        pid: u32,
        mut read: impl FnMut() -> io::Result<Vec<u8>>,
    ) -> io::Result<Option<Self>> {
        let mut retried = false;
        loop {
            let bytes = match read() {
                Err(error) if is_gone(&error) => return Ok(None),
                bytes => bytes?,
            };
            match parse_stat(pid, &bytes) {
                StatText::Process(stat) => return Ok(Some(stat)),
                StatText::Removed => return Ok(None),
                StatText::Empty if retried => return Ok(None),
                StatText::Cut { ended: true } if retried => return Ok(None),
                StatText::Cut { .. } | StatText::Empty if !retried => retried = true,
                StatText::Empty | StatText::Cut { .. } | StatText::Unknown => {
                    let text = String::from_utf8_lossy(&bytes);
                    let why = format!("/proc/{pid}/stat has an unknown format: {text:?}");
                    return Err(io::Error::other(why));
                }
            }
        }
    }

    /// Like [`Self::read`], but treats a hidden process of another user as absent.
    pub fn read_visible(pid: u32) -> io::Result<Option<Self>> {
        match Self::read(pid) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
            other => other,
        }
    }

    /// Returns every visible process, by pid.
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

    /// Returns the children of this process, by pid. A child that exits in the meantime can hide
    /// another one.
    pub fn children() -> io::Result<BTreeMap<u32, Self>> {
        let own = std::process::id();
        if !Path::new(&format!("/proc/self/task/{own}/children")).exists() {
            // The kernel does not list children, so they are found among all processes.
            let mut all = Self::all()?;
            all.retain(|_, stat| stat.ppid == own);
            return Ok(all);
        }
        let mut found = BTreeMap::new();
        for thread in fs::read_dir("/proc/self/task")? {
            let list = match fs::read_to_string(thread?.path().join("children")) {
                // The thread has just exited, and another thread has adopted its children.
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

    /// Whether the process is alive. A process whose main thread has exited while other threads are
    /// running looks like a zombie, but is alive.
    pub fn is_living(&self) -> bool {
        match self.state {
            'Z' => self.threads > 1,
            'X' | 'x' => false,
            _ => true,
        }
    }

    /// Whether the process is stopped until a signal continues it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    pub fn identity(&self, boot_id: &str) -> ProcessInstance {
        ProcessInstance { pid: self.pid, start_time: self.start_time, boot_id: boot_id.to_owned() }
    }
}

/// The content of a `stat` file.
#[derive(Debug, PartialEq, Eq)]
enum StatText {
    Process(ProcStat),
    /// The kernel has released the process, so it has no group, session or threads.
    Removed,
    Empty,
    /// The line ends before the last required field.
    Cut {
        /// Whether the part that was read shows that the process has exited.
        ended: bool,
    },
    Unknown,
}

/// The number of fields after the name up to the start time, which is the last required one.
const STAT_FIELDS: usize = 20;

/// Parses a `stat` line. The command's name is in parentheses and may contain any byte, so fields
/// are counted from the last closing parenthesis.
fn parse_stat(pid: u32, bytes: &[u8]) -> StatText {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        return StatText::Empty;
    }
    let Some((_, after_name)) = text.rsplit_once(')') else {
        return if text.ends_with('\n') {
            StatText::Unknown
        } else {
            StatText::Cut { ended: false }
        };
    };
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let state = fields.first().and_then(|field| field.chars().next());
    // A number is complete only if another character follows it.
    let has_all = fields.len() > STAT_FIELDS || text.ends_with('\n');
    if !has_all {
        return StatText::Cut { ended: matches!(state, Some('Z' | 'X' | 'x')) };
    }
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<i64>().ok());
    if (number(2), number(3), number(17)) == (Some(-1), Some(-1), Some(0)) {
        return StatText::Removed;
    }
    let small = |at: usize| number(at).and_then(|number| u32::try_from(number).ok());
    let parsed = || {
        Some(ProcStat {
            pid,
            state: state?,
            ppid: small(1)?,
            group: small(2)?,
            session: small(3)?,
            threads: small(17)?,
            start_time: u64::try_from(number(19)?).ok()?,
        })
    };
    parsed().map_or(StatText::Unknown, StatText::Process)
}

/// Reads the `stat` file of a process in one call, because a second call may find another state, or
/// no process.
pub fn read_stat_text(pid: u32) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(format!("/proc/{pid}/stat"))?;
    let mut text = vec![0; MAX_STAT_BYTES];
    let length = loop {
        match file.read(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            length => break length?,
        }
    };
    text.truncate(length);
    Ok(text)
}

/// Whether reading a file of a process failed because the process has exited.
pub fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::NOENT.raw_os_error()) || code == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &[u8]) -> ProcStat {
        let text = parse_stat(7, line);
        let StatText::Process(stat) = text else { panic!("{text:?}") };
        stat
    }

    /// Parses the given texts as if consecutive reads had returned them.
    fn read_texts(texts: &[&str]) -> io::Result<Option<ProcStat>> {
        let mut texts = texts.iter();
        ProcStat::read_from(7, || Ok(texts.next().expect("one retry").as_bytes().to_vec()))
    }

    const LINE: &str = "7 (a) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 6 0 789 0 0\n";
    const REMOVED: &str = "7 (a) X 0 -1 -1 0 -1 0 0 0 0 0 0 0 0 0 20 0 0 0 789 0 0\n";

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let stat = parsed(b"7 (a) Z 1 2) (b) S 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 6 0 789 0");
        assert_eq!(
            (stat.state, stat.ppid, stat.group, stat.session, stat.threads, stat.start_time),
            ('S', 3, 4, 5, 6, 789)
        );
    }

    #[test]
    fn a_zombie_is_dead_unless_threads_remain() {
        let zombie = parsed(b"1 (a) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 1 0");
        assert!(!zombie.is_living());
        assert!(ProcStat { threads: 2, ..zombie }.is_living());
    }

    #[test]
    fn stat_of_released_process_is_gone() {
        assert_eq!(read_texts(&[REMOVED]).expect("reads"), None);
    }

    #[test]
    fn stat_that_vanishes_is_gone_after_a_retry() {
        assert_eq!(read_texts(&["", ""]).expect("reads"), None);
        assert_eq!(read_texts(&["7 (a", ""]).expect("reads"), None);
        assert_eq!(read_texts(&["7 (a) Z 3 4", "7 (a) Z 3 4"]).expect("reads"), None);
        for code in [Errno::SRCH, Errno::NOENT] {
            let gone = ProcStat::read_from(7, || Err(code.into()));
            assert_eq!(gone.expect("reads"), None);
        }
        let mut reads = 0;
        let gone = ProcStat::read_from(7, || {
            reads += 1;
            if reads == 1 { Ok(LINE.as_bytes()[..20].to_vec()) } else { Err(Errno::SRCH.into()) }
        });
        assert_eq!((gone.expect("reads"), reads), (None, 2));
    }

    #[test]
    fn stat_cut_at_any_byte_is_read_again() {
        let whole = parsed(LINE.as_bytes());
        // The last two fields are not required.
        for end in 0..LINE.len() - 4 {
            assert_eq!(read_texts(&[&LINE[..end], LINE]).expect("reads"), Some(whole.clone()));
        }
    }

    #[test]
    fn stat_of_unknown_format_shows_the_text() {
        let odd =
            ["7 (a) S 3 4 5\n", "7 (a) S 3 -4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 6 0 789 0\n", "x\n"];
        for text in odd {
            let error = read_texts(&[text]).expect_err("unknown").to_string();
            assert!(error.ends_with(&format!("unknown format: {text:?}")), "{error}");
        }
        let cut = "7 (a) S 3 4 5";
        let error = read_texts(&[cut, cut]).expect_err("still cut").to_string();
        assert!(error.ends_with(&format!("{cut:?}")), "{error}");
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
