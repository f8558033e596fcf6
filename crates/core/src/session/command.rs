//! Commands of a session: requests of users, and observations about its agent.

use serde::{Deserialize, Serialize};

use super::{
    attempt::ReportStatus,
    effect::EffectKey,
    hook::{HookEnd, HookKey},
    launch::{Cursor, ProcessExit, ProcessIdentity, StoppedBy, TurnEnd},
    pane::PaneState,
    spec::Assignment,
    state::{ContextUsage, Progress, Usage},
    watch::{RecordSignal, RecordSource, ScreenHint, ScreenSource, TypingState},
};
use crate::{
    ids::{LaunchId, RequestId, RunId},
    lifecycle::ClaimKind,
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    request::{AgentRequest, ReplyError, RequestReply},
    result::StructuredResult,
    shortage::Shortage,
    team,
    verdict::{Caveats, Receipt, Snapshot},
};

/// The kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    Branch,
    Pr,
    Artifact,
}

/// An observation on an agent's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamSignal {
    Ready {
        thread: Option<String>,
    },
    TurnStarted {
        turn: Option<String>,
    },
    TurnEnded {
        turn: Option<String>,
        end: TurnEnd,
        /// The tokens the turn used, if its end reports them.
        usage: Option<Usage>,
        /// The agent's last message in the turn.
        says: Option<String>,
    },
    /// The agent rejected its configuration.
    Refused {
        reason: String,
    },
    /// The agent runs, but connecting to its server failed.
    Unreachable {
        reason: String,
    },
    /// Whether the agent pursues a goal, and so begins its next turn by itself.
    Goal {
        active: bool,
    },
    /// The agent's program rejected the message written under this key.
    MessageRefused {
        key: String,
        reason: String,
        /// Whether another turn blocks it.
        busy: bool,
    },
    /// The agent works, but with reduced capabilities.
    Warned {
        text: String,
    },
    Reported(ReportBody),
    /// A claim together with a result in the requested form.
    ClaimWithResult {
        kind: ClaimKind,
        text: Option<String>,
        result: StructuredResult,
    },
    RequestOpened(AgentRequest),
    RequestWithdrawn {
        native: String,
    },
    /// The outcome of an action that the agent had asked approval for.
    ItemFinished {
        native: String,
        done: bool,
    },
    /// The agent called a tool by which a member acts on its team.
    ToolCalled {
        native: String,
        call: Box<team::MemberCall>,
    },
    Progress(Progress),
    Usage(Usage),
    /// The current context usage of the agent's model.
    Context(ContextUsage),
    /// The agent compacted its conversation.
    Compacted,
    /// The agent did not compact its conversation, though asked.
    CompactionFailed {
        reason: String,
    },
    Retrying {
        detail: String,
    },
    Oversized {
        bytes: u64,
    },
    /// The journal shows that this message reached the agent.
    InputWritten {
        key: String,
    },
    Closed,
}

/// The sender of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    Launch(LaunchId),
    /// An unknown process, through the launch's drop box.
    DropBox(LaunchId),
    Operator,
}

/// A statement about the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReportBody {
    Claim {
        kind: ClaimKind,
        text: Option<String>,
    },
    Fact {
        kind: FactKind,
        value: String,
    },
    /// Progress reported outside the stream.
    Progress(Progress),
}

impl ReportBody {
    /// Returns the size of its text in bytes.
    pub fn len(&self) -> usize {
        match self {
            ReportBody::Claim { text, .. } => text.as_deref().map_or(0, str::len),
            ReportBody::Fact { value, .. } => value.len(),
            ReportBody::Progress(_) => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How a text is delivered to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Steers the open attempt, or opens the next one if the last is sealed.
    Continue,
    /// Ends the open attempt as superseded and opens the next.
    Supersede,
    /// The same, in a new process with a new conversation.
    NewThread,
}

/// An outcome that an operator may set. `succeeded` is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManualOutcome {
    Accepted,
    Failed,
    Cancelled,
}

/// A request to a session, or an observation about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionCommand {
    WorkPrepared {
        cwd: String,
        base: Option<Snapshot>,
    },
    WorkFailed {
        reason: String,
    },
    WorkRemoved,
    /// The agent's stored conversation is about to be removed.
    ConversationRemoved,
    SetupFinished {
        attempt: u32,
        failure: Option<String>,
    },
    LaunchStarted {
        launch: LaunchId,
        holder: ProcessIdentity,
        child: ProcessIdentity,
    },
    /// An external agent was found, as far as that can be observed.
    LaunchAdopted {
        launch: LaunchId,
        child: Option<ProcessIdentity>,
    },
    LaunchFailed {
        launch: LaunchId,
        reason: String,
    },
    /// A newly started daemon follows a launch that ran before it.
    LaunchFollowed {
        launch: LaunchId,
    },
    Observed {
        launch: LaunchId,
        signal: StreamSignal,
        cursor: Cursor,
    },
    /// The agent's transcript or hook reports this, at this position.
    RecordRead {
        launch: LaunchId,
        by: RecordSource,
        place: u64,
        what: RecordSignal,
    },
    /// An inference from the agent's terminal; the place is a position in its journal.
    ScreenHinted {
        launch: LaunchId,
        by: ScreenSource,
        place: u64,
        what: ScreenHint,
    },
    /// The state of an external agent's pane.
    PaneSeen {
        launch: LaunchId,
        sight: PaneState,
    },
    /// A message is about to be typed into a pane, or was typed.
    TypingChanged {
        launch: LaunchId,
        key: String,
        way: TypingState,
    },
    OutputAtLimit {
        launch: LaunchId,
    },
    /// The disk of this directory is full.
    OutputDiskFull {
        launch: LaunchId,
        dir: String,
    },
    OutputResumed {
        launch: LaunchId,
    },
    OutputLost {
        launch: LaunchId,
        cursor: Cursor,
    },
    /// A record of an effect that Provost had not started was moved aside.
    RecordForged {
        effect: String,
        moved_to: String,
    },
    /// A report of a launch was rejected, because its budget is used up.
    ReportRefused {
        launch: LaunchId,
    },
    ProcessEnded {
        launch: LaunchId,
        end: ProcessExit,
        by: StoppedBy,
    },
    ProcessUnknown {
        launch: LaunchId,
        why: String,
    },
    ProcessSeen {
        launch: LaunchId,
    },
    ProcessSuspended {
        launch: LaunchId,
        suspended: bool,
    },
    /// The number of users at the agent's own screen.
    ViewersChanged {
        launch: LaunchId,
        people: u32,
    },
    ProcessUnobserved {
        launch: LaunchId,
        why: String,
    },
    ProcessTreeGone {
        launch: LaunchId,
        leftovers: u32,
        verified: bool,
    },
    /// `no` is the number of the requested snapshot, so that a late result is recognised.
    SnapshotTaken {
        attempt: u32,
        no: u32,
        snapshot: Snapshot,
        caveats: Caveats,
    },
    SnapshotFailed {
        attempt: u32,
        no: u32,
        reason: String,
    },
    CheckFinished {
        attempt: u32,
        receipt: Receipt,
    },
    HookFinished {
        key: HookKey,
        end: HookEnd,
    },
    /// An effect did not start, for lack of a resource. `tries` counts the earlier tries that met a
    /// shortage, so that a late result is recognised.
    EffectShortage {
        effect: EffectKey,
        tries: u32,
        shortage: Shortage,
    },
    MessageLost {
        key: String,
        reason: String,
    },
    /// The silence window ran out; `heard_ms` is when something was heard last.
    Silence {
        launch: LaunchId,
        heard_ms: u64,
    },
    /// Time passed.
    Tick,

    Report {
        from: Reporter,
        testimony: ReportBody,
    },
    /// Resumes a finished conversation for another task of its run.
    Assign {
        key: String,
        text: String,
        assignment: Assignment,
    },
    Send {
        key: String,
        text: String,
        mode: SendMode,
    },
    Answer {
        request: RequestId,
        revision: u32,
        reply: RequestReply,
    },
    /// The agent called a tool outside its stream.
    ToolCalled {
        launch: LaunchId,
        native: String,
        call: Box<team::MemberCall>,
    },
    /// The result of a tool call.
    AnswerCall {
        no: u32,
        ok: bool,
        text: String,
    },
    /// Interrupts the agent's turn, and optionally sends this text next.
    Interrupt {
        key: String,
        text: Option<String>,
    },
    /// Compacts the agent's conversation.
    Compact {
        key: String,
    },
    Stop,
    /// The team that the session was opened for has ended.
    Dismiss {
        because: String,
        /// Whether an open turn is interrupted.
        at_once: bool,
    },
    Cancel {
        because: String,
    },
    Resolve {
        to: ManualOutcome,
        because: String,
    },
    Rename {
        name: String,
    },
    /// Lets a session that was imported from another home continue here.
    TakeOver,
    RaiseLimit {
        bytes: u64,
    },
    RaiseBudget {
        tokens: Option<u64>,
        turns: Option<u32>,
    },
}

/// The exhausted part of a session's budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExhaustedBudget {
    pub detail: String,
    /// The flags of `provost limit` that raise it.
    pub raise_flags: &'static str,
}

/// The reason a command was rejected. Late and repeated observations are normal, not failures.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRejection {
    /// It was observed before, or no longer matters.
    #[error("nothing new")]
    NothingNew,
    #[error("the session is still working; it can take another task when it has ended")]
    AtWork,
    #[error("launch {0} does not belong to this session")]
    UnknownLaunch(LaunchId),
    #[error("request {0} does not belong to this session")]
    UnknownRequest(RequestId),
    #[error("request {0} is no longer open: {1}")]
    RequestSettled(RequestId, &'static str),
    #[error("request {id} is at revision {now}; the answer was for revision {given}")]
    RequestRevision { id: RequestId, now: u32, given: u32 },
    #[error(
        "request {0} cannot be answered while the session is being stopped; try again in a moment"
    )]
    BeingStopped(RequestId),
    #[error("request {0} can be answered only on the agent's own screen")]
    ScreenOnly(RequestId),
    #[error("the answer does not fit request {0}: {1}")]
    InvalidReply(RequestId, ReplyError),
    #[error("the session has ended as {0}")]
    Sealed(&'static str),
    #[error("the session was cancelled")]
    Cancelled,
    #[error(
        "the session was imported from another home, and nothing of it runs here until it is taken over; taking it over lets this command run again: {0}"
    )]
    Imported(String),
    #[error("its worktree was removed{}", branch_hint(.0))]
    WorktreeRemoved(Option<String>),
    #[error("no process of this session is running")]
    NotRunning,
    #[error("it was not started by Provost: stop it where it runs")]
    StopExternally,
    #[error("it was not started by Provost: do that where it runs")]
    ExternalAgent,
    #[error("the session is being stopped")]
    Stopping,
    #[error("the session is being stopped; send it again in a moment, when it has ended")]
    StoppedFirst,
    #[error("no turn is open")]
    NoTurn,
    #[error("{0} has no turns to interrupt")]
    HasNoTurns(String),
    #[error("{0} has no conversation to compact")]
    CannotCompact(String),
    #[error("{0} cannot begin another conversation")]
    CannotStartThread(String),
    #[error("it was not started by Provost, and there is no channel to send it anything")]
    NoChannel,
    #[error(
        "it was not started by Provost and has no readable transcript, so nothing is typed there: send it where it runs"
    )]
    NoTranscript,
    #[error(
        "it was not started by Provost and has ended: start it again where it ran, and adopt it again"
    )]
    ExternalAgentEnded,
    #[error(
        "request {0} is no longer open: it was answered, but the answer was not delivered: {1}"
    )]
    AnswerLost(RequestId, String),
    #[error(
        "Codex's screen runs text that begins with `!` as a shell command of yours: begin it with a word, as in `Run this: !…`"
    )]
    RunsAsShellCommand,
    #[error(
        "the text cannot be typed into a terminal: it is empty, or has only control characters"
    )]
    NothingToType,
    #[error("nothing was typed: {0}")]
    NothingTyped(&'static str),
    #[error("the session belongs to run {}, which no longer needs it", .0.short())]
    BelongsToRun(RunId),
    #[error("it can no longer be resumed: its conversation was removed by gc")]
    ConversationGone,
    #[error("{0} is a plain command and takes no further instructions")]
    TakesNoInstruction(String),
    #[error(
        "{0} was started with --once and takes no input while it works: send it when it has ended"
    )]
    OneShotBusy(String),
    #[error("{0} was started with --once and reported no conversation to resume")]
    OneShotWithoutConversation(String),
    #[error("{0} messages are already queued for the agent; wait until it takes some")]
    QueueFull(usize),
    #[error("the limit is already {now} bytes; give a higher one")]
    LimitNotRaised { now: u64 },
    #[error("the budget is already {0}; give a higher one")]
    BudgetNotRaised(String),
    #[error(
        "launch {launch} has used up its report budget: at most {MAX_REPORTS} reports and {} MiB for each launch",
        MAX_REPORT_BYTES >> 20
    )]
    ReportBudget { launch: LaunchId },
    #[error("the session's budget is used up: {}", .0.detail)]
    BudgetUsedUp(ExhaustedBudget),
}

fn branch_hint(branch: &Option<String>) -> String {
    branch
        .as_ref()
        .map(|branch| format!("; its work is on the branch {branch}"))
        .unwrap_or_default()
}

/// Returns the status of a recorded report, for its sender.
#[expect(clippy::wildcard_enum_match_arm, reason = "only reports have a standing")]
pub fn report_status_of(events: &[super::Event]) -> Option<ReportStatus> {
    events.iter().find_map(|event| match event {
        super::Event::ClaimMade(claim) => Some(claim.status),
        super::Event::FactReported(fact) => Some(fact.status),
        super::Event::ProgressReported(_) => Some(ReportStatus::Applied),
        _ => None,
    })
}
