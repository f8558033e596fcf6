//! Every bound and window of a session, with its default, in one table.

use serde::{Deserialize, Serialize};

/// The maximum number of open requests in one session. Further requests are kept as output only.
pub const MAX_OPEN_REQUESTS: usize = 100;

/// The maximum number of messages queued for one agent.
pub const MAX_QUEUED: usize = 100;

/// The maximum bytes kept of an agent's last message in a turn. The journal has its whole output.
pub const MAX_SAYS: usize = 4 << 10;

/// The maximum number of different warnings kept for an agent.
pub const MAX_WARNINGS: usize = 20;

/// The maximum number of paths listed that a snapshot leaves out.
pub const MAX_LEFT_OUT: usize = 20;

/// The maximum number of finished hooks kept in memory. The session's events have all of them.
pub const MAX_HOOKS_KEPT: usize = 50;

/// The settle window for a good outcome of a run's session, unless the session's own window is shorter.
/// A run verifies the facts itself: it takes only committed work, and compares the tree again after the
/// checks. Other outcomes keep their full window, because a late report can still change them.
pub const RUN_SETTLE_MS: u64 = 50;

/// The maximum number of reports recorded for one launch.
pub const MAX_REPORTS: u32 = 10_000;

/// The maximum bytes of reports recorded for one launch.
pub const MAX_REPORT_BYTES: u64 = 8 << 20;

/// The maximum number of facts kept in memory; older ones are dropped. The session's events have all of
/// them.
pub const MAX_FACTS_KEPT: usize = 100;

/// The maximum number of late claims of an attempt kept in memory; older ones are dropped. The session's
/// events have all of them.
pub const MAX_LATE_CLAIMS_KEPT: usize = 50;

/// The maximum bytes of a fact or late claim kept in memory. Its event has the whole text.
pub const MAX_TEXT_KEPT: usize = 4 << 10;

/// How long to wait for a turn that the agent is about to begin by itself.
pub const OWN_TURN_MS: u64 = 30_000;

/// How many times in a row a message is sent that the agent's program rejects.
pub const MAX_REFUSALS: u32 = 5;

/// How many times per attempt a launch is repeated that failed before the agent responded.
pub const MAX_RELAUNCHES: u32 = 1;

/// How many attempts in a row may end before their agent begins a turn. After that, Provost's own
/// messages in a team start no further attempt. Two sessions that manage each other would otherwise report their
/// failed starts to each other forever.
pub const MAX_FAILED_STARTS: usize = 3;

/// The timeouts and limits that a session was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// The settle window: how long a terminal state must last before it is sealed.
    pub settle_ms: u64,
    /// How long to wait for remaining output after the process is known to have ended.
    pub drain_ms: u64,
    /// How long a process may keep running after it closed its stream.
    pub stream_settle_ms: u64,
    /// How long a turn may be silent before the session is shown as stalled.
    pub stale_ms: u64,
    /// How long an interrupted agent has before TERM is sent, and a terminated one before KILL.
    pub stop_grace_ms: u64,
    /// How long to wait for the process tree after KILL before it is reported as not verified gone.
    pub kill_grace_ms: u64,
    /// How long an attempt may take, not counting time spent waiting for users. None means no limit.
    pub time_limit_ms: Option<u64>,
    /// How long an approval may stay open before it is denied. None means that it waits indefinitely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_ms: Option<u64>,
    /// How many times refuted work is sent back to a running agent.
    pub rework: u32,
    /// How many times the conversation of an agent that crashed at work is resumed.
    pub resumes: u32,
    /// How many times an attempt waits for the account's usage limit to pass.
    pub limit_waits: u32,
    /// How long to wait at a usage limit if the agent does not report when it passes.
    pub limit_wait_ms: u64,
    /// The jitter added to such waits, so that sessions do not all resume at once.
    pub limit_jitter_ms: u64,
    /// The interval at which sessions of one account resume after such a wait, and the minimum wait.
    pub limit_spacing_ms: u64,
    /// How long an agent may take to report its conversation id.
    pub handshake_ms: u64,
    /// How long the agent's transcript may take to show what was typed into its terminal.
    pub confirm_ms: u64,
    /// How long typed input may stay unconfirmed while no turn is open, before it is discarded.
    pub unconfirmed_ms: u64,
    /// How many new snapshots are taken of a tree that changes during verification.
    pub snapshots: u32,
    /// The time limit of one check.
    pub check_time_ms: u64,
    /// The maximum bytes one check may print.
    pub check_output: u64,
    /// The maximum bytes of a launch's output that are kept. Beyond that the agent is made to wait.
    pub output_limit: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            settle_ms: 2_000,
            drain_ms: 2_000,
            stream_settle_ms: 10_000,
            stale_ms: 300_000,
            stop_grace_ms: 10_000,
            kill_grace_ms: 10_000,
            time_limit_ms: None,
            approval_ms: None,
            rework: 3,
            resumes: 2,
            limit_waits: 10,
            limit_wait_ms: 15 * 60 * 1_000,
            limit_jitter_ms: 30_000,
            limit_spacing_ms: 10_000,
            handshake_ms: 60_000,
            confirm_ms: 3_000,
            unconfirmed_ms: 30_000,
            snapshots: 3,
            check_time_ms: 30 * 60 * 1_000,
            check_output: 64 << 20,
            output_limit: 1 << 30,
        }
    }
}
