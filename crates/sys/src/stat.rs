//! The `stat` file of a process: its parent, groups, terminal, start time and state.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use crate::process::{ProcessInstance, is_gone};

/// More bytes than a `stat` line can have. Such a line consists of a name of up to 64 bytes and
/// about 50 numbers.
const MAX_STAT_BYTES: usize = 4096;

/// The state of a process, reduced to the cases that matter for supervision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// The process is running, or waiting for an event.
    Alive,
    /// The process is stopped until a signal continues it.
    Stopped,
    /// The process has exited, but its parent has not reaped it yet.
    Zombie,
}

impl ProcessState {
    /// Converts the kernel's letter. A process whose main thread has exited while other threads are
    /// running looks like a zombie, but is alive.
    fn from_letter(letter: char, threads: u32) -> Self {
        match letter {
            'T' | 't' => Self::Stopped,
            'Z' if threads <= 1 => Self::Zombie,
            'X' | 'x' => Self::Zombie,
            _ => Self::Alive,
        }
    }
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
    pub state: ProcessState,
    pub threads: u32,
    /// The foreground group of the terminal.
    foreground_group: i64,
    /// The device number of the terminal, as encoded by the kernel.
    terminal: i64,
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

    /// Whether the process is alive, even if it is stopped.
    pub fn is_living(&self) -> bool {
        self.state != ProcessState::Zombie
    }

    /// Whether the process is stopped until a signal continues it.
    pub fn is_stopped(&self) -> bool {
        self.state == ProcessState::Stopped
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
            state: ProcessState::from_letter(state?, small(17)?),
            threads: small(17)?,
            ppid: small(1)?,
            group: small(2)?,
            session: small(3)?,
            terminal: number(4)?,
            foreground_group: number(5)?,
            start_time: u64::try_from(number(19)?).ok()?,
        })
    };
    parsed().map_or(StatText::Unknown, StatText::Process)
}

/// Reads the `stat` file of a process in one call, because a second call may find another state, or
/// no process.
fn read_stat_text(pid: u32) -> io::Result<Vec<u8>> {
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

/// Returns the state of this process, or `None` if it has exited. This is cheaper than reading all
/// properties of the process.
pub fn process_state(process: &ProcessInstance) -> io::Result<Option<ProcessState>> {
    let same = |stat: &ProcStat| stat.start_time == process.start_time;
    let found = ProcStat::read(process.pid)?.filter(same);
    Ok(found.map(|stat| stat.state).filter(|state| *state != ProcessState::Zombie))
}

/// Whether this process still exists, has this terminal, and is in the foreground of the terminal.
/// In that case, keys reach this process rather than a shell that waits for it.
pub fn is_in_foreground(process: &ProcessInstance, terminal: &Path) -> io::Result<bool> {
    let Some(stat) = ProcStat::read(process.pid)? else { return Ok(false) };
    let device = rustix::fs::stat(terminal)?.st_rdev;
    let (major, minor) =
        (i64::from(rustix::fs::major(device)), i64::from(rustix::fs::minor(device)));
    let packed = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    let same = stat.start_time == process.start_time && stat.terminal == packed;
    Ok(same && stat.state == ProcessState::Alive && i64::from(stat.group) == stat.foreground_group)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

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
        let (groups, terminal) = ((stat.group, stat.foreground_group), stat.terminal);
        assert_eq!((stat.state, stat.ppid, stat.session), (ProcessState::Alive, 3, 5));
        assert_eq!((groups, terminal, stat.start_time), ((4, -1), 0, 789));
    }

    #[test]
    fn a_zombie_is_dead_unless_threads_remain() {
        let line = |threads| format!("7 (a) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 789 0");
        assert!(!parsed(line(1).as_bytes()).is_living());
        assert!(parsed(line(2).as_bytes()).is_living());
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
}
