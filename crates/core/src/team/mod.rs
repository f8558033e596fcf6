//! Teams: members who work on one goal, their messages, and the criteria that must hold before the
//! goal is done.
//!
//! A team has no process of its own. [`Team::advance`] reads the current state of the members'
//! sessions and returns the next step: events of the team, or an instruction to a session. A
//! manager requests changes, the rules in this module decide on them, and refusals are recorded
//! like everything else.

mod advance;
mod aggregate;
mod blind_proposals;
mod call;
mod command;
mod command_line;
mod communication;
mod consent;
mod criteria_draft;
mod criteria_handlers;
mod criterion;
mod decide;
mod dedup;
mod delivery;
mod effect;
mod envelope;
mod event;
mod evolve;
mod finish;
mod handoff_prompt;
mod loop_evidence;
mod loop_handlers;
mod loop_state;
mod manager;
mod member;
mod member_control;
mod message;
mod messages;
mod news;
mod onboarding;
pub mod pictures;
mod policy;
pub mod prompts;
pub mod recipes;
mod refusal;
mod spec;
mod state;
pub mod templates;
mod undelivered;
mod wait;

pub use crate::text::visible;
pub use advance::{TeamAdvanceContext, TeamStep};
pub use aggregate::TeamDecideContext;
pub use blind_proposals::{MAX_PROPOSAL, Proposal, ProposalChoice, ProposalRound};
pub use call::{JudgementKind, MemberCall, MemberCallError, SendableKind};
pub use command::{CheckSubject, NewMessage, TeamCommand, TeamRejection};
pub use command_line::{CommandLine, ProvostInvocation, TeamCommandLines, WAIT_SECONDS};
pub use communication::Communication;
pub use criteria_draft::{
    CriteriaDraft, DraftOmission, DraftSource, MAX_DRAFTED, MAX_DRAFTED_LETTERS, parse_items,
};
pub use criterion::{
    Criterion, CriterionEvidence, CriterionJudgement, CriterionSource, CriterionState,
    EvidenceRequirement, InsufficientEvidence, MAX_CRITERIA, MIN_TEXT_LETTERS, ProvostCheck,
    TextTooShort,
};
pub use dedup::{DuplicateStatus, EvictedMessage, MAX_KEYS_KEPT};
pub use effect::TeamEffect;
pub use envelope::format_message;
pub use event::*;
pub use finish::{BlockerWaiver, FinishBlocker, describe_not_finished, describe_state};
pub use handoff_prompt::{
    HEARTBEAT_MINUTES, Handoff, HeartbeatTeardown, MemberHeartbeat, TeamHeartbeats, build_handoff,
    build_heartbeats,
};
pub use loop_evidence::{EvidenceMismatch, PictureComparison, ShownEvidence, WorkChallenge};
pub use loop_state::{
    CleanUp, CompletedIteration, ContinuationBlocked, IterationFingerprint, Loop, LoopEnd,
    LoopProof, LoopRequirement, LoopTemplate, LoopTemplateError, MAX_ITERATIONS,
};
pub use manager::{EpilogueStep, ManagerConfig, ManagerMode, ManagerMove, MoveKind, TeamAction};
pub use member::{
    MAX_MEMBER_NAME, MemberCapabilities, MemberLabels, MemberOrder, MemberRole, NewsWatermark,
    TeamActor, TeamMember, is_member_name,
};
pub use message::{
    DeadlineEffect, DeliveryMode, MAX_NEWS_BYTES, MAX_OFFERS, MAX_SETTLED_KEPT, MAX_TEXT,
    MAX_WAITING, MessageChannel, MessageLease, MessageStatus, MessageStatusKind, MessageTrust,
    Priority, Recipient, TeamMessage, TeamMessageKind,
};
pub use messages::TeamMessages;
pub use policy::{
    EscalationSubject, IdleWorker, MAX_ACTIONS, MIN_ACTIONS, ManagingPolicy, PolicyAction,
    PolicyState, ProgressMark, UnsentFailure,
};
pub use prompts::{MANAGER_RULES, MemberMode, contract};
pub use refusal::{MAX_REFUSALS, RecordedRefusal};
pub use spec::{ConsentTerms, MAX_GOAL, TeamLimits, TeamSpec};
pub use state::{
    AuditedWork, CheckPurpose, CompletedCheck, FailedCheck, FinishAudit, MAX_RESULTS, PendingCheck,
    Team, TeamPhase,
};
pub use wait::{TeamWaitResult, TeamWaitTarget};
