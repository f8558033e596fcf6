//! The state of a process, and whether it is in the foreground of its terminal.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::process::{ProcessInstance, read_stat_text};

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

/// The properties of a process in its `stat` file that matter for supervision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatLine {
    pub parent: u32,
    pub start_time: u64,
    pub state: ProcessState,
    /// The process group, and the foreground group of the terminal.
    groups: (i64, i64),
    /// The device number of the terminal, as encoded by the kernel.
    terminal: i64,
}

impl StatLine {
    /// Reads the `stat` file of a process. Returns `None` if the process has exited.
    pub fn read(pid: u32) -> io::Result<Option<Self>> {
        match read_stat_text(pid) {
            Ok(bytes) if bytes.is_empty() => Ok(None),
            Ok(bytes) => parse(&bytes).map(Some).ok_or_else(|| {
                io::Error::other(format!("/proc/{pid}/stat has an unexpected format"))
            }),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Returns the state of this process, or `None` if it has exited. This is cheaper than reading all
/// properties of the process.
pub fn process_state(process: &ProcessInstance) -> io::Result<Option<ProcessState>> {
    let same = |stat: &StatLine| stat.start_time == process.start_time;
    let found = StatLine::read(process.pid)?.filter(same);
    Ok(found.map(|stat| stat.state).filter(|state| *state != ProcessState::Zombie))
}

/// Whether this process still exists, has this terminal, and is in the foreground of the terminal.
/// In that case, keys reach this process rather than a shell that waits for it.
pub fn is_in_foreground(process: &ProcessInstance, terminal: &Path) -> io::Result<bool> {
    let Some(stat) = StatLine::read(process.pid)? else { return Ok(false) };
    let device = rustix::fs::stat(terminal)?.st_rdev;
    let (major, minor) =
        (i64::from(rustix::fs::major(device)), i64::from(rustix::fs::minor(device)));
    let packed = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    let same = stat.start_time == process.start_time && stat.terminal == packed;
    Ok(same && stat.state == ProcessState::Alive && stat.groups.0 == stat.groups.1)
}

/// Whether reading a file of a process failed because the process has exited.
pub fn is_gone(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(Errno::NOENT.raw_os_error()) || code == Some(Errno::SRCH.raw_os_error())
}

/// Parses a `stat` line. The command name is in parentheses and may contain any byte, so fields are
/// counted from the last closing parenthesis.
fn parse(bytes: &[u8]) -> Option<StatLine> {
    let text = String::from_utf8_lossy(bytes);
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let threads: u64 = fields.get(17)?.parse().ok()?;
    let state = match fields.first()?.chars().next()? {
        'T' | 't' => ProcessState::Stopped,
        // A zombie with other threads is alive: only its main thread has exited.
        'Z' if threads <= 1 => ProcessState::Zombie,
        'X' | 'x' => ProcessState::Zombie,
        _ => ProcessState::Alive,
    };
    Some(StatLine {
        parent: fields.get(1)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
        state,
        groups: (fields.get(2)?.parse().ok()?, fields.get(5)?.parse().ok()?),
        terminal: fields.get(4)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_does_not_shift_the_fields() {
        let line = b"7 (a) Z 1 2) (b) T 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 6 0 789 0";
        let stat = parse(line).unwrap();
        assert_eq!((stat.parent, stat.start_time, stat.state), (3, 789, ProcessState::Stopped));
        assert_eq!((stat.groups, stat.terminal), ((4, -1), 0));
        assert_eq!(parse(b"7 (a) S 3"), None);
    }

    #[test]
    fn a_zombie_with_threads_left_is_alive() {
        let line = |threads| format!("7 (a) Z 3 4 5 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 789 0");
        assert_eq!(parse(line(1).as_bytes()).unwrap().state, ProcessState::Zombie);
        assert_eq!(parse(line(2).as_bytes()).unwrap().state, ProcessState::Alive);
    }
}
