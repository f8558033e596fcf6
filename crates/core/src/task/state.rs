//! What a task's events add up to.

use std::{collections::BTreeSet, sync::Arc};

use serde::{Deserialize, Serialize};

use super::{
    command::{Checked, Command},
    criterion::Criterion,
    finish::{Allowance, Blocker},
    forgotten::Forgotten,
    gate::Loop,
    manager::{Action, Config, Epilogue, Mode, Move},
    member::{Actor, Member, Role},
    message::{Address, Message},
    messages::Messages,
    pictures::Pictures,
    policy::PolicyState,
    proposing::Round,
    refusal::Refusal,
    spec::TaskSpec,
};
use crate::{
    ids::{StandingId, TreeId},
    time::Moment,
    verdict::Receipt,
};

/// Where a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Nobody works on it yet.
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

impl Phase {
    pub fn word(&self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Active => "active",
            Phase::Paused { .. } => "paused",
            Phase::Done { .. } => "done",
            Phase::Failed { .. } => "failed",
            Phase::Cancelled { .. } => "cancelled",
        }
    }

    /// Says whether nothing more comes of it.
    pub fn is_over(&self) -> bool {
        match self {
            Phase::Open | Phase::Active | Phase::Paused { .. } => false,
            Phase::Done { .. } | Phase::Failed { .. } | Phase::Cancelled { .. } => true,
        }
    }
}

/// What a check is run for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    Criterion(u32),
    /// Evidence of an iteration of the loop, by its name.
    Evidence {
        iteration: u32,
        name: String,
    },
    /// The audit before the task is finished.
    Audit(u32),
}

/// A check that Provost is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckOwed {
    pub no: u32,
    pub command: String,
    pub purpose: Purpose,
    /// Whose work is checked.
    pub worker: String,
    /// The member that asked for it, and is told what came of it.
    #[serde(default)]
    pub by: Option<String>,
    /// Members that asked for it while it ran, and are told the result, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joined: Vec<String>,
    /// The pictures that are compared, if no command is run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pictures: Option<Box<Pictures>>,
}

/// A check that did not pass, for what it was run last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedCheck {
    pub purpose: Purpose,
    /// Whose work was checked.
    pub worker: String,
    pub receipt: Receipt,
}

/// A check that was run to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub no: u32,
    pub receipt: Receipt,
}

/// How many results of checks a task remembers, the newest.
pub const MAX_RESULTS: usize = 50;

/// The work that the last audit was of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    pub worker: String,
    pub tree: TreeId,
}

/// A finish that was asked for, while its audit runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    pub no: u32,
    pub because: String,
    pub by: Actor,
    pub receipts: Vec<Receipt>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<Allowance>,
}

/// A task that stands alone, with all who work on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub id: StandingId,
    pub spec: TaskSpec,
    pub opened: Moment,
    pub phase: Phase,
    pub since: Moment,
    pub members: Vec<Member>,
    pub messages: Messages,
    /// How many there were in all.
    pub messages_stored: u32,
    /// The keys of those that are over and no longer here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<Arc<Forgotten>>,
    pub criteria: Vec<Criterion>,
    /// Commands besides those of the spec that the operator wrote or agreed to.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub consented: BTreeSet<String>,
    /// The loop that runs, or ran last.
    pub looped: Option<Loop>,
    pub config: Config,
    pub moves: Vec<Move>,
    /// What of the epilogue is done.
    pub epilogue: BTreeSet<Epilogue>,
    /// Whether somebody tried to disprove the work as a whole.
    pub attacked: bool,
    pub checks: Vec<CheckOwed>,
    pub checks_owed: u32,
    /// Those of criteria and evidence that did not pass when they were run last.
    #[serde(default)]
    pub failed: Vec<FailedCheck>,
    /// The newest checks that were run, with their receipts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Arc<CheckResult>>,
    pub audit: Option<Audit>,
    pub audits: u32,
    #[serde(default)]
    pub audited: Option<Audited>,
    /// Why the last finish was refused.
    pub blockers: Vec<Blocker>,
    /// What the operator let pass when the task was finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Blocker>,
    /// The newest proposals for what comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Round>,
    /// What members were refused, each thing once.
    #[serde(default)]
    pub refused: Vec<Refusal>,
    /// What the policy that manages it has seen and done.
    #[serde(default)]
    pub policy: PolicyState,
}

impl Task {
    /// Gives a member who is bound.
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name && member.is_bound())
    }

    /// Gives the members of a role who are bound.
    pub fn bound(&self, role: Role) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(move |member| member.role == role && member.is_bound())
    }

    pub fn message(&self, no: u32) -> Option<&Message> {
        self.messages.iter().rev().find(|message| message.no == no).map(Arc::as_ref)
    }

    pub fn criterion(&self, no: u32) -> Option<&Criterion> {
        self.criteria.iter().find(|criterion| criterion.no == no)
    }

    /// Says whether a check of this is owed.
    pub fn is_being_checked(&self, purpose: &Purpose) -> bool {
        self.checks.iter().any(|owed| owed.purpose == *purpose)
    }

    /// Returns the check that runs for what somebody asks to have checked.
    pub fn pending_check(&self, what: &Checked) -> Option<&CheckOwed> {
        self.checks.iter().find(|owed| what.is_for(&owed.purpose))
    }

    /// Gives the check of this that did not pass when it was run last.
    pub fn failed_check(&self, purpose: &Purpose) -> Option<&FailedCheck> {
        self.failed.iter().find(|failed| failed.purpose == *purpose)
    }

    /// Gives the loop that runs.
    pub fn running_loop(&self) -> Option<&Loop> {
        self.looped.as_ref().filter(|looped| looped.ended.is_none())
    }

    /// Gives what role an actor has; the operator and Provost itself have none.
    pub fn role_of(&self, actor: &Actor) -> Option<Role> {
        match actor {
            Actor::Operator | Actor::Provost => None,
            Actor::Policy => Some(Role::Manager),
            Actor::Member(name) => self.member(name).map(|member| member.role),
        }
    }

    pub fn role_at(&self, address: &Address) -> Option<Role> {
        match address {
            Address::Operator => None,
            Address::Member(name) => self.member(name).map(|member| member.role),
        }
    }

    /// Says whether the configuration lets a manager do this.
    pub(super) fn is_granted(&self, action: Action) -> bool {
        !self.config.denied.contains(&action)
    }

    /// Gives the move under which a strict manager may do this.
    pub(super) fn move_for(&self, command: &Command) -> Option<&Move> {
        let newest = self.moves.last().filter(|newest| !newest.used && !newest.withdrawn)?;
        command.moves().contains(&newest.kind).then_some(newest)
    }

    /// Says whether a move has to be recorded before this is done.
    pub(super) fn needs_move(&self, command: &Command) -> bool {
        self.config.mode == Mode::Strict && !command.moves().is_empty()
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.phase, Phase::Paused { .. })
    }

    /// Says whether nothing is owed or expected any more: the stream may be put away.
    pub fn is_closed(&self) -> bool {
        self.phase.is_over() && self.effects().is_empty()
    }
}
