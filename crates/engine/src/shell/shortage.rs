//! Shortages of the machine, which are detected before an effect starts or recognized in its result.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use provost_core::{
    run,
    session::{EffectKey, HookEnd, SessionCommand},
    shortage::{Resource, Shortage, retry_after_ms},
    team,
    verdict::{CheckEnd, Receipt},
};
use provost_sys::private;
use rustix::{
    fs::{Access, StatVfsMountFlags},
    process::{Resource as Limit, getrlimit},
};
use tokio::sync::watch;

use super::supervised_command;
use crate::stream::Subject;

/// Nothing is launched if less disk space than this is free, in bytes.
const MIN_FREE_DISK: u64 = 16 << 20;

/// Nothing is launched if fewer inodes than this are free.
const MIN_FREE_INODES: u64 = 64;

/// The daemon's file descriptors divided by this number are reserved for commands and are not available to launches.
const RESERVED_SHARE: u64 = 4;
const MIN_RESERVED: u64 = 48;
const MAX_RESERVED: u64 = 512;

/// Checks the disk that contains a directory.
pub(crate) fn disk_shortage(home: &Path) -> Option<Shortage> {
    let about = match rustix::fs::statvfs(home) {
        Ok(about) => about,
        Err(why) => {
            let detail = format!("cannot read the disk of {}: {why}", home.display());
            return Shortage::from_os_error(why.raw_os_error(), detail);
        }
    };
    let place = home.display();
    if about.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let detail = format!("the file system of {place} is read-only");
        return Some(Shortage::new(Resource::WritableDisk, detail));
    }
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free < MIN_FREE_DISK {
        let (left, needed) = (free >> 20, MIN_FREE_DISK >> 20);
        let detail = format!(
            "the disk of {place} has {left} MiB left; {needed} MiB are needed to start an agent"
        );
        return Some(Shortage::new(Resource::DiskSpace, detail));
    }
    // Some file systems do not count inodes.
    (about.f_files > 0 && about.f_favail < MIN_FREE_INODES).then(|| {
        let left = about.f_favail;
        let detail = format!(
            "the disk of {place} has {left} inodes left; {MIN_FREE_INODES} are needed to start an agent"
        );
        Shortage::new(Resource::Inodes, detail)
    })
}

/// Checks the file descriptors of this process.
pub(crate) fn descriptor_shortage() -> Option<Shortage> {
    let limit = getrlimit(Limit::Nofile).current?;
    let kept = (limit / RESERVED_SHARE).clamp(MIN_RESERVED, MAX_RESERVED);
    let used = match std::fs::read_dir("/proc/self/fd") {
        Ok(open) => open.count() as u64,
        Err(why) => {
            let detail = format!("cannot count open descriptors: {why}");
            return why.raw_os_error().and_then(|code| Shortage::from_os_error(code, detail));
        }
    };
    let free = limit.saturating_sub(used);
    (free < kept).then(|| {
        let detail = format!(
            "{free} of {limit} file descriptors are free; the last {kept} are reserved for commands"
        );
        Shortage::new(Resource::Descriptors, detail)
    })
}

/// Makes sure that a directory in the home exists and is writable. If it was removed, it is created again.
pub(crate) fn directory_shortage(directory: &Path) -> Option<Shortage> {
    let ready = private::make_private_dir(directory)
        .and_then(|()| Ok(rustix::fs::access(directory, Access::WRITE_OK | Access::EXEC_OK)?));
    let why = ready.err()?;
    let place = directory.display();
    let known = why.raw_os_error();
    let known = known.and_then(|code| Shortage::from_os_error(code, format!("{place}: {why}")));
    Some(known.unwrap_or_else(|| {
        let fix = if why.kind() == io::ErrorKind::PermissionDenied {
            format!("; next: chmod u+rwx {place}")
        } else {
            String::new()
        };
        let detail = format!("the directory {place} cannot be written to: {why}{fix}");
        Shortage::new(Resource::Directory, detail)
    }))
}

/// Distinguishes a shortage of inodes from a shortage of blocks, because the error is the same for both.
pub(crate) fn refine(shortage: Shortage, home: &Path) -> Shortage {
    match (shortage.resource, disk_shortage(home)) {
        (Resource::DiskSpace, Some(found)) if found.resource == Resource::Inodes => found,
        _ => shortage,
    }
}

/// The result of an effect that a shortage may have prevented.
pub(crate) trait ShortageReport {
    /// Returns the shortage that caused the effect to fail, if one did.
    fn shortage(&self) -> Option<Shortage>;
}

impl ShortageReport for SessionCommand {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other command says that something failed"
    )]
    fn shortage(&self) -> Option<Shortage> {
        match self {
            SessionCommand::WorkFailed { reason }
            | SessionCommand::LaunchFailed { reason, .. }
            | SessionCommand::SnapshotFailed { reason, .. } => Shortage::from_text(reason),
            SessionCommand::CheckFinished { receipt, .. } => shortage_in_receipt(receipt),
            SessionCommand::HookFinished { end, .. } => shortage_in_hook(end),
            _ => None,
        }
    }
}

impl ShortageReport for run::RunCommand {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other command says that something failed"
    )]
    fn shortage(&self) -> Option<Shortage> {
        match self {
            run::RunCommand::CommitFailed { reason, .. }
            | run::RunCommand::WorktreeMoveFailed { reason, .. }
            | run::RunCommand::QueueFailed { reason, .. }
            | run::RunCommand::LandingFailed { reason, .. }
            | run::RunCommand::ReportWritten { failure: Some(reason), .. } => {
                Shortage::from_text(reason)
            }
            run::RunCommand::HookFinished { end, .. } => shortage_in_hook(end),
            // A repeated verification finds the results of checks that already ran.
            run::RunCommand::Verified { receipts, .. } => {
                receipts.iter().find_map(shortage_in_receipt)
            }
            _ => None,
        }
    }
}

impl ShortageReport for team::TeamCommand {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "no other command says that something failed"
    )]
    fn shortage(&self) -> Option<Shortage> {
        match self {
            team::TeamCommand::CheckDone { receipt, .. } => shortage_in_receipt(receipt),
            _ => None,
        }
    }
}

fn shortage_in_receipt(receipt: &Receipt) -> Option<Shortage> {
    match &receipt.end {
        CheckEnd::Unfinished(why) => Shortage::from_text(why),
        CheckEnd::Exit(_) | CheckEnd::Signal(_) | CheckEnd::TimeLimit | CheckEnd::OutputLimit => {
            None
        }
    }
}

fn shortage_in_hook(end: &HookEnd) -> Option<Shortage> {
    match end {
        // If the hook was already started, the next attempt finds that hook, so it does not run twice.
        HookEnd::NotStarted(why) | HookEnd::Uncertain(why) => Shortage::from_text(why),
        HookEnd::Exit(_) | HookEnd::Signal(_) | HookEnd::TimeLimit | HookEnd::OutputLimit => None,
    }
}

/// The effects of runs and teams that are waiting for a resource. Sessions record their own waits,
/// except for those for git.
#[derive(Clone, Debug, Default)]
pub struct ShortageWaits {
    effects: Arc<Mutex<BTreeMap<(Subject, EffectKey), Shortage>>>,
    git: Arc<Mutex<GitWaits>>,
}

/// The subjects that are waiting for git commands of an earlier daemon.
#[derive(Debug, Default)]
struct GitWaits {
    /// The command that these subjects are waiting for.
    command: Option<EarlierGit>,
    /// The number of waiting effects for each subject.
    subjects: BTreeMap<Subject, u32>,
}

/// A git command that an earlier daemon started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlierGit {
    /// The pid of the command, if it is known.
    pub(crate) pid: Option<u32>,
}

/// An effect that is waiting for git. Dropping this value ends the wait.
pub(crate) struct GitWait {
    waits: ShortageWaits,
    subject: Subject,
}

/// An effect that may have to wait. Dropping this value ends the wait.
pub(crate) struct ShortageWait {
    waits: ShortageWaits,
    subject: Subject,
    effect: EffectKey,
    tries: u32,
}

impl ShortageWaits {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Subject, EffectKey), Shortage>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_git(&self) -> MutexGuard<'_, GitWaits> {
        self.git.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, subject: Subject, effect: EffectKey) -> ShortageWait {
        ShortageWait { waits: self.clone(), subject, effect, tries: 0 }
    }

    /// Shows an effect as waiting for git whenever there is a command to wait for.
    pub(crate) fn for_git(&self, subject: Subject) -> GitWait {
        *self.lock_git().subjects.entry(subject).or_default() += 1;
        GitWait { waits: self.clone(), subject }
    }

    /// Sets the git command of an earlier daemon that is being waited for.
    pub(crate) fn set_earlier_git(&self, command: Option<EarlierGit>) {
        self.lock_git().command = command;
    }

    /// Returns the shortage that one of the subject's effects is waiting for.
    pub(crate) fn of_subject(&self, wanted: Subject) -> Option<Shortage> {
        self.all().into_iter().find(|(subject, _)| *subject == wanted).map(|(_, shortage)| shortage)
    }

    /// Returns the shortages that effects of runs and teams are waiting for, and those of sessions
    /// that are waiting for git.
    pub(crate) fn all(&self) -> Vec<(Subject, Shortage)> {
        let effects = self.lock();
        let mut all: Vec<_> =
            effects.iter().map(|((subject, _), shortage)| (*subject, shortage.clone())).collect();
        drop(effects);
        let git = self.lock_git();
        if let Some(command) = git.command {
            let shortage = command.shortage();
            all.extend(git.subjects.keys().map(|subject| (*subject, shortage.clone())));
        }
        all
    }
}

impl EarlierGit {
    fn shortage(self) -> Shortage {
        let process = self.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        let detail = format!("git{process} that an earlier daemon started has not ended");
        Shortage::new(Resource::Git, detail)
    }
}

impl Drop for GitWait {
    fn drop(&mut self) {
        let mut git = self.waits.lock_git();
        if let Some(count) = git.subjects.get_mut(&self.subject) {
            *count -= 1;
            if *count == 0 {
                git.subjects.remove(&self.subject);
            }
        }
    }
}

impl ShortageWait {
    /// Waits before the next attempt. Returns false if the effect was cancelled.
    pub(crate) async fn pause(
        &mut self,
        shortage: Shortage,
        cancel: &mut watch::Receiver<bool>,
    ) -> bool {
        self.tries = self.tries.saturating_add(1);
        self.waits.lock().insert((self.subject, self.effect.clone()), shortage);
        tokio::select! {
            () = supervised_command::sleep(Duration::from_millis(retry_after_ms(self.tries))) => true,
            () = supervised_command::wait_for_cancel(cancel) => false,
        }
    }
}

impl Drop for ShortageWait {
    fn drop(&mut self) {
        self.waits.lock().remove(&(self.subject, self.effect.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    #[test]
    fn missing_directory_is_made_again() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("launches");
        assert_eq!(directory_shortage(&directory), None);
        assert!(directory.is_dir());
    }

    #[test]
    fn directory_that_cannot_be_made_is_short() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("launches");
        fs::write(&directory, "a file").unwrap();
        let found = directory_shortage(&directory).unwrap();
        assert_eq!(found.resource, Resource::Directory, "{found:?}");
        fs::remove_file(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o500)).unwrap();
        let found = directory_shortage(&directory);
        // Root can write everywhere.
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(found.is_none(), is_root, "{found:?}");
    }
}
