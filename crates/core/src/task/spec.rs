//! What a task is opened with.

use serde::{Deserialize, Serialize};

use super::{manager::Config, policy::Policy};

/// The longest goal.
pub const MAX_GOAL: usize = 64 << 10;

/// A task as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Unique among tasks that are not over.
    pub name: String,
    pub goal: String,
    #[serde(default)]
    pub summary: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    /// Commands that have to pass on the tree that is finished.
    #[serde(default)]
    pub checks: Vec<String>,
    #[serde(default)]
    pub consent: ConsentTerms,
    #[serde(default)]
    pub config: Config,
    /// The rules that manage it, where no agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    #[serde(default)]
    pub bounds: TaskBounds,
}

/// Which commands of members need no further consent, as the user's configuration says when the task is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsentTerms {
    /// The approval rules: what they deny is refused, and what they allow is not asked about.
    pub rules: crate::policy::Policy,
    /// Commands that the configuration names itself.
    pub named: Vec<String>,
}

/// The windows of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TaskBounds {
    /// How long a consumer may hold a message that it was offered before it accepts it.
    pub offer_ms: u64,
    /// How long it may take from then until it acknowledges it.
    pub lease_ms: u64,
    /// How long a check may take, and how many bytes it may print.
    pub check_time_ms: u64,
    pub check_output: u64,
}

impl Default for TaskBounds {
    fn default() -> Self {
        TaskBounds {
            offer_ms: 30_000,
            lease_ms: 900_000,
            check_time_ms: 600_000,
            check_output: 16 << 20,
        }
    }
}
