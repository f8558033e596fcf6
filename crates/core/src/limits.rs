//! Every bound and window of a session, with its default, in one table.

use serde::{Deserialize, Serialize};

/// How many requests of one session may be open; what an agent asks beyond that is output and nothing more.
pub const MAX_OPEN_REQUESTS: usize = 100;

/// How many messages may wait for one agent.
pub const MAX_QUEUED: usize = 100;

/// How many bytes are kept of what an agent says at the end of a turn: its whole output is in the journal.
pub const MAX_SAYS: usize = 4 << 10;

/// How many different warnings of an agent are kept.
pub const MAX_WARNINGS: usize = 20;

/// How many things are named that a snapshot leaves out.
pub const MAX_LEFT_OUT: usize = 20;

/// How many hooks that have ended a session remembers; all of them are in its events.
pub const MAX_HOOKS_KEPT: usize = 50;

/// How long a good end of a run's session has to stand, if its window is not shorter still. A run asks for the facts itself:
/// it takes only what is committed, and what was checked is looked at again after the checks. Other ends keep
/// their window, for a late word may still turn them.
pub const RUN_SETTLE_MS: u64 = 50;

/// How many reports of one launch are recorded.
pub const MAX_REPORTS: u32 = 10_000;

/// How many bytes of reports of one launch are recorded.
pub const MAX_REPORT_BYTES: u64 = 8 << 20;

/// How many facts of a session are kept in memory, the newest; all of them are in its events.
pub const MAX_FACTS_KEPT: usize = 100;

/// How many late claims of an attempt are kept in memory, the newest; all of them are in its events.
pub const MAX_LATE_CLAIMS_KEPT: usize = 50;

/// How many bytes of a fact or a late claim are kept in memory; the whole text is in its event.
pub const MAX_TEXT_KEPT: usize = 4 << 10;

/// How long a turn is waited for that the agent is about to begin by itself.
pub const OWN_TURN_MS: u64 = 30_000;

/// How many times in a row a message is sent that the agent's program refuses.
pub const MAX_REFUSALS: u32 = 5;

/// How many times in an attempt a launch is repeated that failed before the agent answered.
pub const MAX_RELAUNCHES: u32 = 1;

/// The windows and bounds that a session was opened with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Bounds {
    /// How long a terminal state must stand before it is sealed.
    pub settle_ms: u64,
    /// How long the output of a process known to have ended is waited for.
    pub drain_ms: u64,
    /// How long a process may live on after it closed its stream.
    pub stream_settle_ms: u64,
    /// How long a turn may be silent before the session is shown as stalled.
    pub stale_ms: u64,
    /// How long an interrupted agent has before it is sent TERM, and TERM before KILL.
    pub stop_grace_ms: u64,
    /// How long after KILL the tree is waited for before it is reported as not verified gone.
    pub kill_grace_ms: u64,
    /// How long an attempt may take, waiting for people not counted; none means no limit.
    pub time_limit_ms: Option<u64>,
    /// How long an approval may be open before it is denied; none means that it waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_ms: Option<u64>,
    /// How many times refuted work goes back to a living agent.
    pub rework: u32,
    /// How many times the conversation of an agent that died at work is gone on with.
    pub resumes: u32,
    /// How many times an attempt waits for the account's limit to be lifted.
    pub limit_waits: u32,
    /// How long to wait for that if the agent does not say until when.
    pub limit_wait_ms: u64,
    /// Over how much time such waits are spread, so that not all sessions go on at once.
    pub limit_jitter_ms: u64,
    /// How far apart the sessions of one account go on after such a wait, and how long one is at least.
    pub limit_spacing_ms: u64,
    /// How long an agent may take until it names its conversation.
    pub handshake_ms: u64,
    /// How long the agent's own record may take to show what was typed into its terminal.
    pub proof_ms: u64,
    /// How long what was typed may go without that while no turn is open, before it is given up.
    pub unproved_ms: u64,
    /// How many times a tree that moved during verification is taken again.
    pub snapshots: u32,
    /// How long one check may take.
    pub check_time_ms: u64,
    /// How many bytes one check may print.
    pub check_output: u64,
    /// How many bytes of a launch's output are kept before the agent is made to wait.
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
            proof_ms: 3_000,
            unproved_ms: 30_000,
            snapshots: 3,
            check_time_ms: 30 * 60 * 1_000,
            check_output: 64 << 20,
            output_limit: 1 << 30,
        }
    }
}
