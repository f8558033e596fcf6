//! Looking at one process, or at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::stat::{Identity, Stat, State, boot_id, is_gone};
use crate::rollout::Rollout;

/// More of a file of a process than this is not read.
const MOST_BYTES: u64 = 1 << 20;
/// More descriptors than this are not looked at.
const MOST_DESCRIPTORS: usize = 4096;

/// Something about a process, or why it could not be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<T> {
    Yes(T),
    /// As a rule because the process is another user's.
    Hidden(String),
}

/// All that can be known about a process from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub identity: Identity,
    pub parent: u32,
    pub user: u32,
    pub state: State,
    pub executable: Seen<PathBuf>,
    pub arguments: Seen<Vec<OsString>>,
    pub cwd: Seen<PathBuf>,
    /// `AI_AGENT` of the environment that it was started with.
    pub ai_agent: Seen<Option<OsString>>,
    /// The rollouts that it has open, and that are still there.
    pub rollouts: Seen<Vec<Rollout>>,
}

/// Everything that could be seen, and what could not.
#[derive(Debug, Default)]
pub struct All {
    pub processes: Vec<Process>,
    pub skipped: Vec<(u32, io::Error)>,
}

/// Looks at a process; nothing if there is none with this pid.
pub fn look(pid: u32) -> io::Result<Option<Process>> {
    let Some(before) = Stat::read(pid)? else { return Ok(None) };
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let Some(user) = present(fs::metadata(&directory))?.map(|seen| seen.uid()) else {
        return Ok(None);
    };
    let process = Process {
        identity: Identity { pid, start_time: before.start_time, boot_id: boot_id()? },
        parent: before.parent,
        user,
        state: before.state,
        executable: seen(fs::read_link(directory.join("exe"))),
        arguments: seen(read_some(&directory.join("cmdline")).map(|bytes| words(&bytes))),
        cwd: seen(fs::read_link(directory.join("cwd"))),
        ai_agent: seen(
            read_some(&directory.join("environ")).map(|bytes| value(&bytes, b"AI_AGENT=")),
        ),
        rollouts: seen(open_rollouts(&directory.join("fd"))),
    };
    // Between two looks the pid may have become another's.
    let same = Stat::read(pid)?.is_some_and(|after| after.start_time == before.start_time);
    Ok(same.then_some(process))
}

/// Looks at every process that the kernel shows.
pub fn all() -> io::Result<All> {
    let mut found = All::default();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        match look(pid) {
            Ok(process) => found.processes.extend(process),
            Err(error) => found.skipped.push((pid, error)),
        }
    }
    Ok(found)
}

fn seen<T>(result: io::Result<T>) -> Seen<T> {
    match result {
        Ok(value) => Seen::Yes(value),
        Err(error) => Seen::Hidden(error.to_string()),
    }
}

fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read_some(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Words that end with a zero byte each.
fn words(bytes: &[u8]) -> Vec<OsString> {
    let ended = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if ended.is_empty() {
        return Vec::new();
    }
    ended.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect()
}

fn value(environment: &[u8], name: &[u8]) -> Option<OsString> {
    let mut found =
        environment.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(name));
    found.next().map(|value| OsString::from_vec(value.to_vec()))
}

fn open_rollouts(descriptors: &Path) -> io::Result<Vec<Rollout>> {
    let mut found: Vec<Rollout> = Vec::new();
    for entry in fs::read_dir(descriptors)?.take(MOST_DESCRIPTORS) {
        // A descriptor that is closed meanwhile is no more open.
        let Ok(target) = fs::read_link(entry?.path()) else { continue };
        let archived = target.iter().any(|part| part == OsStr::new("archived_sessions"));
        found.extend(Rollout::named(&target, archived));
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup();
    Ok(found)
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::{Child, Command, Stdio};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// A process about which nothing special is known.
    pub(in super::super) fn process() -> Process {
        Process {
            identity: Identity { pid: 1, start_time: 1, boot_id: "b".into() },
            parent: 0,
            user: 0,
            state: State::Alive,
            executable: Seen::Yes("/bin/sh".into()),
            arguments: Seen::Yes(Vec::new()),
            cwd: Seen::Yes("/".into()),
            ai_agent: Seen::Yes(None),
            rollouts: Seen::Yes(Vec::new()),
        }
    }

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            self.0.kill().ok();
            self.0.wait().ok();
        }
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "looks at the kernel's tables, which tell nobody"
    )]
    fn wait_until(mut holds: impl FnMut() -> bool) {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed() < std::time::Duration::from_secs(30), "waited in vain");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    #[test]
    fn a_process_is_seen_with_its_program_directory_environment_and_open_rollouts() {
        let directory = tempfile::tempdir().unwrap();
        let name = "rollout-2026-11-15T18-49-53-01a1e08b-614a-7c61-a49a-d6ec86726bf8.jsonl";
        let rollout = fs::canonicalize(directory.path()).unwrap().join(name);
        fs::write(&rollout, "").unwrap();
        let mut command = Command::new("/bin/cat");
        command.env("AI_AGENT", "codex").current_dir(directory.path());
        command.stdin(Stdio::piped()).stdout(File::options().append(true).open(&rollout).unwrap());
        let child = Ended(command.arg("-").spawn().unwrap());
        // Until it runs its program the child is still a copy of this process.
        wait_until(|| look(child.0.id()).unwrap().unwrap().arguments.seen().unwrap().len() == 2);
        let seen = look(child.0.id()).unwrap().unwrap();
        assert_eq!(seen.parent, std::process::id());
        assert_eq!(seen.state, State::Alive);
        assert_eq!(seen.cwd, Seen::Yes(fs::canonicalize(directory.path()).unwrap()));
        assert_eq!(seen.ai_agent, Seen::Yes(Some("codex".into())));
        assert_eq!(seen.arguments, Seen::Yes(vec!["/bin/cat".into(), "-".into()]));
        let rollouts = seen.rollouts.seen().unwrap();
        assert_eq!(rollouts.iter().map(|rollout| &rollout.path).collect::<Vec<_>>(), [&rollout]);
        assert!(all().unwrap().processes.iter().any(|other| other.identity == seen.identity));
    }

    #[test]
    fn stopped_and_ended_processes_are_told_apart() {
        let child = Ended(Command::new("cat").stdin(Stdio::piped()).spawn().unwrap());
        let pid = Pid::from_child(&child.0);
        let state = || look(child.0.id()).unwrap().map(|process| process.state);
        assert_eq!(state(), Some(State::Alive));
        kill_process(pid, Signal::STOP).unwrap();
        wait_until(|| state() == Some(State::Stopped));
        kill_process(pid, Signal::KILL).unwrap();
        wait_until(|| state() == Some(State::Zombie));
        drop(child);
    }

    #[test]
    fn a_pid_of_nobody_is_nothing() {
        assert_eq!(look(u32::MAX).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_seen_says_why() {
        let hidden: Seen<()> = seen(Err(io::Error::from(io::ErrorKind::PermissionDenied)));
        assert_eq!(hidden, Seen::Hidden("permission denied".into()));
    }
}
