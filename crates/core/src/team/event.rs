//! The events of a team's stream. The stream is append-only, like that of a session.

use serde::{Deserialize, Serialize};

use super::{
    blind_proposals::ProposalChoice,
    criterion::{CriterionJudgement, CriterionSource, EvidenceRequirement},
    finish::{BlockerWaiver, FinishBlocker},
    loop_evidence::{PictureComparison, ShownEvidence},
    loop_state::{CleanUp, ContinuationBlocked, IterationFingerprint, LoopEnd, LoopTemplate},
    manager::{EpilogueStep, ManagerConfig, MoveKind, TeamAction},
    member::{MemberCapabilities, MemberLabels, MemberOrder, MemberRole, TeamActor},
    message::{MessageChannel, MessageLease, MessageTrust, Priority, Recipient, TeamMessageKind},
    policy::{IdleWorker, PolicyAction},
    spec::TeamSpec,
    state::{PendingCheck, TeamPhase},
};
use crate::{ids::SessionId, verdict::Receipt};

events! {
    /// A change to the team itself.
    Team(TeamChange) {
        TeamOpened = "team.opened", 1 { spec: Box<TeamSpec> }
        TeamRenamed = "team.renamed", 1 { name: String }
        PhaseChanged = "team.phase_changed", 1 { phase: TeamPhase }
        /// The operator allowed Provost to run the given commands, which members wrote.
        CommandsApproved = "team.commands_approved", 1 { commands: Vec<String> }
        Configured = "team.configured", 1 { config: Box<ManagerConfig> }
    }
    /// An event about a member.
    Member(MemberEvent) {
        MemberBound = "team.member_bound", 1 {
            name: String,
            role: MemberRole,
            session: Option<SessionId>,
            labels: MemberLabels,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            means: Option<MemberCapabilities>,
        }
        MemberLeft = "team.member_left", 1 {
            name: String,
            because: String,
            /// The member that takes over the open messages. None if they are dead-lettered.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            to: Option<String>,
        }
        /// A member was replaced by a successor, which receives a handover text.
        MemberRotated = "team.member_rotated", 1 {
            from: String,
            to: String,
            session: Option<SessionId>,
            handover: String,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            means: Option<MemberCapabilities>,
        }
        MemberLabelled = "team.member_labelled", 1 { name: String, labels: MemberLabels }
        ContractAcknowledged = "team.contract_acknowledged", 1 { name: String, revision: u32 }
        /// Records the part of a member's session about which the managers have been notified. The messages before
        /// this event contain the notification.
        NewsReported = "team.news_reported", 1 {
            member: String,
            turns_ended: u32,
            attempts_sealed: u32,
            requests: u32,
            #[serde(default)]
            processes_lost: u32,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            messages: Vec<u32>,
        }
        /// A member's agent was ordered to interrupt its turn or compact its conversation.
        MemberOrdered = "team.member_ordered", 1 { name: String, what: MemberOrder, key: String, by: TeamActor }
    }
    /// An event about messages between members.
    Message(MessageEvent) {
        MessageStored = "team.message_stored", 1 {
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
            /// The time until the message expires, as set by its sender.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            window_ms: Option<u64>,
            iteration: Option<u32>,
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            steer: bool,
        }
        MessageOffered = "team.message_offered", 1 { no: u32, lease: MessageLease }
        /// A consumer accepted the message. The event records the lease, the consumer's role, and how
        /// many empty polls preceded it.
        MessageAccepted = "team.message_accepted", 1 {
            no: u32,
            lease: MessageLease,
            kind: TeamMessageKind,
            role: Option<MemberRole>,
            polls: u32,
        }
        MessageAcknowledged = "team.message_acknowledged", 1 { no: u32, by: String, note: Option<String> }
        /// The lease holder lost or released the message, so it is waiting again.
        MessageReturned = "team.message_returned", 1 { no: u32, reason: String }
        MessageExpired = "team.message_expired", 1 { no: u32 }
        MessageCancelled = "team.message_cancelled", 1 { no: u32, because: String }
        MessageDead = "team.message_dead", 1 {
            no: u32,
            reason: String,
            /// The actor who explicitly dead-lettered the message. None if Provost's rules
            /// dead-lettered it.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            by: Option<TeamActor>,
        }
        MessageRequeued = "team.message_requeued", 1 {
            no: u32,
            because: String,
            /// The new recipient, if it changed.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            to: Option<String>,
        }
        /// Senders and managers were notified about messages that expired or were dead-lettered.
        UndeliveredReported = "team.undelivered_reported", 1 { messages: Vec<u32>, reports: Vec<u32> }
        /// More news about the same member arrived before delivery, so the message was extended.
        NewsAdded = "team.news_added", 1 { no: u32, text: String }
    }
    /// An event about a criterion.
    Criterion(CriterionEvent) {
        CriterionProposed = "team.criterion_proposed", 1 {
            no: u32,
            text: String,
            source: CriterionSource,
            rationale: Option<String>,
            needs: EvidenceRequirement,
        }
        CriterionJudged = "team.criterion_judged", 1 { no: u32, judgement: CriterionJudgement, by: TeamActor }
    }
    /// An event about a check.
    Check(CheckEvent) {
        CheckRequested = "team.check_requested", 1 { check: PendingCheck }
        /// Another member requested a check that is already running, and will receive the result as well.
        CheckJoined = "team.check_joined", 1 { no: u32, by: String }
        CheckDone = "team.check_done", 1 {
            no: u32,
            receipt: Box<Receipt>,
            /// The measured difference, if pictures were compared.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            compared: Option<Box<PictureComparison>>,
        }
    }
    /// An event about the loop.
    Loop(LoopEvent) {
        LoopBegun = "team.loop_begun", 1 {
            template: Box<LoopTemplate>,
            #[serde(default)]
            by: TeamActor,
        }
        EvidenceShown = "team.evidence_shown", 1 {
            iteration: u32,
            name: String,
            shown: ShownEvidence,
            by: TeamActor,
        }
        /// The next iteration was requested but refused, and nothing was delivered.
        ContinuationRefused = "team.continuation_refused", 1 { iteration: u32, why: ContinuationBlocked, by: TeamActor }
        /// An iteration began. Its message was accepted in the same transaction.
        LoopAdvanced = "team.loop_advanced", 1 {
            to: u32,
            message: u32,
            consumer: String,
            fingerprint: IterationFingerprint,
        }
        /// The worker's conversation was cleaned up before a continuation is delivered, or the cleanup failed.
        ConversationCleanedUp = "team.cleaned_up", 1 {
            message: u32,
            name: String,
            clean_up: CleanUp,
            skipped: Option<String>,
            /// The number of times that the session had compacted its conversation before this
            /// compaction was requested.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            compactions: Option<u32>,
        }
        LoopEnded = "team.loop_ended", 1 {
            end: LoopEnd,
            #[serde(default)]
            by: TeamActor,
        }
    }
    /// An event about a manager or the managing policy.
    Manager(ManagerEvent) {
        MoveRecorded = "team.move_recorded", 1 { kind: MoveKind, because: String, by: String }
        MoveUsed = "team.move_used", 1 { action: TeamAction }
        /// A member requested an action without the permission or proof that the action requires.
        ActionRefused = "team.action_refused", 1 { by: TeamActor, action: TeamAction, code: String, why: String }
        EpilogueDone = "team.epilogue_done", 1 { step: EpilogueStep, evidence: String, by: TeamActor }
        /// The managing policy observed that a worker became idle, or is no longer idle.
        PolicyObserved = "team.policy_observed", 1 { worker: String, idle: Option<IdleWorker> }
        /// The policy acted. If the action was refused, the event contains the reason.
        PolicyActed = "team.policy_acted", 1 { action: PolicyAction, refused: Option<String> }
        /// A member proposed the next step. The text stays hidden until both proposals are written.
        NextProposed = "team.next_proposed", 1 { round: u32, role: MemberRole, by: String, text: String }
        NextChosen = "team.next_chosen", 1 { round: u32, choice: ProposalChoice, because: String, by: TeamActor }
    }
    /// An event about finishing the team.
    Finish(FinishEvent) {
        /// A member or the operator challenged the work as a whole.
        WorkChallenged = "team.work_challenged", 1 { challenge: super::loop_evidence::WorkChallenge, by: TeamActor }
        FinishRequested = "team.finish_requested", 1 {
            no: u32,
            because: String,
            by: TeamActor,
            /// The names of the blockers that the operator waived.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            allow: Vec<BlockerWaiver>,
        }
        /// The operator waived the named blockers.
        FinishAllowed = "team.finish_allowed", 1 { blockers: Vec<FinishBlocker>, by: TeamActor }
        FinishRefused = "team.finish_refused", 1 { blockers: Vec<FinishBlocker> }
        /// The member that requested to finish the team is notified that the audit granted the request. This is the
        /// last event of a team.
        FinishReported = "team.finish_reported", 1 { name: String, text: String }
    }
}
