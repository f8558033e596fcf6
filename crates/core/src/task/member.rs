//! Who works on a task: members, what each is there for, and who acts.

use serde::{Deserialize, Serialize};

use crate::{ids::SessionId, time::Moment};

/// What a member is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Worker,
    Manager,
    Reviewer,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Worker, Role::Manager, Role::Reviewer];

    pub fn word(self) -> &'static str {
        match self {
            Role::Worker => "worker",
            Role::Manager => "manager",
            Role::Reviewer => "reviewer",
        }
    }
}

/// What a member has to show whoever looks for it elsewhere. Navigation and nothing more: no rule asks for them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Labels {
    pub thread: Option<String>,
    pub title: Option<String>,
}

/// Somebody who works on a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Unique in the task, also among those who left.
    pub name: String,
    pub role: Role,
    /// Its session, where Provost has one. Whoever opens it elsewhere asks for its messages, and nobody probes it.
    pub session: Option<SessionId>,
    #[serde(default)]
    pub labels: Labels,
    pub bound: Moment,
    /// When it was retired, or another took its place.
    #[serde(default)]
    pub left: Option<Moment>,
    /// The revision of the configuration that it has read and acknowledged.
    #[serde(default)]
    pub acknowledged: Option<u32>,
    /// What of its session its manager was told.
    #[serde(default)]
    pub told: Told,
}

impl Member {
    pub fn is_bound(&self) -> bool {
        self.left.is_none()
    }
}

/// How far the news of a member's session have gone to its manager: each is told once, whatever is asked how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    pub turns_ended: u32,
    pub attempts_sealed: u32,
    pub requests: u32,
}

/// Who does something to a task. The shell says it by the caller's process, never by what the caller says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    Operator,
    Member(String),
    /// A manager that is rules and no agent.
    Policy,
    Provost,
}

impl Actor {
    /// Gives its name for people.
    pub fn name(&self) -> &str {
        match self {
            Actor::Operator => "operator",
            Actor::Member(name) => name,
            Actor::Policy => "policy",
            Actor::Provost => "provost",
        }
    }
}
