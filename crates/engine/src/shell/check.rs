//! Checks: the commands of a verification, which Provost runs in a clean, detached checkout of the
//! committed tree.
//!
//! Checkouts are pooled per project. A check takes the first free slot, so build artifacts in
//! preserved directories are reused by the next check, and two checks never share a checkout.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use provost_core::{
    ids::{CommitId, TreeId},
    limits::MAX_LEFT_OUT,
    shortage::Shortage,
    verdict::{CheckEnd, ProtectedOverlay, Receipt, Snapshot},
    verification::Verification,
};
use provost_git::{
    BranchName, CommitPair, Git, Oid, Pool, Project, checkout_detached, overlay, pool,
    worktree_find,
};
use provost_holder::{
    EndCause, ExitRecord, HeldRecord, HoldSpec, LaunchState, OnLimit, ProcessEnd,
    journal::{self, JournalChannel, JournalReader, OpenedJournal},
};
use provost_trust::approval_patterns;

use provost_sys::error_chain;

use super::{
    effects::{EffectName, Effects, FinishedEffect},
    environment::DaemonEnvironment,
    git_calls::GitCalls,
    home::Home,
    landing::{describe_error, parse_oid},
    supervised_command::{self, CommandEnd},
};
use crate::stream::Subject;

/// How many times to repeat a check whose holder died. Repeating a check is safe.
const RETRIES: u32 = 2;

/// How long to wait before each retry of a failed checkout. Each retry uses another slot. The cause of the failure may
/// be temporary, and it is unrelated to the work.
const CHECKOUT_PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The checkouts that are in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckoutSlots {
    taken: Arc<Mutex<BTreeSet<PathBuf>>>,
}

/// A checkout that is returned to the pool when this value is dropped.
#[derive(Debug)]
struct CheckoutSlot {
    path: PathBuf,
    slots: CheckoutSlots,
}

/// A requested verification.
#[derive(Clone, Debug)]
pub(crate) struct CheckJob {
    pub(crate) owner: Subject,
    /// The key of the first check. The keys of the others are derived from it.
    pub(crate) key: String,
    pub(crate) verification: Verification,
}

/// Runs checks.
#[derive(Clone)]
pub(crate) struct CheckRunner {
    pub(crate) home: Home,
    pub(crate) git_calls: GitCalls,
    pub(crate) effects: Effects,
    pub(crate) environment: DaemonEnvironment,
    /// The key for the environment digests. Without the key, the values of variables cannot be guessed from a digest.
    pub(crate) key: [u8; 32],
    pub(crate) slots: CheckoutSlots,
}

/// The project and the slot in which a checkout is made.
struct CheckoutPlace {
    project: Project,
    pool: Pool,
    slot: CheckoutSlot,
    name: String,
}

type CheckFailure = Box<dyn std::error::Error + Send + Sync>;

impl CheckoutPlace {
    /// Makes the checkout. Returns whether it contains build artifacts from earlier checks.
    fn check_out(
        &self,
        git: &Git,
        keep: &[String],
        snapshot: &Snapshot,
    ) -> Result<bool, CheckFailure> {
        let commit = Oid::new(&snapshot.commit.0)?;
        let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
        let made = checkout_detached(git, &self.project, &self.pool, &self.name, &commit, &keep)
            .inspect_err(|why| remove_partial(&self.slot.path, &error_chain(why)))?;
        if made.tree.to_string() != snapshot.tree.0 {
            return Err("the checkout does not contain the committed tree".into());
        }
        Ok(made.warm)
    }
}

/// One check of a verification, and the effect that runs it.
struct Check<'a> {
    effect: EffectName,
    command: &'a str,
    verification: &'a Verification,
}

impl Check<'_> {
    fn unfinished(&self, why: String) -> Receipt {
        unfinished_receipt(self.command, self.verification.snapshot.tree.clone(), why)
    }
}

/// A check that has finished.
struct FinishedCheck {
    ran: FinishedEffect,
    warm: bool,
    /// The digest of the check's environment, if this daemon started the check.
    environment: Option<String>,
}

impl CheckJob {
    /// Returns the effects that run the checks, in order.
    fn effects(&self) -> impl Iterator<Item = EffectName> {
        let key = |no: usize| {
            if no == 0 { self.key.clone() } else { format!("{}-{}", self.key, no + 1) }
        };
        let numbers = 0..self.verification.checks.len();
        numbers.map(move |no| EffectName { owner: self.owner, key: key(no) })
    }
}

/// The commit that a check runs on.
#[derive(Clone, Debug)]
struct CheckTarget {
    snapshot: Snapshot,
    /// How the checked tree differs from the work, if it does.
    overlay: Option<ProtectedOverlay>,
}

impl CheckRunner {
    /// Marks the checkouts as used in which checks from before a restart are still running.
    pub(crate) fn claim_running(&self, job: &CheckJob) {
        for (effect, retry) in
            job.effects().flat_map(|effect| (0..=RETRIES).map(move |retry| (effect.clone(), retry)))
        {
            let Some(dir) = self.effects.started_blocking(&retry_of(&effect, retry)) else {
                continue;
            };
            if let Ok(LaunchState::Alive { held: HeldRecord { cwd, .. } }) =
                provost_holder::inspect(&dir)
            {
                self.slots.mark(cwd);
            }
        }
    }

    /// Runs the checks in order until one of them does not pass. The results of checks that already
    /// ran are found again.
    pub(crate) async fn run(
        &self,
        job: CheckJob,
        mut cancel: tokio::sync::watch::Receiver<bool>,
    ) -> Vec<Receipt> {
        let target = self.target(&job).await;
        let mut receipts = Vec::new();
        for (effect, command) in job.effects().zip(&job.verification.checks) {
            let check = Check { effect, command, verification: &job.verification };
            let receipt = match &target {
                Ok(target) => self.run_check(&check, target, &mut cancel).await,
                Err(why) => check.unfinished(why.clone()),
            };
            let passed = receipt.end == CheckEnd::Exit(0);
            receipts.push(receipt);
            if !passed {
                break;
            }
        }
        receipts
    }

    async fn run_check(
        &self,
        check: &Check<'_>,
        target: &CheckTarget,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Receipt {
        for retry in 0..=RETRIES {
            let effect = retry_of(&check.effect, retry);
            match self.attempt(check, target, &effect, cancel).await {
                Ok(FinishedCheck { ran: FinishedEffect { finished, dir }, warm, environment }) => {
                    match finished {
                        CommandEnd::Ended { exit } => {
                            let receipt = self.build_receipt(check, dir, &exit, warm).await;
                            let overlay = target.overlay.clone();
                            return Receipt { environment, overlay, ..receipt };
                        }
                        // A check that was cancelled is not repeated.
                        CommandEnd::Uncertain(_) if retry < RETRIES && !*cancel.borrow() => {}
                        CommandEnd::Uncertain(why) => return check.unfinished(why),
                    }
                }
                Err(why) => return check.unfinished(why),
            }
        }
        check.unfinished("its holder died repeatedly".to_owned())
    }

    async fn attempt(
        &self,
        check: &Check<'_>,
        target: &CheckTarget,
        effect: &EffectName,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<FinishedCheck, String> {
        let found = match self.effects.started(effect).await.map_err(|why| error_chain(&why))? {
            Some(dir) => {
                supervised_command::read_launch(&dir).await.map_err(|why| error_chain(&why))?
            }
            None => LaunchState::Absent,
        };
        let begins = matches!(found, LaunchState::Absent);
        let (slot, warm) = match found {
            LaunchState::Absent => {
                let (slot, warm) = self.check_out(check, target, effect, cancel).await?;
                (Some(slot), warm)
            }
            LaunchState::Alive { held } => (Some(self.slots.take(held.cwd)), true),
            LaunchState::Starting { .. }
            | LaunchState::Ended { .. }
            | LaunchState::HolderDied { .. }
            | LaunchState::OtherBoot { .. } => (None, true),
        };
        let cwd = slot.as_ref().map(|slot| slot.path.clone()).unwrap_or_default();
        let spec = self.hold_spec(check, cwd);
        let environment = begins.then(|| environment_digest(&self.key, &spec.env));
        let ran = self.effects.run(effect, spec, cancel).await.map_err(|why| error_chain(&why))?;
        drop(slot);
        Ok(FinishedCheck { ran, warm, environment })
    }

    fn hold_spec(&self, check: &Check<'_>, cwd: PathBuf) -> HoldSpec {
        let argv = ["/bin/sh", "-c", check.command].map(str::to_owned).to_vec();
        let limits = check.verification.limits;
        HoldSpec {
            env: self.environment.for_check(&check.verification.environment),
            output_limit: limits.output,
            on_limit: OnLimit::End,
            time_limit_ms: Some(limits.time_ms),
            grace_ms: limits.grace_ms,
            settle_ms: limits.drain_ms,
            ..HoldSpec::new(String::new(), argv, cwd)
        }
    }

    /// Returns the commit to check: the work, but with protected and trust-relevant files from the
    /// base, so that no work can weaken its own checks.
    async fn target(&self, job: &CheckJob) -> Result<CheckTarget, String> {
        let git = self.git_calls.settled_git(job.owner).await;
        let Verification { snapshot, base, project, protected, .. } = job.verification.clone();
        supervised_command::blocking(move || {
            let Some((base, top)) = base.zip(project) else {
                return Ok(CheckTarget { snapshot, overlay: None });
            };
            let project = Project::find(&git, Path::new(&top)).map_err(|why| error_chain(&why))?;
            let (begun, work) = (parse_oid(&base)?, parse_oid(&snapshot.commit)?);
            let versions = CommitPair { base: &begun, work: &work };
            let patterns = approval_patterns(&protected);
            let made = overlay(&git, &project, versions, &patterns).map_err(describe_error)?;
            Ok(match made {
                None => CheckTarget { snapshot, overlay: None },
                Some(made) => {
                    let tree = TreeId(made.tree.to_string());
                    let commit = CommitId(made.commit.to_string());
                    let files = made.files.iter().take(MAX_LEFT_OUT).map(ToString::to_string);
                    let overlay =
                        ProtectedOverlay { base, tree: tree.clone(), files: files.collect() };
                    CheckTarget { snapshot: Snapshot { commit, tree }, overlay: Some(overlay) }
                }
            })
        })
        .await
    }

    async fn check_out(
        &self,
        check: &Check<'_>,
        target: &CheckTarget,
        effect: &EffectName,
        cancel: &tokio::sync::watch::Receiver<bool>,
    ) -> Result<(CheckoutSlot, bool), String> {
        let mut pauses = CHECKOUT_PAUSES.into_iter();
        // Unusable slots are held until a usable one is found, so that no slot is tried twice.
        let mut unusable = Vec::new();
        loop {
            let (runner, snapshot) = (self.clone(), target.snapshot.clone());
            let verification = check.verification.clone();
            let made = self.git_calls.write(effect.clone(), move |git| {
                let place =
                    runner.find_place(git, &verification).map_err(|why| error_chain(&*why))?;
                let made = place.check_out(git, &verification.keep, &snapshot);
                Ok::<_, String>((place.slot, made))
            });
            let (slot, made) = made.await?;
            let why = match made {
                Ok(warm) => return Ok((slot, warm)),
                Err(why) => why,
            };
            let passes = why.downcast_ref::<pool::Error>().is_some_and(pool::Error::is_transient);
            let why = error_chain(&*why);
            // Another slot would encounter the same shortage, so the whole check is retried later.
            let is_short = Shortage::from_text(&why).is_some();
            match pauses.next() {
                Some(pause) if passes && !is_short && !*cancel.borrow() => {
                    supervised_command::sleep(pause).await
                }
                _ => return Err(why),
            }
            unusable.push(slot);
        }
    }

    /// Finds a free slot for a checkout.
    fn find_place(
        &self,
        git: &Git,
        verification: &Verification,
    ) -> Result<CheckoutPlace, CheckFailure> {
        let top = verification.project.as_deref();
        let top = top.ok_or_else(|| "the work is not in a git repository".to_owned())?;
        let project = Project::find(git, Path::new(top))?;
        let root = self.home.pool().join(project_key(&project));
        provost_sys::private::create_dir_all(&root)?;
        let mut pool = Pool::new(&root)?;
        if let Some(tree) = &verification.worktree {
            let branch = BranchName::new(&tree.branch)?;
            let found = worktree_find(git, &project, Path::new(&tree.path), &branch)?;
            pool = found.into_iter().fold(pool, Pool::with_worktree);
        }
        let (slot, name) = self.slots.take_free(&root.canonicalize()?);
        Ok(CheckoutPlace { project, pool, slot, name })
    }

    async fn build_receipt(
        &self,
        check: &Check<'_>,
        dir: PathBuf,
        exit: &ExitRecord,
        warm: bool,
    ) -> Receipt {
        let (path, started) = (dir.join(journal::JOURNAL_FILE), dir.clone());
        let (printed, began) = supervised_command::blocking(move || {
            let began = match provost_holder::inspect(&started) {
                Ok(LaunchState::Ended { held: Some(held), .. }) => Some(held.started_mono_ms),
                Ok(_) | Err(_) => None,
            };
            (read_output(&path), began)
        })
        .await;
        let end = check_end(exit);
        let (digest, tail) = printed.unwrap_or_default();
        let tail = if end == CheckEnd::Exit(0) { String::new() } else { tail };
        Receipt {
            command: check.command.to_owned(),
            tree: check.verification.snapshot.tree.clone(),
            end,
            duration_ms: began.map_or(0, |began| exit.mono_ms.saturating_sub(began)),
            output_digest: digest,
            output: dir.strip_prefix(self.home.root()).unwrap_or(&dir).display().to_string(),
            tail,
            warm,
            environment: None,
            overlay: None,
        }
    }
}

impl CheckoutSlots {
    fn mark(&self, path: PathBuf) {
        self.taken.lock().expect("no holder of the lock panics").insert(path);
    }

    fn take(&self, path: PathBuf) -> CheckoutSlot {
        self.mark(path.clone());
        CheckoutSlot { path, slots: self.clone() }
    }

    /// Takes the first free checkout of a project.
    fn take_free(&self, root: &Path) -> (CheckoutSlot, String) {
        let mut taken = self.taken.lock().expect("no holder of the lock panics");
        let (path, name) = (0..)
            .map(|no: u32| (root.join(no.to_string()), no.to_string()))
            .find(|(path, _)| !taken.contains(path))
            .expect("there are more numbers than checks");
        taken.insert(path.clone());
        (CheckoutSlot { path, slots: self.clone() }, name)
    }
}

impl Drop for CheckoutSlot {
    fn drop(&mut self) {
        self.slots.taken.lock().expect("no holder of the lock panics").remove(&self.path);
    }
}

/// Removes a partial checkout if the disk is full, so that it does not use up the remaining space.
fn remove_partial(checkout: &Path, why: &str) {
    if Shortage::from_text(why).is_some() {
        // The next attempt removes any files that are left.
        std::fs::remove_dir_all(checkout).ok();
    }
}

/// Returns a digest of an environment that does not depend on the order of its variables.
fn environment_digest(key: &[u8; 32], variables: &[(String, String)]) -> String {
    let mut sorted: Vec<&(String, String)> = variables.iter().collect();
    sorted.sort();
    let mut hasher = blake3::Hasher::new_keyed(key);
    for (name, value) in sorted {
        hasher.update(name.as_bytes()).update(b"=").update(value.as_bytes()).update(b"\0");
    }
    hasher.finalize().to_hex().to_string()
}

fn retry_of(effect: &EffectName, retry: u32) -> EffectName {
    let EffectName { owner, key } = effect.clone();
    EffectName { owner, key: if retry == 0 { key } else { format!("{key}-r{retry}") } }
}

pub(super) fn check_end(exit: &ExitRecord) -> CheckEnd {
    match (exit.ended_by, &exit.end) {
        (EndCause::TimeLimit, _) => CheckEnd::TimeLimit,
        (EndCause::OutputLimit, _) => CheckEnd::OutputLimit,
        (EndCause::Stop | EndCause::HolderFault, _) => {
            CheckEnd::Unfinished("it was ended".to_owned())
        }
        (EndCause::Itself, ProcessEnd::Exited { code }) => CheckEnd::Exit(*code),
        (EndCause::Itself, ProcessEnd::Signalled { signal }) => CheckEnd::Signal(*signal),
        (EndCause::Itself, ProcessEnd::NotStarted { error }) => CheckEnd::Unfinished(error.clone()),
    }
}

/// Returns the receipt of a check with an unknown result.
pub(super) fn unfinished_receipt(command: &str, tree: TreeId, why: String) -> Receipt {
    Receipt {
        command: command.to_owned(),
        tree,
        end: CheckEnd::Unfinished(why),
        duration_ms: 0,
        output_digest: String::new(),
        output: String::new(),
        tail: String::new(),
        warm: false,
        environment: None,
        overlay: None,
    }
}

/// Maximum number of bytes from the end of a failed check's output to include in its receipt.
const TAIL_BYTES: usize = 4 << 10;

/// Returns a digest of a check's output, with both channels in the order of the journal, and the
/// end of the output as text.
fn read_output(journal: &Path) -> Option<(String, String)> {
    let Ok(OpenedJournal::Ready(reader)) = JournalReader::open(journal, 0) else { return None };
    let (mut hasher, mut tail) = (blake3::Hasher::new(), Vec::new());
    for frame in reader {
        let frame = frame.ok()?;
        if matches!(frame.channel, JournalChannel::Stdout | JournalChannel::Stderr) {
            hasher.update(&frame.payload);
            tail.extend_from_slice(&frame.payload);
            tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
        }
    }
    let tail = provost_git::printable(&tail).trim_end().to_owned();
    Some((hasher.finalize().to_hex().to_string(), tail))
}

/// Returns the name of a project's pool: the directory's name for readability, and a digest of its
/// path for uniqueness.
pub(crate) fn project_key(project: &Project) -> String {
    let place = project.common_dir.display().to_string();
    let digest = blake3::hash(place.as_bytes()).to_hex();
    let name: String = project
        .top
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        .take(40)
        .collect();
    format!("{name}-{}", &digest[..8])
}
