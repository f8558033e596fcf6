//! Builds the specs of a run's sessions.

use std::collections::BTreeMap;

use super::{
    graph::{TaskGraph, TaskPhase},
    spec::ReviewMode,
    stage::{RunStage, StagePermissions},
    state::Run,
};
use crate::{
    ids::{CommitId, SessionId},
    limits::Bounds,
    plan::PlanTask,
    session::{
        AgentSettings, AgentSpec, Budget, CheckTerms, ExitZeroPolicy, OnFinish, RunStageRef,
        SessionSpec, WorkLocation,
    },
    verdict::EmptyDiff,
};

/// The purpose of a new session.
pub(super) struct SessionJob<'a> {
    pub(super) stage: RunStage,
    /// The number of the review or of the landing step.
    pub(super) cycle: u32,
    pub(super) task: Option<&'a PlanTask>,
    /// The commit from which the session starts.
    pub(super) base: &'a CommitId,
    pub(super) checks: Vec<String>,
}

impl Run {
    /// Returns the job for a session in the current stage.
    pub(super) fn job(&self, cycle: u32) -> SessionJob<'_> {
        let (base, checks) = (&self.base().commit, self.all_checks());
        SessionJob { stage: self.stage, cycle, task: None, base, checks }
    }

    /// Returns the spec of the next session. None if the stage needs no agent.
    pub(super) fn session_spec(&self, no: u32, job: &SessionJob<'_>) -> Option<SessionSpec> {
        let mode = self.spec.reviews.mode_for(job.stage);
        let permissions = job.stage.permissions(mode)?;
        let spec = &self.spec;
        let edits = permissions.edits;
        Some(SessionSpec {
            name: self.session_name(job),
            role: Some(job.stage.as_str().to_owned()),
            project: Some(spec.project.clone()),
            cwd: spec.cwd.clone(),
            agent: restrict_agent(&spec.agent, &permissions, spec.questions),
            instruction: Some(self.instruction(mode, job)),
            work: self.work_location(no, edits, job.base),
            setup: if edits { spec.setup.clone() } else { None },
            checks: if edits { job.checks.clone() } else { Vec::new() },
            keep: spec.keep.clone(),
            protected: spec.protected.clone(),
            check_terms: CheckTerms {
                agent_checks: self.agent_checks(),
                configured: if spec.configured_checks { spec.checks.clone() } else { Vec::new() },
                base: Some(self.protected_base().clone()),
            },
            empty_diff: self.empty_diff(job.stage),
            exit_zero: ExitZeroPolicy::NotAClaim,
            on_finish: OnFinish::Close,
            bounds: bounds(&spec.bounds, &permissions),
            budget: self.remaining(),
            policy: spec.policy.relocated(&self.path(0), &self.path(no)),
            hooks: BTreeMap::new(),
            reactions: Vec::new(),
            warnings: Vec::new(),
            run: Some(RunStageRef { run: self.id, stage: job.stage }),
            task: job.task.map(|task| task.id.clone()),
            adopted: None,
        })
    }

    fn session_name(&self, job: &SessionJob<'_>) -> String {
        let (name, stage) = (&self.spec.name, job.stage);
        match job.task {
            Some(task) if stage == RunStage::Work => format!("{name}-{}", task.id),
            Some(task) => {
                format!("{name}-{}-{}{}", task.id, stage.as_str(), cycle_suffix(job.cycle))
            }
            None => format!("{name}-{}{}", stage.as_str(), cycle_suffix(job.cycle)),
        }
    }

    /// Returns the rule for empty diffs. A reviewer may find nothing to fix, but other work must
    /// change something.
    fn empty_diff(&self, stage: RunStage) -> EmptyDiff {
        match stage {
            RunStage::Work => self.spec.empty_diff,
            RunStage::Intake
            | RunStage::Triage
            | RunStage::Plan
            | RunStage::PlanReview
            | RunStage::Tasks
            | RunStage::TaskReview
            | RunStage::FinalReview
            | RunStage::Land => EmptyDiff::Accepted,
        }
    }

    /// Returns the path and branch of a session's worktree.
    pub fn worktree(&self, session: SessionId) -> Option<(String, String)> {
        let found = self.sessions.iter().find(|one| one.id == session)?;
        Some((self.path(found.no), self.branch(found.no)))
    }

    fn path(&self, no: u32) -> String {
        format!("{}/{no}", self.spec.worktrees)
    }

    fn branch(&self, no: u32) -> String {
        format!("{}-{no}", self.spec.branch)
    }

    fn work_location(&self, no: u32, edits: bool, base: &CommitId) -> WorkLocation {
        let (top, path, base) = (self.spec.project.clone(), self.path(no), base.clone());
        if edits {
            WorkLocation::Worktree {
                top,
                path,
                branch: self.branch(no),
                copy: self.spec.copy.clone(),
                base: Some(base),
            }
        } else {
            WorkLocation::Detached { top, path, base }
        }
    }

    /// Returns the checks of the run and of all merged tasks in its plan.
    pub fn all_checks(&self) -> Vec<String> {
        let tasks = self.graph.iter().flat_map(TaskGraph::tasks);
        let merged =
            tasks.filter(|(_, task)| task.phase == TaskPhase::Merged).map(|(plan, _)| plan);
        self.checks_with(merged).into_iter().map(str::to_owned).collect()
    }

    /// Returns the remaining budget.
    pub(super) fn remaining(&self) -> Budget {
        Budget {
            tokens: self.budget.tokens.map(|all| all.saturating_sub(self.usage.total())),
            turns: self.budget.turns.map(|all| all.saturating_sub(self.turns)),
        }
    }
}

fn cycle_suffix(cycle: u32) -> String {
    if cycle > 1 { format!("-{cycle}") } else { String::new() }
}

/// Restricts an agent to the permissions of a stage. A stage never grants more than the
/// configuration allows.
fn restrict_agent(agent: &AgentSpec, permissions: &StagePermissions, questions: bool) -> AgentSpec {
    let settings = &agent.settings;
    let effort = settings.effort.clone().or(permissions.effort.map(str::to_owned));
    let settings = AgentSettings {
        sandbox: if permissions.edits { settings.sandbox } else { permissions.sandbox },
        questions: settings.questions && questions && permissions.asks,
        network: settings.network && permissions.edits,
        result: permissions.result,
        effort,
        ..settings.clone()
    };
    AgentSpec { settings, ..agent.clone() }
}

fn bounds(bounds: &Bounds, permissions: &StagePermissions) -> Bounds {
    let shorter = match (bounds.time_limit_ms, permissions.time_limit_ms) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Bounds { time_limit_ms: shorter, ..bounds.clone() }
}

/// Whether another review can follow a review in this mode.
pub(super) fn is_repeatable(mode: ReviewMode) -> bool {
    match mode {
        ReviewMode::Off | ReviewMode::Report => false,
        ReviewMode::Repair => true,
    }
}
