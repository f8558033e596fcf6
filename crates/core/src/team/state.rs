//! The state of a team, folded from its events.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    blind_proposals::ProposalRound,
    command::{CheckSubject, TeamCommand},
    criterion::Criterion,
    dedup::EvictedMessage,
    finish::{BlockerWaiver, FinishBlocker},
    loop_state::Loop,
    manager::{EpilogueStep, ManagerConfig, ManagerMode, ManagerMove, TeamAction},
    member::{MemberRole, TeamActor, TeamMember},
    message::{Recipient, TeamMessage},
    messages::TeamMessages,
    pictures::PictureCheck,
    policy::PolicyState,
    refusal::RecordedRefusal,
    spec::TeamSpec,
};
use crate::{
    ids::{TeamId, TreeId},
    time::Moment,
    verdict::Receipt,
};

/// The lifecycle phase of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamPhase {
    /// No worker is bound yet.
    Open,
    Active,
    Paused {
        because: String,
    },
    Done {
        because: String,
    },
    Failed {
        because: String,
    },
    Cancelled {
        because: String,
    },
}

impl TeamPhase {
    pub fn as_str(&self) -> &'static str {
        match self {
            TeamPhase::Open => "open",
            TeamPhase::Active => "active",
            TeamPhase::Paused { .. } => "paused",
            TeamPhase::Done { .. } => "done",
            TeamPhase::Failed { .. } => "failed",
            TeamPhase::Cancelled { .. } => "cancelled",
        }
    }

    /// Whether the phase is final.
    pub fn is_over(&self) -> bool {
        match self {
            TeamPhase::Open | TeamPhase::Active | TeamPhase::Paused { .. } => false,
            TeamPhase::Done { .. } | TeamPhase::Failed { .. } | TeamPhase::Cancelled { .. } => true,
        }
    }
}

/// The purpose of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckPurpose {
    Criterion(u32),
    /// A named piece of evidence for one iteration.
    Evidence {
        iteration: u32,
        name: String,
    },
    /// The audit that runs before the team finishes.
    Audit(u32),
}

/// A check that Provost still has to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCheck {
    pub no: u32,
    pub command: String,
    pub purpose: CheckPurpose,
    /// The member whose work is checked.
    pub worker: String,
    /// The member that requested the check and receives its result.
    #[serde(default)]
    pub by: Option<String>,
    /// Members that requested the same check while it was running, and will receive the result as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<String>,
    /// The pictures to compare, if the check compares pictures instead of running a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Box<PictureCheck>>,
}

/// A check that failed the last time it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCheck {
    pub purpose: CheckPurpose,
    /// The member whose work was checked.
    pub worker: String,
    pub receipt: Receipt,
}

/// A completed check and its receipt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompletedCheck {
    pub no: u32,
    pub receipt: Receipt,
}

/// The number of check results that a team keeps. Older ones are dropped.
pub const MAX_RESULTS: usize = 50;

/// The worker and tree that the last audit checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditedWork {
    pub worker: String,
    pub tree: TreeId,
}

/// A request to finish the team whose audit is running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishAudit {
    pub no: u32,
    pub because: String,
    pub by: TeamActor,
    pub receipts: Vec<Receipt>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<BlockerWaiver>,
}

/// A team: its members, messages, criteria and loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    pub id: TeamId,
    pub spec: TeamSpec,
    pub opened: Moment,
    pub phase: TeamPhase,
    pub since: Moment,
    pub members: Vec<TeamMember>,
    pub messages: TeamMessages,
    /// The total number of messages ever stored.
    pub messages_stored: u32,
    /// The idempotency keys of evicted messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evicted: Vec<Arc<EvictedMessage>>,
    pub criteria: Vec<Criterion>,
    /// Commands that the operator wrote or approved, in addition to those of the spec.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub consented: BTreeSet<String>,
    /// The loop that is running, or the last one that ran.
    pub loop_state: Option<Loop>,
    pub config: ManagerConfig,
    pub moves: Vec<ManagerMove>,
    /// The epilogue steps that have been completed.
    pub epilogue: BTreeSet<EpilogueStep>,
    /// Whether the work as a whole has been challenged.
    pub challenged: bool,
    pub checks: Vec<PendingCheck>,
    pub checks_requested: u32,
    /// Criterion and evidence checks that failed the last time they ran.
    #[serde(default)]
    pub failed: Vec<FailedCheck>,
    /// The newest completed checks, with their receipts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Arc<CompletedCheck>>,
    pub audit: Option<FinishAudit>,
    pub audits: u32,
    #[serde(default)]
    pub audited: Option<AuditedWork>,
    /// The reason why the last request to finish was refused.
    pub blockers: Vec<FinishBlocker>,
    /// Blockers that the operator waived when the team finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<FinishBlocker>,
    /// The newest round of proposals for the next step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ProposalRound>,
    /// Members' actions that were refused, each recorded once.
    #[serde(default)]
    pub refused: Vec<RecordedRefusal>,
    /// The observations and actions of the managing policy.
    #[serde(default)]
    pub policy: PolicyState,
}

impl Team {
    /// Returns the bound member with this name.
    pub fn member(&self, name: &str) -> Option<&TeamMember> {
        self.members.iter().find(|member| member.name == name && member.is_bound())
    }

    /// Returns the bound members with this role.
    pub fn bound(&self, role: MemberRole) -> impl Iterator<Item = &TeamMember> {
        self.members.iter().filter(move |member| member.role == role && member.is_bound())
    }

    pub fn message(&self, no: u32) -> Option<&TeamMessage> {
        self.messages.iter().rev().find(|message| message.no == no).map(Arc::as_ref)
    }

    pub fn criterion(&self, no: u32) -> Option<&Criterion> {
        self.criteria.iter().find(|criterion| criterion.no == no)
    }

    /// Whether a check for this purpose is pending.
    pub fn is_being_checked(&self, purpose: &CheckPurpose) -> bool {
        self.checks.iter().any(|check| check.purpose == *purpose)
    }

    /// Returns the pending check for this subject.
    pub fn pending_check(&self, what: &CheckSubject) -> Option<&PendingCheck> {
        self.checks.iter().find(|check| what.matches_purpose(&check.purpose))
    }

    /// Returns the last check for this purpose, if it failed.
    pub fn failed_check(&self, purpose: &CheckPurpose) -> Option<&FailedCheck> {
        self.failed.iter().find(|failed| failed.purpose == *purpose)
    }

    /// Returns the running loop.
    pub fn running_loop(&self) -> Option<&Loop> {
        self.loop_state.as_ref().filter(|looped| looped.ended.is_none())
    }

    /// Returns the role of an actor. The operator and Provost itself have no role.
    pub fn role_of(&self, actor: &TeamActor) -> Option<MemberRole> {
        match actor {
            TeamActor::Operator | TeamActor::Provost => None,
            TeamActor::Policy => Some(MemberRole::Manager),
            TeamActor::Member(name) => self.member(name).map(|member| member.role),
        }
    }

    pub fn recipient_role(&self, address: &Recipient) -> Option<MemberRole> {
        match address {
            Recipient::Operator => None,
            Recipient::Member(name) => self.member(name).map(|member| member.role),
        }
    }

    /// Whether the configuration allows a manager to perform this action.
    pub(super) fn is_allowed(&self, action: TeamAction) -> bool {
        !self.config.denied.contains(&action)
    }

    /// Returns the recorded move that permits a strict manager to run this command.
    pub(super) fn move_for(&self, command: &TeamCommand) -> Option<&ManagerMove> {
        let newest = self.moves.last().filter(|newest| !newest.used && !newest.withdrawn)?;
        command.required_moves().contains(&newest.kind).then_some(newest)
    }

    /// Whether a move must be recorded before this command.
    pub(super) fn needs_move(&self, command: &TeamCommand) -> bool {
        self.config.mode == ManagerMode::Strict && !command.required_moves().is_empty()
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.phase, TeamPhase::Paused { .. })
    }

    /// Whether the team is over and has no pending effects. If so, it can be evicted from memory.
    pub fn is_closed(&self) -> bool {
        self.phase.is_over() && self.effects().is_empty()
    }
}
