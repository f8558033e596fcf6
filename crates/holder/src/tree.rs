//! Ending process trees: finding every process of one, signalling each safely, verifying that none is left.
//!
//! Individual processes are signalled through pidfds after a comparison of start times, so that a reused
//! pid is never hit.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, geteuid, pidfd_open, pidfd_send_signal};

use crate::clock::{mono_ms, timespec};
use crate::identity::{Identity, ProcStat, boot_id, is_gone};
use crate::spec::MARK;

/// How long after the first KILL a process may take to vanish before we give up on it.
pub(crate) const KILL_PATIENCE_MS: u64 = 5000;
/// A kill is repeated this often, for processes that were forked meanwhile.
const KILL_ROUND_MS: u64 = 50;

/// What became of a marked tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// How many processes had to be ended.
    pub found: usize,
    /// Those that are still there.
    pub remaining: Vec<Identity>,
}

impl Ended {
    pub fn verified(&self) -> bool {
        self.remaining.is_empty()
    }
}

/// The living processes of a launch whose holder is no more: those that carry its mark, and their
/// descendants. A process that cleaned its environment and left its parent is not found.
pub fn survivors(mark: &str) -> io::Result<Vec<Identity>> {
    let table = ProcStat::all()?;
    let boot = boot_id()?;
    let wanted = format!("{MARK}={mark}");
    let mut found = BTreeMap::new();
    for stat in table.values().filter(|stat| stat.is_living()) {
        if is_marked(stat.pid, &wanted)? {
            found.insert(stat.pid, stat);
            found.extend(below(&table, stat.pid).map(|stat| (stat.pid, stat)));
        }
    }
    found.remove(&std::process::id());
    Ok(found.values().filter(|stat| stat.is_living()).map(|stat| stat.identity(&boot)).collect())
}

/// Ends the survivors of a launch: TERM, grace, KILL, until none is found any more.
pub fn end_survivors(mark: &str, grace: Duration) -> io::Result<Ended> {
    let mut remaining = survivors(mark)?;
    let mut seen: std::collections::BTreeSet<Identity> = remaining.iter().cloned().collect();
    let grace_end = mono_ms() + u64::try_from(grace.as_millis()).unwrap_or(u64::MAX / 2);
    signal_each(&remaining, Signal::TERM);
    // A stopped process takes no TERM before it goes on.
    signal_each(&remaining, Signal::CONT);
    wait_for(&remaining, grace_end);
    let give_up = mono_ms() + KILL_PATIENCE_MS;
    loop {
        remaining = survivors(mark)?;
        seen.extend(remaining.iter().cloned());
        if remaining.is_empty() || mono_ms() >= give_up {
            return Ok(Ended { found: seen.len(), remaining });
        }
        signal_each(&remaining, Signal::KILL);
        wait_for(&remaining, mono_ms() + KILL_ROUND_MS);
    }
}

/// The living descendants of a process.
pub(crate) fn living_below(root: u32) -> io::Result<Vec<ProcStat>> {
    let table = ProcStat::all()?;
    Ok(below(&table, root).filter(|stat| stat.is_living()).cloned().collect())
}

/// Signals this very process, and says whether it was there to be signalled.
pub(crate) fn signal(pid: u32, start_time: u64, signal: Signal) -> io::Result<bool> {
    let Some(pidfd) = open(pid, start_time)? else { return Ok(false) };
    match pidfd_send_signal(&pidfd, signal) {
        Ok(()) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A handle to this very process. The start time is read after the handle was opened: from then on the
/// pid cannot come to mean another process without the handle knowing.
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

/// A process that refuses a signal shows up as remaining in the end, so errors need no report here.
fn signal_each(processes: &[Identity], which: Signal) {
    for process in processes {
        signal(process.pid, process.start_time, which).ok();
    }
}

/// Waits until all of these processes ended or the time is over.
fn wait_for(processes: &[Identity], until: u64) {
    for process in processes {
        let Ok(Some(pidfd)) = open(process.pid, process.start_time) else { continue };
        let mut entry = [PollFd::new(&pidfd, PollFlags::IN)];
        let left = timespec(until.saturating_sub(mono_ms()));
        // An interrupted wait is only shorter: the caller looks again.
        poll(&mut entry, Some(&left)).ok();
    }
}

fn below(table: &BTreeMap<u32, ProcStat>, root: u32) -> impl Iterator<Item = &ProcStat> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for stat in table.values() {
        children.entry(stat.ppid).or_default().push(stat.pid);
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found.into_iter().filter_map(|pid| table.get(&pid))
}

/// Processes of other users are not ours to find. One of our own that cannot be read has made itself
/// undumpable, and is passed over as well.
fn is_marked(pid: u32, wanted: &str) -> io::Result<bool> {
    let path = format!("/proc/{pid}/environ");
    let own = fs::metadata(&path).map(|found| found.uid() == geteuid().as_raw());
    match own.and_then(|own| if own { fs::read(&path) } else { Ok(Vec::new()) }) {
        Ok(environ) => Ok(environ.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())),
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
