//! The wire between the daemon and its clients: types, errors and a small client.
//!
//! These types are a separate contract from the domain's events: they may only grow.

mod body;
mod client;
mod error;
mod handoff;
mod history;
mod request;
mod run;
mod session;
mod task;

pub use client::{Client, Lost, Reply, StreamReply};
pub use error::{ApiError, Code, ErrorBody};
pub use handoff::{BeatRow, HandoffRow, HeartbeatRow, TeardownRow};
pub use history::{
    AuditReply, AuditedRow, ChangeRow, DiffReply, DivergenceRow, HitRow, JudgementRow, MetricsRow,
    NewsRow, PastRow, PastSessionRow, PastTaskRow, ReceiptRow, ReplayReply, SearchReply,
    TaskFiguresRow, TelemetryReply, ThenReply, WaitRow,
};
pub use request::{
    ActorKind, AnswerRequest, CallReply, CallRequest, CancelRequest, DaemonInfo, Decision,
    EventRow, InterruptRequest, LimitRequest, OpenRequest, ProgressReport, RenameRequest,
    ReportReply, ReportRequest, ResolveRequest, SendRequest, UnknownHolder, VerifyEnd, VerifyReply,
    VerifyRequest,
};
pub use run::{
    ApprovalRow, ApproveRunRequest, CostRow, DecisionRow, FindingRow, GraphRow, LandingRow,
    OpenRunRequest, OriginRow, PullRow, QueueRow, RejectRunRequest, RunRow, RunSessionRow,
    TaskCounts, TaskRow,
};
pub use session::{
    BudgetRow, CheckRow, ClaimRow, ContextRow, ExitRow, FactRow, HookRow, LaunchRow, LimitedRow,
    MessageRow, ProgressRow, QuestionRow, RequestRow, ResolutionRow, SessionRow, SetupRow,
    ShortageRow, SubjectRow, UsageRow, WhyFact, WhyReply, WorktreeRow,
};

pub use task::{
    AdvanceRow, AssertedRow, AuditedWorkRow, BlockerRow, CommunicationRow, ContinuationRow,
    CriterionRow, DraftRow, DraftedRow, FailedCheckRow, ItemRow, LeftOutRow, LoopRow, MemberRow,
    MoveRow, NextRequest, OpenTaskRequest, PairRequest, StandingTaskRow, TaskHeadRow,
    TaskMessageRow, TaskRequest,
};

/// The version of the wire. A daemon and a command line with different versions do not communicate.
pub const PROTOCOL: u32 = 1;

/// The header with the idempotency key: a repeated change has no further effect.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
