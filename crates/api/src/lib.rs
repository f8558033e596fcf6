//! The protocol between the daemon and its clients: types, errors and a small client.
//!
//! These types are a contract of their own, separate from the domain's events. They may only be
//! extended.

mod body;
mod client;
mod error;
mod handoff;
mod hint;
mod history;
mod overview;
mod reply;
mod request;
mod routes;
mod run;
mod session;
mod team;
mod vocabulary;

pub use client::{Client, DaemonLoss, HttpReply, StreamReply};
pub use error::{AmbiguousId, ApiError, ErrorBody, ErrorCode};
pub use handoff::{HandoffRow, HeartbeatRow, MemberHeartbeatRow, TeardownRow};
pub use hint::{AnswerForm, Hint, RequestRef, TeamAction, TeamHint};
pub use history::{
    AsOfReply, AuditReply, ChangeRow, CriterionAuditRow, DiffReply, DivergenceRow, HistoryRow,
    HistorySessionRow, HistoryTeamRow, HitRow, JudgementRow, MetricsRow, ReceiptRow,
    RecentEventsRow, ReplayReply, SearchReply, TeamStatsRow, TelemetryReply, WaitRow,
};
pub use overview::{
    ChosenProposalRow, ContextUseRow, ContractRow, LimitUseRow, LoopUseRow, MemberUseRow,
    OverviewBudgetRow, OverviewCriteriaRow, OverviewMemberRow, OverviewMessageRow,
    OverviewMessagesRow, OverviewReaderRow, OverviewRow, OverviewTeamRow, ProposalRoundRow,
    ProposalRow, RunningCheckRow,
};
pub use reply::{
    ArchiveReply, ChangedRows, ChangedTeamRow, EventsReply, GcItemRow, GcReply, GraphReply,
    HandoffReply, LookedUpName, LookupReply, NextReply, OkReply, OpenSessionReply, OpenTeamReply,
    OrderedRow, OverviewAnswer, OverviewReply, PastReply, RunChangeReply, RunReply, RunsReply,
    SessionReply, SessionsReply, StopDaemonReply, StopUnknownReply, TeamChangeReply,
    TeamMessagesReply, TeamReply, TeamWaitReply, TeamWaitState, TeamsReply, ToolAnswer,
};
pub use request::{
    ActorKind, AnswerRequest, ApprovalDecision, ArchiveRequest, CallReply, CallRequest,
    CancelRequest, DaemonInfo, EventRow, GcRequest, InterruptRequest, LimitRequest,
    OpenSessionRequest, ProgressReport, RenameRequest, ReportReply, ReportRequest, ResolveRequest,
    SendRequest, UnknownHolder, VerifyEnd, VerifyReply, VerifyRequest,
};
pub use routes::{ROUTES, Route, open_api};
pub use run::{
    ApprovalRow, ApproveRunRequest, CostRow, DecisionRow, FindingRow, LandingRow, OpenRunRequest,
    OriginRow, PullRow, QueueRow, RejectRunRequest, RunGraphRow, RunRow, RunSessionRow,
    RunVerificationRow, TaskCounts, TaskRow,
};
pub use session::{
    BudgetRow, CheckRow, ClaimRow, ContextRow, ExitRow, FactRow, HookRow, LaunchRow, LimitWaitRow,
    MessageRow, ProgressRow, QuestionRow, RequestRow, ResolutionRow, SessionRow, SetupRow,
    ShortageRow, SubjectRow, UsageRow, WhyFact, WhyReply, WorktreeRow,
};

pub use team::{
    AdvanceRow, AssertedRow, AuditedWorkRow, BlockerRow, CommunicationRow, ContinuationRow,
    CriterionRow, DraftRow, DraftedRow, FailedCheckRow, InboxItemRow, LoopRow, MemberRow, MoveRow,
    NextRequest, OpenTeamRequest, PairRequest, RejectedItemRow, TeamCommandRequest, TeamHeadRow,
    TeamMessageRow, TeamRow,
};

pub use vocabulary::{
    ActivityName, CheckResultName, CriterionStateName, Extensible, HookResultName, LaunchPhaseName,
    MergeCheckKindName, MergeCheckStateName, ProcessName, RunStateName, SetupResultName,
    TeamStateName, VerificationName, Vocabulary,
};

/// The protocol version. A daemon and a command line with different versions do not communicate.
pub const PROTOCOL: u32 = 1;

/// The version of the objects that `--json` prints. They only gain fields; any other change gets a
/// new number.
pub const JSON_VERSION: u32 = 1;

/// The header that contains the idempotency key. Repeating a change with the same key has no
/// effect.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
