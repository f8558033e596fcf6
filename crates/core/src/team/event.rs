//! The events of a team's stream. Append-only, like those of a session.

use serde::{Deserialize, Serialize};

use super::{
    blind_proposals::ProposalChoice,
    criterion::{CriterionJudgement, CriterionSource, EvidenceRequirement},
    finish::{BlockerWaiver, FinishBlocker},
    loop_state::{
        CleanUp, ContinuationBlocked, IterationFingerprint, LoopEnd, LoopTemplate,
        PictureComparison, ShownEvidence,
    },
    manager::{EpilogueStep, ManagerConfig, MoveKind, TeamAction},
    member::{MemberCapabilities, MemberLabels, MemberOrder, MemberRole, TeamActor},
    message::{MessageChannel, MessageLease, MessageTrust, Priority, Recipient, TeamMessageKind},
    policy::{IdleWorker, PolicyAction},
    spec::TeamSpec,
    state::{PendingCheck, TeamPhase},
};
use crate::{ids::SessionId, verdict::Receipt};

events! {
    TeamOpened = "task.opened", 1 { spec: Box<TeamSpec> }
    TeamRenamed = "task.renamed", 1 { name: String }
    PhaseChanged = "task.phase_changed", 1 { phase: TeamPhase }
    MemberBound = "task.member_bound", 1 {
        name: String,
        role: MemberRole,
        session: Option<SessionId>,
        labels: MemberLabels,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        means: Option<MemberCapabilities>,
    }
    MemberLeft = "task.member_left", 1 {
        name: String,
        because: String,
        /// The member that receives its open messages. Without one they are dead-lettered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    }
    /// A member was replaced by a successor, with a handover text.
    MemberRotated = "task.member_rotated", 1 {
        from: String,
        to: String,
        session: Option<SessionId>,
        handover: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        means: Option<MemberCapabilities>,
    }
    MemberLabelled = "task.member_labelled", 1 { name: String, labels: MemberLabels }
    ContractAcknowledged = "task.contract_acknowledged", 1 { name: String, revision: u32 }
    MessageStored = "task.message_stored", 1 {
        no: u32,
        key: String,
        correlation: Option<String>,
        from: TeamActor,
        channel: MessageChannel,
        trust: MessageTrust,
        to: Recipient,
        kind: TeamMessageKind,
        text: String,
        priority: Priority,
        expires_ms: Option<u64>,
        /// How long the message is useful, as set by its sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window_ms: Option<u64>,
        iteration: Option<u32>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
    }
    MessageOffered = "task.message_offered", 1 { no: u32, lease: MessageLease }
    /// A consumer accepted the message: its lease, its role, and the number of empty polls before
    /// it.
    MessageAccepted = "task.message_accepted", 1 {
        no: u32,
        lease: MessageLease,
        kind: TeamMessageKind,
        role: Option<MemberRole>,
        polls: u32,
    }
    MessageAcknowledged = "task.message_acknowledged", 1 { no: u32, by: String, note: Option<String> }
    /// The holder lost or released the message, so that it waits again.
    MessageReturned = "task.message_returned", 1 { no: u32, reason: String }
    MessageExpired = "task.message_expired", 1 { no: u32 }
    MessageCancelled = "task.message_cancelled", 1 { no: u32, because: String }
    MessageDead = "task.message_dead", 1 {
        no: u32,
        reason: String,
        /// The actor who dead-lettered it explicitly; none if Provost's rules did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<TeamActor>,
    }
    MessageRequeued = "task.message_requeued", 1 {
        no: u32,
        because: String,
        /// The new recipient, if it changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    }
    /// Senders and managers were notified of messages that expired or were dead-lettered.
    UndeliveredReported = "task.undelivered_told", 1 { messages: Vec<u32>, told: Vec<u32> }
    /// More news about the same member arrived before delivery, so that the message was extended.
    NewsAdded = "task.news_added", 1 { no: u32, text: String }
    /// How much of a member's session its managers have been notified of, including the messages
    /// before this event.
    NewsReported = "task.news_told", 1 {
        member: String,
        turns_ended: u32,
        attempts_sealed: u32,
        requests: u32,
        #[serde(default)]
        processes_lost: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<u32>,
    }
    CriterionProposed = "task.criterion_proposed", 1 {
        no: u32,
        text: String,
        source: CriterionSource,
        rationale: Option<String>,
        needs: EvidenceRequirement,
    }
    CriterionJudged = "task.criterion_judged", 1 { no: u32, judgement: CriterionJudgement, by: TeamActor }
    /// The operator approved that Provost runs these member-written commands.
    CommandsApproved = "task.commands_approved", 1 { commands: Vec<String> }
    CheckRequested = "task.check_wanted", 1 { check: PendingCheck }
    /// Another member requested a check that is already running. It receives the result too.
    CheckJoined = "task.check_joined", 1 { no: u32, by: String }
    CheckDone = "task.check_done", 1 {
        no: u32,
        receipt: Box<Receipt>,
        /// The measured difference, if pictures were compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compared: Option<Box<PictureComparison>>,
    }
    LoopBegun = "task.loop_begun", 1 {
        template: Box<LoopTemplate>,
        #[serde(default)]
        by: TeamActor,
    }
    EvidenceShown = "task.evidence_shown", 1 {
        iteration: u32,
        name: String,
        shown: ShownEvidence,
        by: TeamActor,
    }
    /// The next iteration was requested and refused. The refusal is recorded; nothing was
    /// delivered.
    ContinuationRefused = "task.continuation_refused", 1 { iteration: u32, why: ContinuationBlocked, by: TeamActor }
    /// An iteration began: its message was accepted in the same commit.
    LoopAdvanced = "task.loop_advanced", 1 {
        to: u32,
        message: u32,
        consumer: String,
        look: IterationFingerprint,
    }
    /// The worker's conversation was cleaned up before a continuation is delivered, or could not
    /// be.
    ConversationCleanedUp = "task.cleaned_up", 1 {
        message: u32,
        name: String,
        clean_up: CleanUp,
        skipped: Option<String>,
        /// The session's compaction count before the requested compaction.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compactions: Option<u32>,
    }
    LoopEnded = "task.loop_ended", 1 {
        end: LoopEnd,
        #[serde(default)]
        by: TeamActor,
    }
    /// A member's agent was interrupted or its conversation compacted.
    MemberOrdered = "task.member_told", 1 { name: String, what: MemberOrder, key: String, by: TeamActor }
    Configured = "task.configured", 1 { config: Box<ManagerConfig> }
    MoveRecorded = "task.move_recorded", 1 { kind: MoveKind, because: String, by: String }
    MoveUsed = "task.move_used", 1 { action: TeamAction }
    /// A member requested an action that it may not perform or could not prove. Nothing else
    /// happened.
    ActionRefused = "task.action_refused", 1 { by: TeamActor, action: TeamAction, code: String, why: String }
    EpilogueDone = "task.epilogue_done", 1 { step: EpilogueStep, evidence: String, by: TeamActor }
    /// A member or the operator challenged the work as a whole.
    WorkChallenged = "task.work_attacked", 1 { attack: super::loop_state::WorkChallenge, by: TeamActor }
    FinishRequested = "task.finish_asked", 1 {
        no: u32,
        because: String,
        by: TeamActor,
        /// The names of the blockers that the operator waives.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow: Vec<BlockerWaiver>,
    }
    /// The operator waived these blockers, by name.
    FinishAllowed = "task.finish_allowed", 1 { blockers: Vec<FinishBlocker>, by: TeamActor }
    /// The managing policy observed that a worker became idle, or no longer is.
    PolicyObserved = "task.policy_saw", 1 { worker: String, rest: Option<IdleWorker> }
    /// An action of the policy, and why it was refused, if it was.
    PolicyActed = "task.policy_acted", 1 { act: PolicyAction, refused: Option<String> }
    /// A member proposed the next step. The text stays hidden until both proposals are written.
    NextProposed = "task.next_proposed", 1 { round: u32, role: MemberRole, by: String, text: String }
    NextChosen = "task.next_chosen", 1 { round: u32, choice: ProposalChoice, because: String, by: TeamActor }
    FinishRefused = "task.finish_refused", 1 { blockers: Vec<FinishBlocker> }
    /// The member that requested the finish is notified that it was granted, after the audit. This
    /// is the last event of a team.
    FinishReported = "task.finish_told", 1 { name: String, text: String }
}
