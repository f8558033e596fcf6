//! Checks: commands that Provost runs in a clean detached checkout of the committed tree.
//!
//! Checkouts are pooled per project. A check takes the first free slot, so build products in the
//! kept directories stay warm for the next one, and two checks never share a checkout.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use provost_core::{
    ids::{CommitId, SessionId, TreeId},
    limits::MAX_LEFT_OUT,
    session::{Session, Spec, Work, WorkState},
    shortage::Shortage,
    trust::held_patterns,
    verdict::{CheckEnd, Overlay, Receipt, Snapshot},
};
use provost_git::{
    BranchName, Git, Oid, Pool, Project, Versions, checkout_detached, overlay, pool, worktree_find,
};
use provost_holder::{
    End, EndedBy, ExitRecord, Held, HoldSpec, Looked, OnLimit,
    journal::{self, Channel, Opened, Reader},
};

use super::{
    effects::{EffectName, Effects, Ran},
    environment::DaemonEnvironment,
    git_calls::GitCalls,
    held::{self, Finished, chain},
    home::Home,
    landing::{oid, told},
};
use crate::stream::Subject;

/// How often a check whose holder died is run again, which is safe.
const RETRIES: u32 = 2;

/// A checkout that cannot be made is retried after each of these pauses, in another slot. The
/// obstacle may pass, and says nothing about the work.
const CHECKOUT_PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(2),
    Duration::from_secs(5),
];

/// The checkouts in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    taken: Arc<Mutex<BTreeMap<PathBuf, SessionId>>>,
}

/// A checkout that is returned to the pool when this value is dropped.
#[derive(Debug)]
struct Slot {
    path: PathBuf,
    slots: Slots,
}

/// A pending check.
#[derive(Clone, Debug)]
pub(crate) struct CheckJob {
    pub(crate) session: SessionId,
    pub(crate) spec: Spec,
    pub(crate) snapshot: Snapshot,
    /// The commit whose protected files it uses, if the base of the work is known.
    pub(crate) base: Option<CommitId>,
    pub(crate) command: String,
    pub(crate) key: String,
}

/// Runs checks.
#[derive(Clone)]
pub(crate) struct CheckRunner {
    pub(crate) home: Home,
    pub(crate) git_calls: GitCalls,
    pub(crate) effects: Effects,
    pub(crate) environment: DaemonEnvironment,
    /// The key of the environment digests. Without it, values cannot be guessed from them.
    pub(crate) key: [u8; 32],
    pub(crate) slots: Slots,
}

/// The project and slot of a checkout.
struct Place {
    project: Project,
    pool: Pool,
    slot: Slot,
    name: String,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Place {
    /// Makes the checkout. Returns whether it is a warm one.
    fn check_out(&self, git: &Git, job: &CheckJob, snapshot: &Snapshot) -> Result<bool, Failure> {
        let commit = Oid::new(&snapshot.commit.0)?;
        let keep: Vec<&str> = job.spec.keep.iter().map(String::as_str).collect();
        let made = checkout_detached(git, &self.project, &self.pool, &self.name, &commit, &keep)
            .inspect_err(|why| remove_partial(&self.slot.path, &chain(why)))?;
        if made.tree.to_string() != snapshot.tree.0 {
            return Err("the checkout is not of the tree that was committed".into());
        }
        Ok(made.warm)
    }
}

/// A check that ended.
struct CheckRan {
    ran: Ran,
    warm: bool,
    /// The digest of its environment, if this daemon started it.
    environment: Option<String>,
}

impl CheckJob {
    pub(crate) fn of(session: &Session, index: u32, key: String) -> Option<CheckJob> {
        let snapshot = session.attempt().verifying.snapshot.clone()?;
        let command = session.spec.checks.get(index as usize)?.clone();
        let (base, spec) = (base_of(session), session.spec.clone());
        Some(CheckJob { session: session.id, spec, snapshot, base, command, key })
    }
}

/// Returns the commit whose protected files the checks of a session use.
pub(super) fn base_of(session: &Session) -> Option<CommitId> {
    let begun = match &session.work {
        WorkState::Ready { base, .. } => base.as_ref().map(|base| base.commit.clone()),
        WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => None,
    };
    session.spec.check_terms.base.clone().or(begun)
}

/// The commit that a check runs on.
#[derive(Clone, Debug)]
struct Checked {
    snapshot: Snapshot,
    /// How it differs from the work, if it does.
    overlay: Option<Overlay>,
}

impl CheckRunner {
    /// Marks the checkout of a check that is still running from before a restart.
    pub(crate) fn claim_running(&self, session: SessionId, key: &str) {
        for retry in 0..=RETRIES {
            let effect = EffectName::of_session(session, retried(key, retry));
            let Some(dir) = self.effects.started_now(&effect) else { continue };
            if let Ok(Looked::Alive { held: Held { cwd, .. } }) = provost_holder::look(&dir) {
                self.slots.mark(cwd, session);
            }
        }
    }

    /// Runs a check to its end, or takes the result of one that already ran.
    pub(crate) async fn run(
        &self,
        job: CheckJob,
        mut cancel: tokio::sync::watch::Receiver<bool>,
    ) -> Receipt {
        let checked = match self.checked(&job).await {
            Ok(checked) => checked,
            Err(why) => return unfinished(&job, why),
        };
        for retry in 0..=RETRIES {
            let key = retried(&job.key, retry);
            match self.attempt(&job, &checked, &key, &mut cancel).await {
                Ok(CheckRan { ran: Ran { finished, dir }, warm, environment }) => match finished {
                    Finished::Ended { exit } => {
                        let receipt = self.receipt(&job, dir, &exit, warm).await;
                        return Receipt { environment, overlay: checked.overlay, ..receipt };
                    }
                    // A check that was cancelled is not started again.
                    Finished::Uncertain(_) if retry < RETRIES && !*cancel.borrow() => {}
                    Finished::Uncertain(why) => return unfinished(&job, why),
                },
                Err(why) => return unfinished(&job, why),
            }
        }
        unfinished(&job, "its holder died repeatedly".to_owned())
    }

    async fn attempt(
        &self,
        job: &CheckJob,
        checked: &Checked,
        key: &str,
        cancel: &mut tokio::sync::watch::Receiver<bool>,
    ) -> Result<CheckRan, String> {
        let effect = EffectName::of_session(job.session, key);
        let found = match self.effects.started(&effect).await.map_err(|why| chain(&why))? {
            Some(dir) => held::looked(&dir).await.map_err(|why| chain(&why))?,
            None => Looked::Absent,
        };
        let begins = matches!(found, Looked::Absent);
        let (slot, warm) = match found {
            Looked::Absent => {
                let (slot, warm) = self.check_out(job, checked, &effect, cancel).await?;
                (Some(slot), warm)
            }
            Looked::Alive { held } => (Some(self.slots.take(held.cwd, job.session)), true),
            Looked::Starting { .. }
            | Looked::Ended { .. }
            | Looked::HolderDied { .. }
            | Looked::OtherBoot { .. } => (None, true),
        };
        let cwd = slot.as_ref().map(|slot| slot.path.clone()).unwrap_or_default();
        let spec = self.hold_spec(job, cwd);
        let ran = self.effects.run(&effect, spec, cancel).await.map_err(|why| chain(&why))?;
        drop(slot);
        let environment =
            begins.then(|| digest(&self.key, &self.environment.of_command(&job.spec)));
        Ok(CheckRan { ran, warm, environment })
    }

    fn hold_spec(&self, job: &CheckJob, cwd: PathBuf) -> HoldSpec {
        let argv = ["/bin/sh", "-c", &job.command].map(str::to_owned).to_vec();
        let bounds = &job.spec.bounds;
        HoldSpec {
            env: self.environment.of_command(&job.spec),
            output_limit: bounds.check_output,
            on_limit: OnLimit::End,
            time_limit_ms: Some(bounds.check_time_ms),
            grace_ms: bounds.stop_grace_ms,
            settle_ms: bounds.drain_ms,
            ..HoldSpec::new(String::new(), argv, cwd)
        }
    }

    /// Returns the commit to check: the work with its protected and trust-relevant files as of the
    /// base, so that no work weakens its own checks.
    async fn checked(&self, job: &CheckJob) -> Result<Checked, String> {
        let git = self.git_calls.settled(Subject::Session(job.session)).await;
        let job = job.clone();
        held::blocking(move || {
            let snapshot = job.snapshot.clone();
            let Some((base, top)) = job.base.zip(job.spec.work.top()) else {
                return Ok(Checked { snapshot, overlay: None });
            };
            let project = Project::find(&git, Path::new(top)).map_err(|why| chain(&why))?;
            let (begun, work) = (oid(&base)?, oid(&snapshot.commit)?);
            let versions = Versions { base: &begun, work: &work };
            let patterns = held_patterns(&job.spec.protected);
            let made = overlay(&git, &project, versions, &patterns).map_err(told)?;
            Ok(match made {
                None => Checked { snapshot, overlay: None },
                Some(made) => {
                    let tree = TreeId(made.tree.to_string());
                    let commit = CommitId(made.commit.to_string());
                    let files = made.files.iter().take(MAX_LEFT_OUT).map(ToString::to_string);
                    let overlay = Overlay { base, tree: tree.clone(), files: files.collect() };
                    Checked { snapshot: Snapshot { commit, tree }, overlay: Some(overlay) }
                }
            })
        })
        .await
    }

    async fn check_out(
        &self,
        job: &CheckJob,
        checked: &Checked,
        effect: &EffectName,
        cancel: &tokio::sync::watch::Receiver<bool>,
    ) -> Result<(Slot, bool), String> {
        let mut pauses = CHECKOUT_PAUSES.into_iter();
        // Kept until a usable one is found, so that none of them is taken again.
        let mut unusable = Vec::new();
        loop {
            let (runner, job, snapshot) = (self.clone(), job.clone(), checked.snapshot.clone());
            let made = self.git_calls.write(effect.clone(), move |git| {
                let place = runner.place(git, &job).map_err(|why| chain(&*why))?;
                let made = place.check_out(git, &job, &snapshot);
                Ok::<_, String>((place.slot, made))
            });
            let (slot, made) = made.await?;
            let why = match made {
                Ok(warm) => return Ok((slot, warm)),
                Err(why) => why,
            };
            let passes = why.downcast_ref::<pool::Error>().is_some_and(pool::Error::may_pass);
            let why = chain(&*why);
            // Another slot has the same shortage: the whole check is retried later.
            let is_short = Shortage::from_text(&why).is_some();
            match pauses.next() {
                Some(pause) if passes && !is_short && !*cancel.borrow() => held::pause(pause).await,
                _ => return Err(why),
            }
            unusable.push(slot);
        }
    }

    /// Finds a free slot for a checkout.
    fn place(&self, git: &Git, job: &CheckJob) -> Result<Place, Failure> {
        let (top, tree) = match &job.spec.work {
            Work::InPlace { top } => (top, None),
            Work::Worktree { top, path, branch, .. } => (top, Some((path, branch))),
            Work::Plain | Work::Detached { .. } => {
                return Err("the work is not in a git repository".into());
            }
        };
        let project = Project::find(git, Path::new(top))?;
        let root = self.home.pool().join(project_key(&project));
        provost_sys::private::create_dir_all(&root)?;
        let mut pool = Pool::new(&root)?;
        if let Some((path, branch)) = tree {
            let branch = BranchName::new(branch)?;
            let found = worktree_find(git, &project, Path::new(path), &branch)?;
            pool = found.into_iter().fold(pool, Pool::for_work_in);
        }
        let (slot, name) = self.slots.free(&root.canonicalize()?, job.session);
        Ok(Place { project, pool, slot, name })
    }

    async fn receipt(
        &self,
        job: &CheckJob,
        dir: PathBuf,
        exit: &ExitRecord,
        warm: bool,
    ) -> Receipt {
        let (path, started) = (dir.join(journal::JOURNAL_FILE), dir.clone());
        let (printed, began) = held::blocking(move || {
            let began = match provost_holder::look(&started) {
                Ok(Looked::Ended { held: Some(held), .. }) => Some(held.started_mono_ms),
                Ok(_) | Err(_) => None,
            };
            (printed(&path), began)
        })
        .await;
        let end = check_end(exit);
        let (digest, tail) = printed.unwrap_or_default();
        let tail = if end == CheckEnd::Exit(0) { String::new() } else { tail };
        Receipt {
            command: job.command.clone(),
            tree: job.snapshot.tree.clone(),
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

impl Slots {
    fn mark(&self, path: PathBuf, session: SessionId) {
        self.taken.lock().expect("no holder of the lock panics").insert(path, session);
    }

    fn take(&self, path: PathBuf, session: SessionId) -> Slot {
        self.mark(path.clone(), session);
        Slot { path, slots: self.clone() }
    }

    /// Takes the first free checkout of a project.
    fn free(&self, root: &Path, session: SessionId) -> (Slot, String) {
        let mut taken = self.taken.lock().expect("no holder of the lock panics");
        let (path, name) = (0..)
            .map(|no: u32| (root.join(no.to_string()), no.to_string()))
            .find(|(path, _)| !taken.contains_key(path))
            .expect("there are more numbers than checks");
        taken.insert(path.clone(), session);
        (Slot { path, slots: self.clone() }, name)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken.lock().expect("no holder of the lock panics").remove(&self.path);
    }
}

/// Removes a partial checkout when the disk is full, so that it does not occupy the last space.
fn remove_partial(checkout: &Path, why: &str) {
    if Shortage::from_text(why).is_some() {
        // The next attempt removes anything that is left.
        std::fs::remove_dir_all(checkout).ok();
    }
}

/// Digests an environment, independent of the order of its variables.
fn digest(key: &[u8; 32], variables: &[(String, String)]) -> String {
    let mut sorted: Vec<&(String, String)> = variables.iter().collect();
    sorted.sort();
    let mut hasher = blake3::Hasher::new_keyed(key);
    for (name, value) in sorted {
        hasher.update(name.as_bytes()).update(b"=").update(value.as_bytes()).update(b"\0");
    }
    hasher.finalize().to_hex().to_string()
}

fn retried(key: &str, retry: u32) -> String {
    if retry == 0 { key.to_owned() } else { format!("{key}-r{retry}") }
}

pub(super) fn check_end(exit: &ExitRecord) -> CheckEnd {
    match (exit.ended_by, &exit.end) {
        (EndedBy::TimeLimit, _) => CheckEnd::TimeLimit,
        (EndedBy::OutputLimit, _) => CheckEnd::OutputLimit,
        (EndedBy::Stop | EndedBy::HolderFault, _) => {
            CheckEnd::Unfinished("it was ended".to_owned())
        }
        (EndedBy::Itself, End::Exited { code }) => CheckEnd::Exit(*code),
        (EndedBy::Itself, End::Signalled { signal }) => CheckEnd::Signal(*signal),
        (EndedBy::Itself, End::NotStarted { error }) => CheckEnd::Unfinished(error.clone()),
    }
}

fn unfinished(job: &CheckJob, why: String) -> Receipt {
    unfinished_on(&job.command, job.snapshot.tree.clone(), why)
}

/// Returns the receipt of a check with an unknown result.
pub(super) fn unfinished_on(command: &str, tree: TreeId, why: String) -> Receipt {
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

/// How many bytes of the end of a failing check's output go into its receipt.
const TAIL: usize = 4 << 10;

/// Digests the output of a check, both channels in the order of the journal, and returns its end as
/// text.
fn printed(journal: &Path) -> Option<(String, String)> {
    let Ok(Opened::At(reader)) = Reader::open(journal, 0) else { return None };
    let (mut hasher, mut tail) = (blake3::Hasher::new(), Vec::new());
    for frame in reader {
        let frame = frame.ok()?;
        if matches!(frame.channel, Channel::Stdout | Channel::Stderr) {
            hasher.update(&frame.payload);
            tail.extend_from_slice(&frame.payload);
            tail.drain(..tail.len().saturating_sub(TAIL));
        }
    }
    let tail = provost_git::printable(&tail).trim_end().to_owned();
    Some((hasher.finalize().to_hex().to_string(), tail))
}

/// Names a project's pool: the directory's name for readability, a digest of its path for
/// uniqueness.
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
