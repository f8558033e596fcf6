//! Verifications: checks that Provost runs on one committed tree.
//!
//! A verification is plain data. A session, the merge queue, a landing and a team each request one;
//! the engine runs its checks in order and returns the receipts. Only a [`Verdict`] on these
//! receipts decides whether the tree passed.

use std::collections::BTreeMap;

use crate::{
    ids::CommitId,
    limits::Bounds,
    session::{AgentSpec, Session, WorkLocation, WorkState},
    team::Team,
    verdict::{EmptyDiff, Evidence, Receipt, Snapshot, Verdict},
};

/// Checks to run on one committed tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The work to check.
    pub snapshot: Snapshot,
    /// The commit from which protected files are taken. None if the base of the work is unknown.
    pub base: Option<CommitId>,
    /// The root directory of the repository. None if the work is not in one.
    pub project: Option<String>,
    /// The worktree in which the work was done, which may contain commits of submodules that exist
    /// nowhere else.
    pub worktree: Option<WorktreeRef>,
    /// The commands to run, in this order, up to the first that fails.
    pub checks: Vec<String>,
    /// Files that the checks depend on. They are taken from `base`.
    pub protected: Vec<String>,
    /// Directories that the pooled checkout keeps between checks.
    pub keep: Vec<String>,
    pub limits: CheckLimits,
    pub environment: CheckEnvironment,
}

/// The path and the branch of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeRef {
    pub path: String,
    pub branch: String,
}

/// The limits of each check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckLimits {
    pub time_ms: u64,
    /// Maximum number of bytes of output.
    pub output: u64,
    /// How long a check that is being ended may take between TERM and KILL.
    pub grace_ms: u64,
    /// How long to wait for remaining output after the check has exited.
    pub drain_ms: u64,
}

/// The environment of the checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckEnvironment {
    /// Variables with their values.
    pub set: BTreeMap<String, String>,
    /// Names of variables whose values are taken from the daemon's environment.
    pub pass: Vec<String>,
}

impl From<&Bounds> for CheckLimits {
    fn from(bounds: &Bounds) -> CheckLimits {
        CheckLimits {
            time_ms: bounds.check_time_ms,
            output: bounds.check_output,
            grace_ms: bounds.stop_grace_ms,
            drain_ms: bounds.drain_ms,
        }
    }
}

impl From<&AgentSpec> for CheckEnvironment {
    /// Checks receive the agent's variables, except for those that only the agent may have.
    fn from(agent: &AgentSpec) -> CheckEnvironment {
        CheckEnvironment { set: agent.env.clone(), pass: agent.pass_env.clone() }
    }
}

/// Returns the verdict on a tree that may equal its base. Receipts for another tree are ignored.
pub(crate) fn judge_receipts(
    snapshot: &Snapshot,
    required: &[String],
    receipts: &[Receipt],
) -> Verdict {
    let empty_diff = EmptyDiff::Accepted;
    Verdict::from_evidence(Evidence { snapshot, base: None, empty_diff, required, receipts })
}

impl Session {
    /// Returns the verification of the session's committed work with one of its checks.
    pub fn check_request(&self, index: u32) -> Option<Verification> {
        let snapshot = self.attempt().verifying.snapshot.clone()?;
        let check = self.spec.checks.get(index as usize)?.clone();
        Some(self.verification_of(snapshot, vec![check]))
    }

    /// Returns the verification of a commit of the session's work.
    pub fn verification_of(&self, snapshot: Snapshot, checks: Vec<String>) -> Verification {
        let spec = &self.spec;
        let (project, worktree) = match &spec.work {
            WorkLocation::InPlace { top } => (Some(top), None),
            WorkLocation::Worktree { top, path, branch, .. } => {
                let (path, branch) = (path.clone(), branch.clone());
                (Some(top), Some(WorktreeRef { path, branch }))
            }
            // Work outside of git and read-only checkouts have no commits to check.
            WorkLocation::Plain | WorkLocation::Detached { .. } => (None, None),
        };
        Verification {
            snapshot,
            base: self.protected_base(),
            project: project.cloned(),
            worktree,
            checks,
            protected: spec.protected.clone(),
            keep: spec.keep.clone(),
            limits: CheckLimits::from(&spec.bounds),
            environment: CheckEnvironment::from(&spec.agent),
        }
    }

    /// Returns the commit from which the checks take protected files, if it is known.
    fn protected_base(&self) -> Option<CommitId> {
        let begun = match &self.worktree.state {
            WorkState::Ready { base, .. } => base.as_ref().map(|base| base.commit.clone()),
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => None,
        };
        self.spec.check_terms.base.clone().or(begun)
    }
}

impl Team {
    /// Returns the verification of the checkout in which the team was opened. Its checks receive no
    /// variables, because no agent's settings apply to them.
    pub fn checkout_verification(&self, snapshot: Snapshot, check: String) -> Verification {
        Verification {
            snapshot,
            base: None,
            project: self.spec.project.clone(),
            worktree: None,
            checks: vec![check],
            protected: Vec::new(),
            keep: Vec::new(),
            limits: CheckLimits::from(&Bounds::default()),
            environment: CheckEnvironment::default(),
        }
    }
}
