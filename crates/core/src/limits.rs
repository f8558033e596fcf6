//! All limits and time windows of a session and their defaults, in one table.

use serde::{Deserialize, Serialize};

/// The maximum number of open requests in one session. Any further requests appear only in the output.
pub const MAX_OPEN_REQUESTS: usize = 100;

/// The maximum number of messages queued for one agent.
pub const MAX_QUEUED: usize = 100;

/// The maximum number of bytes to keep of an agent's last message in a turn. The journal has the
/// full output.
pub const MAX_SAYS: usize = 4 << 10;

/// The maximum number of distinct warnings to keep per agent.
pub const MAX_WARNINGS: usize = 20;

/// The maximum number of omitted paths to list for a snapshot.
pub const MAX_LEFT_OUT: usize = 20;

/// The maximum number of finished hooks to keep in memory. The session's events contain all hooks.
pub const MAX_HOOKS_KEPT: usize = 50;

/// The settle window for a good outcome of a session in a run, unless the session's own window is
/// shorter. It can be short because the run verifies the facts itself: it uses only committed work,
/// and compares the tree again after the checks. Other outcomes keep their full window, because a
/// late report can still change them.
pub const RUN_SETTLE_MS: u64 = 50;

/// The maximum number of reports recorded for one launch.
pub const MAX_REPORTS: u32 = 10_000;

/// The maximum total size of the reports recorded for one launch, in bytes.
pub const MAX_REPORT_BYTES: u64 = 8 << 20;

/// The maximum number of facts to keep in memory. Older facts are dropped, but the session's events
/// contain all of them.
pub const MAX_FACTS_KEPT: usize = 100;

/// The maximum number of late claims per attempt to keep in memory. Older claims are dropped, but
/// the session's events contain all of them.
pub const MAX_LATE_CLAIMS_KEPT: usize = 50;

/// The maximum number of bytes of a fact or late claim to keep in memory. Its event has the full text.
pub const MAX_TEXT_KEPT: usize = 4 << 10;

/// The time to wait for a turn that the agent is about to start on its own.
pub const OWN_TURN_MS: u64 = 30_000;

/// The maximum number of times in a row that a message is sent if the agent's program keeps
/// rejecting it.
pub const MAX_REFUSALS: u32 = 5;

/// The maximum number of times per attempt that a launch is repeated if it failed before the agent
/// responded.
pub const MAX_RELAUNCHES: u32 = 1;

/// The maximum number of attempts in a row that may fail before the agent begins a turn. Once this
/// limit is reached, messages that Provost itself sends in a team no longer start an attempt.
/// Otherwise, two sessions that manage each other would report their failed starts to each other
/// forever.
pub const MAX_FAILED_STARTS: usize = 3;

/// The timeouts and limits that were set when the session was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// The settle window: how long a terminal state must last before it is sealed.
    pub settle_ms: u64,
    /// The time to wait for remaining output after the process is known to have exited.
    pub drain_ms: u64,
    /// The maximum time that a process may keep running after it closed its stream.
    pub stream_settle_ms: u64,
    /// The time without output after which a session with an open turn is shown as stalled.
    pub stale_ms: u64,
    /// The time to wait between an interrupt and TERM, and between TERM and KILL.
    pub stop_grace_ms: u64,
    /// The time to wait after KILL for the process tree to exit, before reporting that its exit
    /// could not be verified.
    pub kill_grace_ms: u64,
    /// The maximum time that an attempt may take, not counting the time it waits for users. None
    /// means no limit.
    pub time_limit_ms: Option<u64>,
    /// The time for which an approval request may stay open before it is denied. None means no
    /// limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_ms: Option<u64>,
    /// The maximum number of times that refuted work is returned to a running agent.
    pub rework: u32,
    /// The maximum number of times to resume the conversation of an agent that crashed while it was
    /// working.
    pub resumes: u32,
    /// The maximum number of times that an attempt waits for the account's usage limit to pass.
    pub limit_waits: u32,
    /// The time to wait at a usage limit if the agent does not report when the limit resets.
    pub limit_wait_ms: u64,
    /// The jitter added to waits at a usage limit, so that sessions do not all resume at once.
    pub limit_jitter_ms: u64,
    /// The interval at which sessions of one account resume after a usage limit. Also the minimum wait.
    pub limit_spacing_ms: u64,
    /// The maximum time that an agent may take to report its conversation id.
    pub handshake_ms: u64,
    /// The time to wait for typed terminal input to appear in the agent's transcript.
    pub confirm_ms: u64,
    /// The time after which typed input is discarded if it stays unconfirmed and no turn is open.
    pub unconfirmed_ms: u64,
    /// The maximum number of times to take a new snapshot if the tree changes during verification.
    pub snapshots: u32,
    /// The time limit of one check.
    pub check_time_ms: u64,
    /// The maximum number of bytes that one check may print.
    pub check_output: u64,
    /// The maximum number of bytes of output to keep per launch. Beyond this limit, the agent's
    /// writes block.
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
