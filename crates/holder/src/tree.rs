//! Ends process trees: finds every process, signals each one safely, and verifies that none is
//! left.
//!
//! Individual processes are signalled through pidfds after their start times have been compared, so
//! that a reused pid is never hit.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use crate::clock::{mono_ms, timespec};
use crate::spec::MARK;
use provost_sys::process::{ProcessInstance, boot_id, command_line, is_gone, real_uid};
use provost_sys::stat::ProcStat;

/// The time after the first SIGKILL in which a process must disappear. After this time, Provost
/// stops waiting for it.
pub(crate) const KILL_PATIENCE_MS: u64 = 5000;
/// The pause between repeated SIGKILLs, which catch processes that were forked in the meantime.
const KILL_ROUND_MS: u64 = 50;

/// The result of ending the processes of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEndResult {
    /// The number of processes that had to be terminated.
    pub found: usize,
    /// The processes that still exist.
    pub remaining: Vec<ProcessInstance>,
}

impl TreeEndResult {
    pub fn verified(&self) -> bool {
        self.remaining.is_empty()
    }
}

/// The traces by which the processes of a launch are recognized if neither its directory nor its
/// holder lists them.
#[derive(Debug, Clone, Default)]
pub struct LaunchTraces {
    /// The mark in the environment, which a process may have removed.
    pub mark: String,
    /// The end of the holder's command line, if the holder was not recorded.
    pub holder_line: Vec<OsString>,
    pub holder: Option<ProcessInstance>,
    pub child: Option<ProcessInstance>,
}

impl LaunchTraces {
    pub fn with_mark(mark: &str) -> Self {
        Self { mark: mark.to_owned(), ..Self::default() }
    }
}

/// Returns the living processes of a launch whose holder is gone: those that carry its mark, and
/// their descendants. A process that removed the mark and left its parent is not found.
pub fn survivors(mark: &str) -> io::Result<Vec<ProcessInstance>> {
    remaining(&LaunchTraces::with_mark(mark))
}

/// Returns the living processes of a launch, except its holder.
pub fn remaining(traces: &LaunchTraces) -> io::Result<Vec<ProcessInstance>> {
    Ok(LaunchProcesses::scan(traces)?.commands)
}

/// Terminates the survivors of a launch with SIGTERM and, after the grace period, with SIGKILL,
/// until none is left.
pub fn end_survivors(mark: &str, grace: Duration) -> io::Result<TreeEndResult> {
    end_all(&LaunchTraces::with_mark(mark), grace)
}

/// Terminates all remaining processes of a launch, including its holder, until none is left. The
/// holder is terminated last, because no descendant can leave the tree while it lives.
pub fn end_all(traces: &LaunchTraces, grace: Duration) -> io::Result<TreeEndResult> {
    let mut found = LaunchProcesses::scan(traces)?;
    let mut seen: BTreeSet<ProcessInstance> = found.commands.iter().cloned().collect();
    let grace_end = mono_ms() + u64::try_from(grace.as_millis()).unwrap_or(u64::MAX / 2);
    // Stop the holders first, because a running one would record that the command ended on its own.
    signal_each(&found.holders, Signal::STOP);
    signal_each(&found.commands, Signal::TERM);
    // A stopped process does not handle SIGTERM until it is continued.
    signal_each(&found.commands, Signal::CONT);
    wait_for(&found.commands, grace_end);
    let give_up = mono_ms() + KILL_PATIENCE_MS;
    loop {
        found = LaunchProcesses::scan(traces)?;
        seen.extend(found.commands.iter().cloned());
        let last = if found.commands.is_empty() { &found.holders } else { &found.commands };
        if last.is_empty() || mono_ms() >= give_up {
            let remaining = found.commands.into_iter().chain(found.holders).collect();
            return Ok(TreeEndResult { found: seen.len(), remaining });
        }
        signal_each(last, Signal::KILL);
        wait_for(last, mono_ms() + KILL_ROUND_MS);
    }
}

/// Continues a stopped process. A running process is not affected.
pub fn resume_process(process: &ProcessInstance) -> io::Result<()> {
    signal(process.pid, process.start_time, Signal::CONT).map(drop)
}

/// The processes of a launch, from one scan of the process table.
#[derive(Debug)]
struct LaunchProcesses {
    holders: Vec<ProcessInstance>,
    commands: Vec<ProcessInstance>,
}

impl LaunchProcesses {
    fn scan(traces: &LaunchTraces) -> io::Result<LaunchProcesses> {
        let (table, boot) = (ProcStat::all()?, boot_id()?);
        let (mut holders, mut others) = (BTreeSet::new(), BTreeSet::new());
        for stat in table.values().filter(|stat| stat.is_living()) {
            match traces.role(stat, &boot)? {
                Some(TreeRole::Holder) => holders.insert(stat.pid),
                Some(TreeRole::Other) => others.insert(stat.pid),
                None => continue,
            };
            others.extend(descendants(&table, stat.pid).map(|stat| stat.pid));
        }
        others.remove(&std::process::id());
        let identities = |pids: BTreeSet<u32>| {
            let stats = pids.into_iter().filter_map(|pid| table.get(&pid));
            stats.filter(|stat| stat.is_living()).map(|stat| stat.identity(&boot)).collect()
        };
        let others = others.difference(&holders).copied().collect();
        Ok(LaunchProcesses { holders: identities(holders), commands: identities(others) })
    }
}

enum TreeRole {
    Holder,
    Other,
}

impl LaunchTraces {
    fn role(&self, stat: &ProcStat, boot: &str) -> io::Result<Option<TreeRole>> {
        let is = |known: &Option<ProcessInstance>| {
            known.as_ref().is_some_and(|known| *known == stat.identity(boot))
        };
        if is(&self.holder) || self.has_holder_line(stat.pid)? {
            return Ok(Some(TreeRole::Holder));
        }
        let wanted = format!("{MARK}={}", self.mark);
        let other = is(&self.child) || is_marked(stat.pid, &wanted)?;
        Ok(other.then_some(TreeRole::Other))
    }

    fn has_holder_line(&self, pid: u32) -> io::Result<bool> {
        if self.holder_line.is_empty() {
            return Ok(false);
        }
        // Any process may read this file. A holder's other files belong to root.
        let words = match command_line(pid) {
            Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(false);
            }
            words => words?,
        };
        let is_it = words.len() > self.holder_line.len() && words.ends_with(&self.holder_line);
        Ok(is_it && real_uid(pid)? == Some(geteuid().as_raw()))
    }
}

/// Returns the living descendants of a process.
pub(crate) fn living_descendants(root: u32) -> io::Result<Vec<ProcStat>> {
    let table = ProcStat::all()?;
    Ok(descendants(&table, root).filter(|stat| stat.is_living()).cloned().collect())
}

/// Signals exactly this process. Returns true if it existed.
pub(crate) fn signal(pid: u32, start_time: u64, signal: Signal) -> io::Result<bool> {
    let Some(pidfd) = open(pid, start_time)? else { return Ok(false) };
    match pidfd_send_signal(&pidfd, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens a handle to exactly this process. Reads the start time after opening the handle, because
/// from then on a reuse of the pid cannot go unnoticed.
fn open(pid: u32, start_time: u64) -> io::Result<Option<OwnedFd>> {
    let Some(raw) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
    let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
        Ok(pidfd) => pidfd,
        Err(Errno::SRCH) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let same = ProcStat::read(pid)?.is_some_and(|stat| stat.start_time == start_time);
    Ok(same.then_some(pidfd))
}

/// Signals each process. Errors are ignored, because a process that survives is listed as remaining
/// at the end.
fn signal_each(processes: &[ProcessInstance], which: Signal) {
    for process in processes {
        signal(process.pid, process.start_time, which).ok();
    }
}

/// Waits until all the given processes have exited, or until the given time.
fn wait_for(processes: &[ProcessInstance], until: u64) {
    for process in processes {
        let Ok(Some(pidfd)) = open(process.pid, process.start_time) else { continue };
        let mut entry = [PollFd::new(&pidfd, PollFlags::IN)];
        let left = timespec(until.saturating_sub(mono_ms()));
        // An interrupted wait is just shorter. The caller then scans again.
        poll(&mut entry, Some(&left)).ok();
    }
}

fn descendants(table: &BTreeMap<u32, ProcStat>, root: u32) -> impl Iterator<Item = &ProcStat> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for stat in table.values() {
        children.entry(stat.ppid).or_default().push(stat.pid);
    }
    // The searching process may itself be in the tree, but the processes it started are not part of
    // it.
    if root != std::process::id() {
        children.remove(&std::process::id());
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found.into_iter().filter_map(|pid| table.get(&pid))
}

fn is_marked(pid: u32, wanted: &str) -> io::Result<bool> {
    Ok(read_own(pid, "environ")?.split(is_nul).any(|entry| entry == wanted.as_bytes()))
}

fn is_nul(byte: &u8) -> bool {
    *byte == 0
}

/// Reads a file of a process. Returns nothing for processes of other users, and for a process that
/// has made itself undumpable and therefore cannot be read.
fn read_own(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let path = format!("/proc/{pid}/{name}");
    let own = fs::metadata(&path).map(|found| found.uid() == geteuid().as_raw());
    match own.and_then(|own| if own { fs::read(&path) } else { Ok(Vec::new()) }) {
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(Vec::new())
        }
        other => other,
    }
}
