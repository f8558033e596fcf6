//! A session: its events, state, commands and pending effects.
//!
//! [`Session::decide`] turns a command into events, [`Session::evolve`] applies an event,
//! [`Session::advance`] returns the next automatic event, [`Session::effects`] returns the pending
//! effects, and [`Session::deadline`] returns the next time at which something changes merely
//! because time passes.

mod advance;
mod aggregate;
mod attempt;
mod close_imported;
mod command;
mod decide;
mod duplicate_adoption;
mod effect;
mod effect_waits;
mod event;
mod evolve;
mod hook;
mod input;
mod interface;
mod judge;
mod launch;
mod reactions;
mod relaunch;
mod spec;
mod state;
mod tool_calls;

pub use crate::aggregate::EffectKey;
pub use attempt::{
    Attempt, AttemptEvidence, Claim, ClaimSource, LastTurn, ReportStatus, Resolution,
    SealedOutcome, WorkClock,
};
pub use close_imported::IMPORTED_REASON;
pub(crate) use close_imported::skipped_hook_end;
pub use command::{
    ExhaustedBudget, FactKind, ManualOutcome, ReportBody, Reporter, SendMode, SessionCommand,
    SessionRejection, StreamSignal, report_status_of,
};
pub use effect::{DeadlineKind, SessionEffect};
pub use event::{
    AgentReplaced, AgentWarned, AttemptCancelled, AttemptEvent, AttemptOpened, AttemptResolved,
    AttemptSealed, AttemptStopped, AttemptSuperseded, BudgetEvent, BudgetRaised, CheckFinished,
    ClaimMade, CompactionFailed, ContextCompacted, ContextReported, ConversationDeleted,
    ConversationEvent, EffectEvent, EffectRetried, EffectShortage, Event, EvidenceEvent,
    FactReported, GoalChanged, HookFinished, InputEvent, LaunchAdopted, LaunchFailed,
    LaunchFollowed, LaunchRequested, LaunchStarted, LimitLifted, LimitRaised, LimitSlot,
    MessageDelivered, MessageLost, MessageQueued, MessageRefused, MessageTyped, MessageUnconfirmed,
    OutputAtLimit, OutputDiskFull, OutputLost, OutputOversized, OutputResumed, PaneSeen,
    ProcessEnded, ProcessEvent, ProcessSeen, ProcessSuspended, ProcessTreeReaped, ProcessUnknown,
    ProcessUnobserved, ProgressReported, ReactionDone, RecordForged, ReportEvent, ReportsRefused,
    RequestContradicted, RequestEvent, RequestOpened, RequestRuled, RequestSettled, ResultReported,
    ResultRequested, ReworkSent, SessionChange, SessionDismissed, SessionOpened, SetupFinished,
    SignalInferred, SignalRecorded, SnapshotFailed, SnapshotTaken, StopEscalated, StopRequested,
    StreamClosed, StreamEvent, StreamHeard, StreamReady, StreamRefused, StreamRetrying,
    StreamSettled, StreamSilent, StreamUnreachable, TaskAssigned, TeamCommandCounted,
    ThreadRestarted, ThreadSwitched, ToolAnswered, ToolCalled, ToolEvent, TurnEnded, TurnEvent,
    TurnMissing, TurnStarted, UsageReported, ViewersChanged, WorkFailed, WorkPrepared, WorkRemoved,
    WorktreeEvent,
};
pub use hook::{FinishedHook, HookEnd, HookEvent, HookKey, HookLog, PendingHook};
pub use input::{
    AgentChannel, Compaction, Contradiction, InputBlocked, InputQueue, LastSignal, LaunchWatch,
    PaneState, ReceiveMode, RecordSignal, RecordSource, ScreenHint, ScreenSource, SignalKind,
    TypedInput, TypingState, check_typeable, enter_retry_key, literal_text, pasteable_text,
};
pub use interface::{
    AdapterId, AgentInterface, AgentMode, Capabilities, CompactionRequest, Composer,
    ConversationCapabilities, ExitZeroMeaning, ParseAdapterIdError, ScreenCapabilities,
    ToolSupport,
};
pub use launch::{
    Cursor, Launch, LaunchPhase, LaunchReason, ProcessExit, ProcessIdentity, ReportUsage,
    StopProgress, StopReason, StopStep, StoppedBy, TurnEnd, TurnState,
};
pub use reactions::{
    Occasion, Reaction, ReactionAction, ReactionState, ReactionTrigger, Reactions, Successor,
};
pub use spec::{
    AgentProfile, AgentSettings, AgentSpec, Approvals, Assignment, CheckTerms, CommandStdin,
    ExitZeroPolicy, ExternalAgent, HookSpec, MultiAgent, OnFinish, RunStageRef, Sandbox,
    SessionSpec, TeamMembership, TmuxPane, WorkLocation,
};
pub use state::{
    AgentMessage, AgentMessageKind, AgentReports, Budget, ContextUsage, Conversation,
    DeliveryStatus, Dismissal, Fact, LimitWait, Progress, Session, SessionOrigin, SetupState,
    Spending, Usage, WorkState, Worktree,
};
pub use tool_calls::{MAX_ANSWER, MAX_CALLS_KEPT, ToolCall, ToolCallResult, ToolCalls};
