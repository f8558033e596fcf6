//! Commands to a session: requests from users, and observations about its agent.

use serde::{Deserialize, Serialize};

use super::{
    attempt::ReportStatus,
    hook::{HookEnd, HookKey},
    input::{PaneState, RecordSignal, RecordSource, ScreenHint, ScreenSource, TypingState},
    launch::{Cursor, ProcessExit, ProcessIdentity, StoppedBy, TurnEnd},
    spec::Assignment,
    state::{ContextUsage, Progress, Usage},
};
use crate::{
    aggregate::EffectKey,
    ids::{LaunchId, RequestId, RunId},
    lifecycle::ClaimKind,
    limits::{MAX_REPORT_BYTES, MAX_REPORTS},
    request::{AgentRequest, ReplyError, RequestReply},
    result::StructuredResult,
    shortage::Shortage,
    team,
    verdict::{Caveats, Receipt, Snapshot},
};

/// The kind of fact that a report contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    Branch,
    Pr,
    Artifact,
}

/// Something observed on an agent's stream.
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
        /// The tokens that the turn used, if the agent reports them when the turn ends.
        usage: Option<Usage>,
        /// The agent's last message in the turn.
        says: Option<String>,
    },
    /// The agent rejected its configuration.
    Refused {
        reason: String,
    },
    /// The agent is running, but connecting to its server failed.
    Unreachable {
        reason: String,
    },
    /// Whether the agent is pursuing a goal. If so, it starts its next turn on its own.
    Goal {
        active: bool,
    },
    /// The agent's program rejected the message that was written under this key.
    MessageRefused {
        key: String,
        reason: String,
        /// Whether the message was rejected because another turn is open.
        busy: bool,
    },
    /// The agent is working, but with reduced capabilities.
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
    /// The outcome of an action for which the agent had requested approval.
    ItemFinished {
        native: String,
        done: bool,
    },
    /// The agent called a tool with which a member acts on its team.
    ToolCalled {
        native: String,
        call: Box<team::MemberCall>,
    },
    Progress(Progress),
    Usage(Usage),
    /// The part of the model's context that is currently in use.
    Context(ContextUsage),
    /// The agent compacted its conversation.
    Compacted,
    /// The agent was asked to compact its conversation, but did not.
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
    /// An unknown process, via the launch's drop box.
    DropBox(LaunchId),
    Operator,
}

/// The contents of a report.
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
    /// Progress that was not reported on the stream.
    Progress(Progress),
}

impl ReportBody {
    /// Returns the size of the report's text in bytes.
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

/// The effect of a sent text on the open attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendMode {
    /// Steers the open attempt, or opens the next one if the last attempt is sealed.
    Continue,
    /// Ends the open attempt as superseded and opens the next one.
    Supersede,
    /// Like `Supersede`, but starts a new process with a new conversation.
    NewThread,
}

/// An outcome that an operator may set by hand. `succeeded` is not among them.
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
    /// The agent's stored conversation is about to be deleted.
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
    /// An external agent was found, though its process may be unknown.
    LaunchAdopted {
        launch: LaunchId,
        child: Option<ProcessIdentity>,
    },
    LaunchFailed {
        launch: LaunchId,
        reason: String,
    },
    /// A newly started daemon began to follow a launch that was already running.
    LaunchFollowed {
        launch: LaunchId,
    },
    Observed {
        launch: LaunchId,
        signal: StreamSignal,
        cursor: Cursor,
    },
    /// The agent's transcript or hook reported this signal, at this position.
    RecordRead {
        launch: LaunchId,
        by: RecordSource,
        place: u64,
        what: RecordSignal,
    },
    /// A signal was inferred from the agent's terminal. `place` is a position in the terminal's journal.
    ScreenHinted {
        launch: LaunchId,
        by: ScreenSource,
        place: u64,
        what: ScreenHint,
    },
    /// The observed state of an external agent's pane.
    PaneSeen {
        launch: LaunchId,
        sight: PaneState,
    },
    /// A message is about to be typed into a pane, or has been typed.
    TypingChanged {
        launch: LaunchId,
        key: String,
        state: TypingState,
    },
    OutputAtLimit {
        launch: LaunchId,
    },
    /// The disk that contains this directory is full.
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
    /// Provost found a record of an effect that it never started, and moved the record aside.
    RecordForged {
        effect: String,
        moved_to: String,
    },
    /// A report from this launch was rejected because the launch has used up its report budget.
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
    /// The number of users at the agent's own screen changed.
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
    /// `no` is the number of the requested snapshot, so that late results can be recognized.
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
    /// An effect could not start because of a resource shortage. `tries` is the number of earlier
    /// attempts that failed for this reason, so that late results can be recognized.
    EffectShortage {
        effect: EffectKey,
        tries: u32,
        shortage: Shortage,
    },
    MessageLost {
        key: String,
        reason: String,
    },
    /// The silence window has expired. `heard_ms` is the time of the last output.
    Silence {
        launch: LaunchId,
        heard_ms: u64,
    },
    /// Some time has passed.
    Tick,

    Report {
        from: Reporter,
        testimony: ReportBody,
    },
    /// Resumes a finished conversation to work on another task of its run.
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
    /// The agent called a tool by means other than its stream.
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
    /// The agent sent a command to its team by means other than a tool.
    CountTeamCommand {
        launch: LaunchId,
        bytes: u64,
    },
    /// Interrupts the agent's turn. If a text is given, it is sent next.
    Interrupt {
        key: String,
        text: Option<String>,
    },
    /// Compacts the agent's conversation.
    Compact {
        key: String,
    },
    Stop,
    /// The team for which the session was opened has finished.
    Dismiss {
        because: String,
        /// Whether the team gave up the work. If so, the attempt is cancelled, even during an open
        /// turn.
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
    /// Allows a session that was imported from another home to continue here.
    TakeOver,
    RaiseLimit {
        bytes: u64,
    },
    RaiseBudget {
        tokens: Option<u64>,
        turns: Option<u32>,
    },
}

/// The part of a session's budget that is exhausted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExhaustedBudget {
    pub detail: String,
    pub over_tokens: bool,
    pub over_turns: bool,
}

/// The reason why a command was rejected. Late and repeated observations are normal and do not
/// indicate a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRejection {
    /// The observation was already recorded, or no longer matters.
    #[error("nothing new")]
    NothingNew,
    #[error("the session is still working; it can take another task once it has finished")]
    AtWork,
    #[error("launch {0} does not belong to this session")]
    UnknownLaunch(LaunchId),
    #[error("session {} has no request q{}", .0.session.short(), .0.no)]
    UnknownRequest(RequestId),
    #[error("request {0} is no longer open: {1}")]
    RequestSettled(RequestId, String),
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
    #[error("the session has ended as {}", .0.replace('_', " "))]
    Sealed(&'static str),
    #[error("nothing to cancel: {name} {}", describe_end(.state))]
    NothingToCancel { name: String, state: &'static str },
    #[error("the session was cancelled")]
    Cancelled,
    #[error(
        "the session was imported from another home and does not run here until you take it over; this command might then run again: {0}"
    )]
    Imported(String),
    #[error("the session's worktree was removed{}", branch_hint(.0))]
    WorktreeRemoved(Option<String>),
    #[error("no process of this session is running")]
    NotRunning,
    #[error("Provost did not start this agent: stop it where it runs")]
    StopExternally,
    #[error("Provost did not start this agent: control it where it runs")]
    ExternalAgent,
    #[error("the session is being stopped")]
    Stopping,
    #[error(
        "the session is being stopped; send the message again in a moment, once it has stopped"
    )]
    StoppedFirst,
    #[error("no turn is open")]
    NoTurn,
    #[error("{0} has no turns to interrupt")]
    HasNoTurns(String),
    #[error("{0} has no conversation to compact")]
    CannotCompact(String),
    #[error("{0} cannot begin another conversation")]
    CannotStartThread(String),
    #[error("Provost did not start this agent and has no channel to send it messages")]
    NoChannel,
    #[error(
        "Provost did not start this agent and cannot read its transcript, so Provost types no messages into its pane: send the message where the agent runs"
    )]
    NoTranscript,
    #[error(
        "Provost did not start this agent, and it has ended: start it again where it ran, then adopt it again"
    )]
    ExternalAgentEnded,
    #[error(
        "request {0} is no longer open: it was answered, but the answer was not delivered: {1}"
    )]
    AnswerLost(RequestId, String),
    #[error(
        "the agent's screen would run text that begins with `{0}` as a shell command with your permissions: begin it with a word, as in `Run this: {0}…`"
    )]
    RunsAsShellCommand(char),
    #[error(
        "the text cannot be typed into a terminal: it is empty, or has only control characters"
    )]
    NothingToType,
    #[error("nothing was typed: {0}")]
    NothingTyped(&'static str),
    #[error("the session belongs to run {}, which no longer needs it", .0.short())]
    BelongsToRun(RunId),
    #[error("the session cannot be resumed: gc removed its conversation")]
    ConversationGone,
    #[error("the session runs a plain command ({0}), which takes no further instructions")]
    TakesNoInstruction(String),
    #[error(
        "{0} was started with --once and accepts no input while it is working: send the message once it has finished"
    )]
    OneShotBusy(String),
    #[error("{0} was started with --once and reported no conversation to resume")]
    OneShotWithoutConversation(String),
    #[error("{0} messages are already queued for the agent: wait until it has read some of them")]
    QueueFull(usize),
    #[error("the limit is already {now} bytes: set a higher one")]
    LimitNotRaised { now: u64 },
    #[error("the budget is already {0}: set a higher one")]
    BudgetNotRaised(String),
    #[error(
        "launch {launch} has used up its report budget: at most {MAX_REPORTS} reports and {} MiB for each launch",
        MAX_REPORT_BYTES >> 20
    )]
    ReportBudget { launch: LaunchId },
    #[error("the session's budget is used up: {}", .0.detail)]
    BudgetUsedUp(ExhaustedBudget),
}

/// Describes an outcome as the end of a sentence.
fn describe_end(state: &str) -> String {
    match state {
        "succeeded" | "completed" | "failed" => format!("has {state}"),
        "exited_without_claim" => "has exited without a claim".to_owned(),
        state => format!("was {state}"),
    }
}

fn branch_hint(branch: &Option<String>) -> String {
    branch
        .as_ref()
        .map(|branch| format!("; its work is on the branch {branch}"))
        .unwrap_or_default()
}

/// Returns the status of a recorded report, for the reply to its sender.
#[expect(clippy::wildcard_enum_match_arm, reason = "only reports have a status")]
pub fn report_status_of(events: &[super::Event]) -> Option<ReportStatus> {
    events.iter().find_map(|event| match event {
        super::Event::Report(super::ReportEvent::ClaimMade(claim)) => Some(claim.status),
        super::Event::Report(super::ReportEvent::FactReported(fact)) => Some(fact.status),
        super::Event::Report(super::ReportEvent::ProgressReported(_)) => {
            Some(ReportStatus::Applied)
        }
        _ => None,
    })
}
