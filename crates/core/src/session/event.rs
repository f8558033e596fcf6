//! The events of a session's stream. The stream is append-only, kinds are never renamed, and the
//! meaning of a field never changes.
//!
//! Each kind has a version. [`Event::decode`] fails if this program does not know the event, and
//! the ledger is then opened read-only.

use serde::{Deserialize, Serialize};

use super::{
    attempt::{ClaimSource, ReportStatus, SealedOutcome},
    command::FactKind,
    hook::{HookEnd, HookKey},
    input::{PaneState, RecordSource, ScreenSource, SignalKind, TypingState},
    launch::{
        Cursor, LaunchReason, ProcessExit, ProcessIdentity, StopReason, StopStep, StoppedBy,
        TurnEnd,
    },
    spec::{Assignment, SessionSpec},
    state::{AgentMessageKind, ContextUsage, Progress, Usage},
};
use crate::{
    ids::{LaunchId, RequestId},
    lifecycle::{Cause, ClaimKind, State, StopCause},
    request::{AgentRequest, RequestReply, RequestStatus},
    result::StructuredResult,
    shortage::Shortage,
    verdict::{Caveats, Receipt, Snapshot},
};

events! {
    /// A change to the session itself.
    Session(SessionChange) {
        SessionOpened = "session.opened", 1 { spec: Box<SessionSpec> }
        SessionRenamed = "session.renamed", 1 { name: String }
        /// The operator allowed a session that was imported from another home to continue here.
        SessionTakenOver = "session.taken_over", 1 {}
        /// The team for which the session was opened has finished. The process is stopped immediately
        /// or after its turn.
        SessionDismissed = "session.dismissed", 1 { because: String, at_once: bool }
        /// Another agent takes over the work in a new conversation.
        AgentReplaced = "agent.replaced", 1 { from: String, to: String }
        /// A reaction was triggered. Once this event is durable, the reaction's action is carried out.
        ReactionDone = "reaction.done", 1 { reaction: String, occasion: u32 }
        HookFinished = "hook.finished", 1 { key: HookKey, end: HookEnd }
    }
    /// An event about an attempt: its work, its claim or its outcome.
    Attempt(AttemptEvent) {
        AttemptOpened = "attempt.opened", 1 { no: u32, instruction: Option<String> }
        /// The next attempt is for another task of the run, or for the same task starting from another commit.
        TaskAssigned = "session.task_assigned", 1 { assignment: Assignment }
        ResultRequested = "result.requested", 1 { key: String }
        /// Refuted work was returned to the agent, so the agent's claim no longer counts.
        ReworkSent = "rework.sent", 1 { key: String, text: String }
        AttemptCancelled = "attempt.cancelled", 1 { because: String }
        AttemptSuperseded = "attempt.superseded", 1 {}
        /// Provost itself ended the attempt.
        AttemptStopped = "attempt.stopped", 1 { cause: StopCause, detail: String }
        AttemptResolved = "attempt.resolved", 1 { state: State, cause: Option<Cause>, because: String }
        AttemptSealed = "attempt.sealed", 1 { attempt: u32, sealed: SealedOutcome }
    }
    /// An event about the worktree and its setup.
    Worktree(WorktreeEvent) {
        /// The worktree is ready. `base` is the commit that the work starts from, if the work can be checked.
        WorkPrepared = "work.prepared", 1 { cwd: String, base: Option<Snapshot> }
        WorkFailed = "work.failed", 1 { reason: String }
        WorkRemoved = "work.removed", 1 {}
        SetupFinished = "setup.finished", 1 { failure: Option<String> }
    }
    /// An event about a launch and its processes, as reported by the kernel and the holder.
    Process(ProcessEvent) {
        LaunchRequested = "launch.requested", 1 { launch: LaunchId, why: LaunchReason }
        LaunchStarted = "launch.started", 1 { launch: LaunchId, holder: ProcessIdentity, child: ProcessIdentity }
        /// An external agent is watched from now on.
        LaunchAdopted = "launch.adopted", 1 { launch: LaunchId, child: Option<ProcessIdentity> }
        LaunchFailed = "launch.failed", 1 { launch: LaunchId, reason: String }
        /// A new daemon continues a handshake. The time without a daemon does not count towards its timeout.
        LaunchFollowed = "launch.followed", 1 { launch: LaunchId }
        ProcessEnded = "process.ended", 1 { launch: LaunchId, end: ProcessExit, by: StoppedBy }
        /// The process cannot be observed. It may still be running.
        ProcessUnknown = "process.unknown", 1 { launch: LaunchId, why: String }
        ProcessSeen = "process.seen", 1 { launch: LaunchId }
        /// The process was suspended, for example with Ctrl-Z in a terminal, or was continued.
        ProcessSuspended = "process.suspended", 1 { launch: LaunchId, suspended: bool }
        /// The number of users at the agent's own screen changed.
        ViewersChanged = "viewers.changed", 1 { launch: LaunchId, viewers: u32 }
        /// The process exited or was killed, but its exit code was not observed.
        ProcessUnobserved = "process.unobserved", 1 { launch: LaunchId, why: String }
        ProcessTreeReaped = "process_tree.reaped", 1 { launch: LaunchId, leftovers: u32, verified: bool }
        StopRequested = "stop.requested", 1 { launch: LaunchId, why: StopReason, step: StopStep }
        StopEscalated = "stop.escalated", 1 { launch: LaunchId, step: StopStep }
    }
    /// An event about a launch's output and its connection to the agent.
    Stream(StreamEvent) {
        StreamReady = "stream.ready", 1 { launch: LaunchId, thread: Option<String>, cursor: Cursor }
        /// The agent rejected its configuration.
        StreamRefused = "stream.refused", 1 { launch: LaunchId, reason: String, cursor: Cursor }
        /// The agent is running, but connecting to its server failed.
        StreamUnreachable = "stream.unreachable", 1 { launch: LaunchId, reason: String, cursor: Cursor }
        /// The agent produced output during or after a silence. The silence window restarts at `heard_ms`.
        StreamHeard = "stream.heard", 1 { launch: LaunchId, heard_ms: u64 }
        StreamSilent = "stream.silent", 1 { launch: LaunchId }
        StreamRetrying = "stream.retrying", 1 { launch: LaunchId, detail: String, cursor: Cursor }
        /// The agent itself closed its stream.
        StreamClosed = "stream.closed", 1 { launch: LaunchId, cursor: Cursor }
        StreamSettled = "stream.settled", 1 { launch: LaunchId }
        AgentWarned = "agent.warned", 1 { launch: LaunchId, text: String, cursor: Cursor }
        /// A line was too long to parse. It is kept in the journal, but was skipped.
        OutputOversized = "output.oversized", 1 { launch: LaunchId, bytes: u64, cursor: Cursor }
        OutputAtLimit = "output.at_limit", 1 { launch: LaunchId }
        /// The disk that contains this directory is full, so the agent has to wait.
        OutputDiskFull = "output.disk_full", 1 { launch: LaunchId, dir: String }
        /// The disk has space again.
        OutputResumed = "output.resumed", 1 { launch: LaunchId }
        /// The journal ends before a position that was already processed, for example after a power loss.
        OutputLost = "output.lost", 1 { launch: LaunchId, cursor: Cursor }
        LimitRaised = "output.limit_raised", 1 { bytes: u64 }
    }
    /// An event about the agent's turns.
    Turn(TurnEvent) {
        TurnStarted = "turn.started", 1 { launch: LaunchId, turn: Option<String>, cursor: Cursor }
        TurnEnded = "turn.ended", 1 {
            launch: LaunchId, turn: Option<String>, end: TurnEnd,
            #[serde(default)]
            usage: Option<Usage>,
            /// The agent's last message in the turn, truncated.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            says: Option<String>,
            cursor: Cursor,
        }
        /// Whether the agent is pursuing a goal. If so, it starts its next turn on its own.
        GoalChanged = "goal.changed", 1 { launch: LaunchId, active: bool, cursor: Cursor }
        /// The agent did not start the turn that it was expected to start on its own.
        TurnMissing = "turn.missing", 1 { launch: LaunchId }
    }
    /// An event about the agent's conversation and its context.
    Conversation(ConversationEvent) {
        /// The user at the agent's screen switched to another conversation.
        ThreadSwitched = "thread.switched", 1 { launch: LaunchId, by: RecordSource, from: String, to: String }
        /// The next attempt starts a new conversation.
        ThreadRestarted = "thread.restarted", 1 {}
        ContextReported = "context.reported", 1 { launch: LaunchId, context: ContextUsage, cursor: Cursor }
        /// The agent compacted its conversation, on request or on its own.
        ContextCompacted = "context.compacted", 1 { launch: LaunchId, cursor: Cursor }
        /// The agent was asked to compact its conversation, but did not.
        CompactionFailed = "compaction.failed", 1 { launch: LaunchId, reason: String, cursor: Option<Cursor> }
        /// The agent's stored conversation is about to be deleted. This event is recorded before the deletion.
        ConversationDeleted = "conversation.deleted", 1 {}
    }
    /// An event about tokens, the budget, or the account's usage limit.
    Budget(BudgetEvent) {
        UsageReported = "usage.reported", 1 { launch: LaunchId, usage: Usage, cursor: Cursor }
        BudgetRaised = "budget.raised", 1 { tokens: Option<u64>, turns: Option<u32> }
        /// The time at which this session resumes. Sessions of the same account resume one after
        /// another.
        LimitSlot = "limit.slot", 1 { at_ms: u64 }
        /// The wait for the account's limit is over.
        LimitLifted = "limit.lifted", 1 {}
    }
    /// An event about input for the agent: messages, and what records and the screen show of them.
    Input(InputEvent) {
        /// The agent's transcript or hook contained this signal, at this position.
        SignalRecorded = "signal.recorded", 1 {
            launch: LaunchId,
            by: RecordSource,
            place: u64,
            said: SignalKind,
            /// The size of the events caused by a hook, in bytes.
            #[serde(default, skip_serializing_if = "is_zero")]
            bytes: u64,
        }
        /// A signal was inferred from the agent's terminal.
        SignalInferred = "signal.inferred", 1 { launch: LaunchId, by: ScreenSource, place: u64, said: SignalKind }
        /// The observed state of an external agent's pane.
        PaneSeen = "pane.seen", 1 { launch: LaunchId, state: PaneState }
        MessageQueued = "message.queued", 1 {
            key: String, kind: AgentMessageKind, text: String, request: Option<RequestId>,
            /// The content of an answer, unless it is secret.
            #[serde(default)]
            reply: Option<RequestReply>,
        }
        /// The agent received the bytes, according to the holder's journal.
        MessageDelivered = "message.delivered", 1 { key: String, launch: LaunchId }
        /// The text was typed into the agent's terminal. Only the transcript can confirm that the agent
        /// received it.
        MessageTyped = "message.typed", 1 { key: String, launch: LaunchId, state: TypingState }
        /// Typed input was not confirmed. Only older ledgers contain this event, which `message.typed`
        /// replaced.
        MessageUnconfirmed = "message.unconfirmed", 1 { key: String, reason: String }
        /// The agent's program rejected a message. If `retry` is set, the message is sent again after
        /// the turn that blocks it.
        MessageRefused = "message.refused", 1 {
            key: String, launch: LaunchId, reason: String, retry: bool, cursor: Cursor,
        }
        MessageLost = "message.lost", 1 { key: String, reason: String }
    }
    /// A report of the agent.
    Report(ReportEvent) {
        ClaimMade = "claim.made", 1 {
            launch: Option<LaunchId>, kind: ClaimKind, source: ClaimSource, text: Option<String>,
            status: ReportStatus, cursor: Option<Cursor>,
        }
        FactReported = "fact.reported", 1 {
            launch: Option<LaunchId>, fact: FactKind, value: String, status: ReportStatus, cursor: Option<Cursor>,
        }
        /// The agent reported a result in the requested form.
        ResultReported = "result.reported", 1 { launch: LaunchId, result: StructuredResult, status: ReportStatus, cursor: Cursor }
        /// Progress that was not reported on the stream has no cursor.
        ProgressReported = "progress.reported", 1 { launch: LaunchId, progress: Progress, cursor: Option<Cursor> }
        /// The launch has used up its report budget. Further reports are rejected.
        ReportsRefused = "reports.refused", 1 { launch: LaunchId, reports: u32, bytes: u64 }
        /// A command of the agent changed its team. It counts against the launch's report budget.
        TeamCommandCounted = "team_command.counted", 1 { launch: LaunchId, bytes: u64 }
    }
    /// An event about one of the agent's requests.
    Request(RequestEvent) {
        RequestOpened = "request.opened", 1 { request: RequestId, launch: LaunchId, asked: AgentRequest, revision: u32, cursor: Cursor }
        RequestSettled = "request.settled", 1 { request: RequestId, status: RequestStatus, cursor: Option<Cursor> }
        /// The outcome contradicts the answer: a denied action was performed, or an approved one was not.
        RequestContradicted = "request.contradicted", 1 { request: RequestId, done: bool, cursor: Cursor }
        /// A rule in the project's policy settled an approval request.
        RequestRuled = "request.ruled", 1 { request: RequestId, reply: RequestReply, rule: String }
    }
    /// An event about a tool call with which a member acts on its team.
    Tool(ToolEvent) {
        /// The agent called a tool with which a member acts on its team. A call without a cursor did
        /// not arrive on the stream.
        ToolCalled = "tool.called", 1 {
            no: u32, launch: LaunchId, native: String, call: Box<crate::team::MemberCall>, cursor: Option<Cursor>,
        }
        /// The result of the call as it was sent to the agent.
        ToolAnswered = "tool.answered", 1 { no: u32, ok: bool, text: String }
    }
    /// An event about the evidence for the agent's claim.
    Evidence(EvidenceEvent) {
        SnapshotTaken = "snapshot.taken", 1 {
            snapshot: Snapshot,
            #[serde(default, skip_serializing_if = "Caveats::is_empty")]
            caveats: Caveats,
        }
        SnapshotFailed = "snapshot.failed", 1 { reason: String }
        CheckFinished = "check.finished", 1 { receipt: Receipt }
    }
    /// An event about an effect of the session.
    Effect(EffectEvent) {
        /// Provost found a record of an effect that it had not started. It moved the record aside and
        /// ran the effect.
        RecordForged = "record.forged", 1 { effect: String, moved_to: String }
        /// An effect could not start because of a shortage, and is waiting.
        EffectShortage = "effect.shortage", 1 { effect: String, shortage: Shortage }
        /// The effect is being retried.
        EffectRetried = "effect.retried", 1 { effect: String }
    }
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
