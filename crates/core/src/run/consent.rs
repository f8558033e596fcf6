//! Actions that need the operator's consent: landing changes to trust-relevant files, and running
//! commands that an agent wrote.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    landing::{LandStep, LandingState},
    spec::RunSpec,
    stage::RunStage,
    state::Run,
};
use crate::{
    ids::CommitId,
    plan::Plan,
    policy::Ruling,
    verdict::{CheckOrigin, Snapshot},
};

/// A landing that changes files for which the operator's approval is required.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardedLanding {
    /// The target commit that the change was compared with.
    pub onto: CommitId,
    /// The snapshot that would land.
    pub landing: Snapshot,
    /// The changed files that need approval.
    pub files: Vec<String>,
    /// The diff of these files, as shown to the operator.
    pub diff: String,
    /// Whether the stored diff was truncated.
    #[serde(default)]
    pub truncated: bool,
    #[serde(default)]
    pub approved: bool,
}

/// An approval that a run is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingRunApproval<'a> {
    /// Approval of the plan because it contains these commands, which an agent wrote.
    Plan(Vec<&'a str>),
    Landing(&'a GuardedLanding),
}

impl RunSpec {
    /// Returns the path in the repository of the workflow file that opened the run, if one did.
    pub fn workflow_file(&self) -> Option<&str> {
        self.origin.as_ref()?.workflow.strip_prefix(self.project.as_str())?.strip_prefix('/')
    }
}

impl Run {
    /// Returns the approval that the run is waiting for, if any.
    pub fn approval(&self) -> Option<PendingRunApproval<'_>> {
        if self.is_sealed() || self.attempt().stopped.is_some() {
            return None;
        }
        if self.is_plan_waiting() {
            return Some(PendingRunApproval::Plan(self.commands_awaiting_consent()));
        }
        let lands =
            self.stage == RunStage::Land && !self.is_live() && self.landing == LandingState::Open;
        let held = self.held.as_ref().filter(|held| lands && !held.approved)?;
        Some(PendingRunApproval::Landing(held))
    }

    /// Whether the run is waiting for the operator's approval.
    pub fn awaits_approval(&self) -> bool {
        self.approval().is_some()
    }

    /// Whether the commit may land: it changes no file that needs approval, or the operator
    /// approved exactly this commit.
    pub fn may_land(&self, commit: &CommitId) -> bool {
        self.held.as_ref().is_some_and(|held| held.approved && held.landing.commit == *commit)
    }

    /// Returns the commit from which the checks take protected files: the base of the run, or the
    /// newest target commit that was merged into the work. Neither was written by an agent of this
    /// run.
    pub fn protected_base(&self) -> &CommitId {
        let merged = self.steps.iter().rev().find_map(|step| match step {
            LandStep::Merge { onto, .. } => Some(onto),
            LandStep::Answer { .. } => None,
        });
        merged.unwrap_or(&self.spec.target.base.commit)
    }

    /// Returns the checks in the plan that an agent wrote, without duplicates.
    pub fn agent_checks(&self) -> Vec<String> {
        match &self.planned {
            Some(planned) => {
                self.written_by_agents(&planned.plan).into_iter().map(str::to_owned).collect()
            }
            None => Vec::new(),
        }
    }

    /// Returns the origin of a check.
    pub fn check_origin(&self, command: &str) -> CheckOrigin {
        let named = self.spec.checks.iter().any(|check| check == command);
        match (self.is_user_command(command), named && self.spec.configured_checks) {
            (true, true) => CheckOrigin::Configuration,
            (true, false) => CheckOrigin::Operator,
            (false, _) => CheckOrigin::Agent,
        }
    }

    /// Returns the commands of a plan that no user wrote, without duplicates.
    fn written_by_agents<'a>(&self, plan: &'a Plan) -> Vec<&'a str> {
        let commands = plan.tasks().iter().flat_map(|task| &task.checks);
        let mut seen = BTreeSet::new();
        let new =
            commands.filter(|command| !self.is_user_command(command) && seen.insert(*command));
        new.map(String::as_str).collect()
    }

    /// Whether a command in the plan comes from the user, who either wrote the plan or specified
    /// the same command.
    fn is_user_command(&self, command: &str) -> bool {
        let spec = &self.spec;
        spec.planning.given.is_some()
            || spec.checks.iter().any(|check| check == command)
            || spec.setup.as_deref() == Some(command)
    }

    /// Returns the commands that are waiting for the operator's consent.
    pub(super) fn commands_awaiting_consent(&self) -> Vec<&str> {
        let plan = self.planned.as_ref().map(|planned| &planned.plan);
        let commands = plan.map(|plan| self.written_by_agents(plan)).unwrap_or_default();
        let runs = |command: &&str| !self.spec.no_checks && !self.has_consent(command);
        commands.into_iter().filter(runs).collect()
    }

    /// Whether a check of the plan may be run.
    pub(super) fn may_run(&self, command: &str) -> bool {
        self.is_user_command(command) || self.has_consent(command)
    }

    fn has_consent(&self, command: &str) -> bool {
        self.consented.contains(command) || matches!(self.rule_for(command), Ruling::Allow(_))
    }

    fn rule_for(&self, command: &str) -> Ruling {
        self.spec.policy.evaluate_own_command(command)
    }

    /// Returns the agent's plan unchanged, or the commands in it that a rule denies.
    pub(super) fn check_plan_rules(&self, plan: Plan) -> Result<Plan, Vec<String>> {
        let denied = |command: &&str| match self.rule_for(command) {
            Ruling::Deny(rule) => {
                Some(format!("the check `{command}` is denied by the approval rule \"{rule}\""))
            }
            Ruling::Allow(_) | Ruling::Ask => None,
        };
        let faults: Vec<String> = self.written_by_agents(&plan).iter().filter_map(denied).collect();
        if faults.is_empty() { Ok(plan) } else { Err(faults) }
    }
}
