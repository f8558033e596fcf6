//! The parameters with which a team is opened.

use serde::{Deserialize, Serialize};

use super::{manager::ManagerConfig, policy::ManagingPolicy};

/// Maximum length of a goal, in bytes.
pub const MAX_GOAL: usize = 64 << 10;

/// The specification of a team, as requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamSpec {
    /// The name, which is unique among open teams.
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
    /// The rules that manage the team if it has no managing agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ManagingPolicy>,
    #[serde(default)]
    pub bounds: TeamLimits,
}

/// The commands written by members that need no further consent, as configured by the user when the
/// team is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsentTerms {
    /// The approval rules: a denied command is refused, and an allowed one needs no approval.
    pub rules: crate::policy::Policy,
    /// Commands that the configuration itself specifies.
    pub named: Vec<String>,
}

/// The time and output limits of a team.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TeamLimits {
    /// The time in which a consumer must accept a message that it was offered.
    pub offer_ms: u64,
    /// The time in which a consumer must acknowledge a message that it accepted.
    pub lease_ms: u64,
    /// The time limit for a check.
    pub check_time_ms: u64,
    /// Maximum number of bytes that a check may print.
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
