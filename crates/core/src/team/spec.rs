//! The parameters that a team is opened with.

use serde::{Deserialize, Serialize};

use super::{manager::ManagerConfig, policy::ManagingPolicy};

/// Longest goal, in bytes.
pub const MAX_GOAL: usize = 64 << 10;

/// The specification of a team, as requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamSpec {
    /// Unique among open teams.
    pub name: String,
    pub goal: String,
    #[serde(default)]
    pub summary: Option<String>,
    pub project: Option<String>,
    pub cwd: String,
    /// Commands that must pass on the final tree.
    #[serde(default)]
    pub checks: Vec<String>,
    #[serde(default)]
    pub consent: ConsentTerms,
    #[serde(default)]
    pub config: ManagerConfig,
    /// The rules that manage the team if no agent does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ManagingPolicy>,
    #[serde(default)]
    pub bounds: TeamLimits,
}

/// Which member-written commands need no further consent. Taken from the user's configuration when
/// the team is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsentTerms {
    /// The approval rules: a denied command is refused, an allowed one needs no approval.
    pub rules: crate::policy::Policy,
    /// Commands that the configuration itself names.
    pub named: Vec<String>,
}

/// The time and output limits of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TeamLimits {
    /// Time a consumer may hold an offered message before accepting it.
    pub offer_ms: u64,
    /// Time from acceptance until the message must be acknowledged.
    pub lease_ms: u64,
    /// Time limit of a check, and the number of bytes it may print.
    pub check_time_ms: u64,
    pub check_output: u64,
}

impl Default for TeamLimits {
    fn default() -> Self {
        TeamLimits {
            offer_ms: 30_000,
            lease_ms: 900_000,
            check_time_ms: 600_000,
            check_output: 16 << 20,
        }
    }
}
