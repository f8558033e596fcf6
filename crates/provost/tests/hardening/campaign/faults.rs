//! The faults of a campaign: the processes to kill or pause, and the resources to run short of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_holder::{HeldRecord, LaunchState, ProcessInstance, inspect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::SeededRandom;
use super::operator::{CampaignJob, CampaignOperator, JobKind};

/// Mount options of the home's disk. A launch needs 16 MiB to start.
const DISK: &str = "size=192m,nr_inodes=40000,mode=0700";

/// Text in an error if a program was killed.
pub(super) const KILLED: &str = "signal 9";

/// Text in a session's reason if its start could not be recorded for lack of room.
const UNRECORDED: &str = "its start could not be recorded";

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InjectedFault {
    Daemon,
    Holder,
    Agent,
    Git,
    Pause,
    Disk,
    Inodes,
    Threads,
    Descriptors,
}

impl InjectedFault {
    pub(super) const ALL: [InjectedFault; 9] = [
        InjectedFault::Daemon,
        InjectedFault::Holder,
        InjectedFault::Agent,
        InjectedFault::Git,
        InjectedFault::Pause,
        InjectedFault::Disk,
        InjectedFault::Inodes,
        InjectedFault::Threads,
        InjectedFault::Descriptors,
    ];

    /// The faults of a default test run. A deep run has all faults.
    pub(super) const USUAL: [InjectedFault; 4] =
        [InjectedFault::Daemon, InjectedFault::Holder, InjectedFault::Agent, InjectedFault::Pause];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            InjectedFault::Daemon => "daemon",
            InjectedFault::Holder => "holder",
            InjectedFault::Agent => "agent",
            InjectedFault::Git => "git",
            InjectedFault::Pause => "pause",
            InjectedFault::Disk => "disk",
            InjectedFault::Inodes => "inodes",
            InjectedFault::Threads => "threads",
            InjectedFault::Descriptors => "descriptors",
        }
    }

    fn is_kill(self) -> bool {
        matches!(
            self,
            InjectedFault::Daemon
                | InjectedFault::Holder
                | InjectedFault::Agent
                | InjectedFault::Git
        )
    }
}

/// Injects faults and remembers the sessions and runs they hit.
pub(super) struct FaultInjector {
    faults: Vec<InjectedFault>,
    counts: BTreeMap<InjectedFault, usize>,
    /// Sessions and runs whose agent, holder, check or hook was killed.
    pub(super) hit: BTreeSet<String>,
    /// The sessions and runs whose check or hook was killed.
    hit_effects: BTreeSet<String>,
    /// The current shortage.
    shortage: Option<InjectedFault>,
    /// The limit to restore when the shortage ends.
    lowered: Option<LoweredLimit>,
    disk: Option<PathBuf>,
}

/// A lowered resource limit and its previous value.
struct LoweredLimit {
    limits: ProcessLimit,
    before: String,
}

/// A resource limit of a process, changed with `prlimit`. Without a capability, only the process's own user may do
/// that.
struct ProcessLimit {
    /// The command prefix that switches to the campaign's user; empty if it is the current user.
    as_user: Vec<String>,
    pid: Pid,
    /// The option of `prlimit`, such as `nproc`.
    name: &'static str,
}

impl ProcessLimit {
    fn command(&self, more: &[&str]) -> Command {
        let pid = self.pid.as_raw_pid().to_string();
        let own = ["prlimit", "--pid", &pid].map(str::to_owned);
        let words: Vec<&String> = self.as_user.iter().chain(&own).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(more);
        command
    }

    fn set(&self, to: &str) -> bool {
        let ran = self.command(&[&format!("--{}={to}:", self.name)]).output();
        ran.is_ok_and(|ran| ran.status.success())
    }

    /// Lowers the limit; `None` if that fails, for example because the process has ended.
    fn lower(self, to: usize) -> Option<LoweredLimit> {
        let option = format!("--{}", self.name);
        let read = self.command(&[&option, "--output", "SOFT", "--noheadings"]).output().ok()?;
        let before = String::from_utf8_lossy(&read.stdout).trim().to_owned();
        let lowered = read.status.success() && self.set(&to.to_string());
        lowered.then_some(LoweredLimit { limits: self, before })
    }
}

impl LoweredLimit {
    fn restore(&self) {
        // Setting the limit fails if the process was killed, which is fine.
        self.limits.set(&self.before);
    }
}

impl FaultInjector {
    pub(super) fn new(operator: &CampaignOperator, faults: &[InjectedFault]) -> FaultInjector {
        let mut faults = faults.to_vec();
        let wants =
            |fault: &InjectedFault| matches!(fault, InjectedFault::Disk | InjectedFault::Inodes);
        let wanted = faults.iter().any(wants);
        let disk = wanted.then(|| mount(operator)).flatten();
        if wanted && disk.is_none() {
            println!(
                "campaign: no disk and inode shortages, because no file system can be mounted"
            );
            faults.retain(|fault| !wants(fault));
        }
        if faults.contains(&InjectedFault::Threads) && !operator.is_bound_by_limits() {
            println!("campaign: no thread shortages, because limits of threads do not bind root");
            faults.retain(|fault| *fault != InjectedFault::Threads);
        }
        let (hit, hit_effects) = (BTreeSet::new(), BTreeSet::new());
        let (short, lowered) = (None, None);
        FaultInjector {
            faults,
            counts: BTreeMap::new(),
            hit,
            hit_effects,
            shortage: short,
            lowered,
            disk,
        }
    }

    pub(super) fn describe(&self) -> String {
        let count = |fault: &InjectedFault| {
            format!("{} {}", fault.as_str(), self.counts.get(fault).copied().unwrap_or(0))
        };
        self.faults.iter().map(count).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn kills(&self) -> usize {
        self.counts.iter().filter(|(fault, _)| fault.is_kill()).map(|(_, count)| count).sum()
    }

    /// Whether a process of a job was killed; for a run, including those of its sessions.
    pub(super) fn has_hit(&self, job: &CampaignJob, rows: &BTreeMap<String, Value>) -> bool {
        let sessions = if job.kind == JobKind::Run { rows.get(&job.id) } else { None };
        let sessions = sessions.and_then(|row| row["sessions"].as_array().cloned());
        let sessions = sessions.unwrap_or_default();
        let mut ids = sessions.iter().filter_map(|row| row["id"].as_str()).chain([&*job.id]);
        ids.any(|id| {
            self.hit.contains(id) || rows.get(id).is_some_and(|row| self.explains_outcome(row))
        })
    }

    /// Whether a fault explains an outcome, by the row's reason: git was killed, or there was no
    /// space to record the start. A launch that may have started is never started again.
    fn explains_outcome(&self, row: &Value) -> bool {
        let says = |text: &str| {
            ["reason", "detail"]
                .iter()
                .any(|name| row[name].as_str().is_some_and(|why| why.contains(text)))
        };
        (self.has_killed_git() && says(KILLED)) || (self.disk.is_some() && says(UNRECORDED))
    }

    pub(super) fn has_killed_git(&self) -> bool {
        self.counts.get(&InjectedFault::Git).is_some_and(|count| *count > 0)
    }

    pub(super) fn has_hit_effect(&self, session: &str) -> bool {
        self.hit_effects.contains(session)
    }

    /// Injects one fault while a command is in progress.
    pub(super) fn inject_fault(&mut self, operator: &CampaignOperator, random: &mut SeededRandom) {
        let fault = self.faults[random.below(self.faults.len())];
        let done = match fault {
            InjectedFault::Daemon => {
                daemon_pid(operator).is_some_and(|pid| kill(pid, Signal::KILL))
            }
            InjectedFault::Holder => self.kill_supervised(operator, random, |held| &held.holder),
            InjectedFault::Agent => self.kill_supervised(operator, random, |held| &held.child),
            InjectedFault::Git => {
                let found = find_gits(operator.home.root());
                !found.is_empty() && kill(found[random.below(found.len())], Signal::KILL)
            }
            InjectedFault::Pause => daemon_pid(operator).is_some_and(|pid| {
                let stopped = kill(pid, Signal::STOP);
                // Meanwhile another command finds the daemon and waits for it.
                let asked = operator.command(&["daemon", "status"]).spawn();
                kill(pid, Signal::CONT);
                asked.is_ok_and(|mut child| child.wait().is_ok()) && stopped
            }),
            InjectedFault::Disk
            | InjectedFault::Inodes
            | InjectedFault::Threads
            | InjectedFault::Descriptors => self.begin_shortage(operator, fault),
        };
        *self.counts.entry(fault).or_default() += usize::from(done);
    }

    fn begin_shortage(&mut self, operator: &CampaignOperator, fault: InjectedFault) -> bool {
        if self.shortage.is_some() {
            return false;
        }
        match (fault, &self.disk) {
            (InjectedFault::Disk, Some(disk)) => fill_disk(disk),
            (InjectedFault::Inodes, Some(disk)) => fill_inodes(disk),
            (InjectedFault::Threads | InjectedFault::Descriptors, _) => {
                self.lowered = lower_limit(operator, fault);
                if self.lowered.is_none() {
                    return false;
                }
            }
            _ => return false,
        }
        self.shortage = Some(fault);
        // A daemon that was killed during the shortage is replaced before the shortage ends.
        if fault == InjectedFault::Disk
            && let Some(pid) = daemon_pid(operator)
            && kill(pid, Signal::KILL)
        {
            *self.counts.entry(InjectedFault::Daemon).or_default() += 1;
        }
        true
    }

    /// Ends the current shortage.
    pub(super) fn end_shortage(&mut self) {
        self.shortage = None;
        if let Some(lowered) = self.lowered.take() {
            lowered.restore();
        }
        if let Some(disk) = &self.disk {
            fs::remove_file(disk.join("ballast")).ok();
            fs::remove_dir_all(disk.join("inodes")).ok();
        }
    }

    /// Asserts that no shortage is left.
    pub(super) fn assert_no_shortage(&mut self) {
        assert!(self.shortage.is_none(), "a shortage lasts for one command");
    }

    /// Kills a process of a launch, check or hook, except the listener's.
    fn kill_supervised(
        &mut self,
        operator: &CampaignOperator,
        random: &mut SeededRandom,
        of: fn(&HeldRecord) -> &ProcessInstance,
    ) -> bool {
        let mut alive = Vec::new();
        for parent in ["launches", "checks"] {
            let dir = operator.home.path().join(parent);
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                let owner = name.split('.').next().unwrap_or_default().to_owned();
                if let Ok(LaunchState::Alive { held }) = inspect(&entry.path())
                    && owner != operator.listener
                {
                    alive.push((owner, parent == "checks", held));
                }
            }
        }
        if alive.is_empty() {
            return false;
        }
        alive.sort_by(|one, other| one.0.cmp(&other.0));
        let (owner, is_effect, held) = alive.swap_remove(random.below(alive.len()));
        // The owner is recorded before the kill, so a job counts as hit even if its process ends at
        // the same moment.
        self.hit.insert(owner.clone());
        if is_effect {
            self.hit_effects.insert(owner);
        }
        let process = of(&held);
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
        process.is_alive().unwrap_or(false) && pid.is_some_and(|pid| kill(pid, Signal::KILL))
    }
}

impl Drop for FaultInjector {
    fn drop(&mut self) {
        if let Some(lowered) = self.lowered.take() {
            lowered.restore();
        }
        if let Some(disk) = &self.disk {
            // The unmount is lazy, because an exiting holder may still have an open file there.
            drop(Command::new("umount").arg("--lazy").arg(disk).status());
            // The home could not remove the mounted directory when it was dropped.
            [Some(&**disk), disk.parent()].into_iter().flatten().for_each(|dir| {
                fs::remove_dir(dir).ok();
            });
        }
    }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the daemon's pid, from the lock it holds.
fn daemon_pid(operator: &CampaignOperator) -> Option<Pid> {
    let lock = operator.home.path().join("ledger/ledger.lock");
    let pid = fs::read_to_string(lock).ok()?.trim().parse().ok().and_then(Pid::from_raw)?;
    let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).ok()?;
    let line = String::from_utf8_lossy(&line).into_owned();
    (line.contains("daemon\0run")).then_some(pid)
}

/// Returns the git processes of a home.
fn find_gits(root: &Path) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let is_git =
            fs::read_to_string(entry.path().join("comm")).is_ok_and(|comm| comm.trim() == "git");
        let names = |file: &str| {
            let text = fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(&*root.to_string_lossy())
        };
        if is_git && (names("environ") || names("cmdline")) {
            found.extend(Pid::from_raw(pid));
        }
    }
    found
}

fn kill(pid: Pid, signal: Signal) -> bool {
    kill_process(pid, signal).is_ok()
}

/// Lowers a limit of the daemon to its current usage.
fn lower_limit(operator: &CampaignOperator, fault: InjectedFault) -> Option<LoweredLimit> {
    let (pid, as_user) = (daemon_pid(operator)?, operator.as_user());
    if fault == InjectedFault::Threads {
        return ProcessLimit { as_user, pid, name: "nproc" }.lower(1);
    }
    let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).ok()?.count();
    ProcessLimit { as_user, pid, name: "nofile" }.lower(open)
}

/// Mounts a small file system for the home, if permitted.
fn mount(operator: &CampaignOperator) -> Option<PathBuf> {
    let home = operator.home.path();
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(&home);
    let mounted = is_root() && command.status().is_ok_and(|status| status.success());
    mounted.then(|| {
        operator.chown_home();
        home
    })
}

fn fill_disk(disk: &Path) {
    let Ok(ballast) = File::create(disk.join("ballast")) else { return };
    let (mut at, mut step) = (0, 16 << 20);
    while step >= 4096 {
        let flags = rustix::fs::FallocateFlags::empty();
        match rustix::fs::fallocate(&ballast, flags, at, step) {
            Ok(()) => at += step,
            Err(_) => step /= 4,
        }
    }
}

fn fill_inodes(disk: &Path) {
    let dir = disk.join("inodes");
    if fs::create_dir(&dir).is_ok() {
        (0..).take_while(|n| File::create(dir.join(format!("{n}"))).is_ok()).for_each(drop);
    }
}
