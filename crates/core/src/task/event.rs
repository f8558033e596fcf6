//! The events of a task's stream. Append-only, as those of a session.

use serde::{Deserialize, Serialize};

use super::{
    criterion::{Judgement, Needs, Source},
    finish::{Allowance, Blocker},
    gate::{Blocked, CleanUp, Compared, Look, LoopEnd, Shown, Template},
    manager::{Action, Config, Epilogue, MoveKind},
    member::{Actor, Labels, Means, Order, Role},
    message::{Address, Channel, Kind, Lease, Priority, Trust},
    policy::{Act, Rest},
    proposing::Choice,
    spec::TaskSpec,
    state::{CheckOwed, Phase},
};
use crate::{ids::SessionId, verdict::Receipt};

events! {
    TaskOpened = "task.opened", 1 { spec: Box<TaskSpec> }
    TaskRenamed = "task.renamed", 1 { name: String }
    PhaseChanged = "task.phase_changed", 1 { phase: Phase }
    MemberBound = "task.member_bound", 1 {
        name: String,
        role: Role,
        session: Option<SessionId>,
        labels: Labels,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        means: Option<Means>,
    }
    MemberLeft = "task.member_left", 1 {
        name: String,
        because: String,
        /// The member that is given its open messages; without one they are dead-lettered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    }
    /// Another took a member's place, with what it has to know.
    MemberRotated = "task.member_rotated", 1 {
        from: String,
        to: String,
        session: Option<SessionId>,
        handover: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        means: Option<Means>,
    }
    MemberLabelled = "task.member_labelled", 1 { name: String, labels: Labels }
    ContractAcknowledged = "task.contract_acknowledged", 1 { name: String, revision: u32 }
    MessageStored = "task.message_stored", 1 {
        no: u32,
        key: String,
        correlation: Option<String>,
        from: Actor,
        channel: Channel,
        trust: Trust,
        to: Address,
        kind: Kind,
        text: String,
        priority: Priority,
        expires_ms: Option<u64>,
        /// How long it is of use, as its sender said.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window_ms: Option<u64>,
        iteration: Option<u32>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        steer: bool,
    }
    MessageOffered = "task.message_offered", 1 { no: u32, lease: Lease }
    /// The consumer has it: who that is, how it came to it, and how often it had asked in vain.
    MessageAccepted = "task.message_accepted", 1 {
        no: u32,
        lease: Lease,
        kind: Kind,
        role: Option<Role>,
        polls: u32,
    }
    MessageAcknowledged = "task.message_acknowledged", 1 { no: u32, by: String, note: Option<String> }
    /// Whoever had it lost it or gave it back: it waits again.
    MessageReturned = "task.message_returned", 1 { no: u32, reason: String }
    MessageExpired = "task.message_expired", 1 { no: u32 }
    MessageCancelled = "task.message_cancelled", 1 { no: u32, because: String }
    MessageDead = "task.message_dead", 1 {
        no: u32,
        reason: String,
        /// Who dead-lettered it on purpose; none if Provost did by its rules.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    }
    MessageRequeued = "task.message_requeued", 1 {
        no: u32,
        because: String,
        /// The member that it is for now, if another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<String>,
    }
    /// Senders and managers were told of messages that expired or were dead-lettered.
    UndeliveredTold = "task.undelivered_told", 1 { messages: Vec<u32>, told: Vec<u32> }
    /// More was seen of the same member before anybody was given its news: the message tells it all.
    NewsAdded = "task.news_added", 1 { no: u32, text: String }
    /// What of a member's session its managers were told with the messages before this.
    NewsTold = "task.news_told", 1 {
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
        source: Source,
        rationale: Option<String>,
        needs: Needs,
    }
    CriterionJudged = "task.criterion_judged", 1 { no: u32, judgement: Judgement, by: Actor }
    /// The operator agreed that Provost runs these commands, which members wrote.
    CommandsApproved = "task.commands_approved", 1 { commands: Vec<String> }
    CheckWanted = "task.check_wanted", 1 { check: CheckOwed }
    /// Another member asked for a check that runs already: it is told the result, too.
    CheckJoined = "task.check_joined", 1 { no: u32, by: String }
    CheckDone = "task.check_done", 1 {
        no: u32,
        receipt: Box<Receipt>,
        /// What was measured, if pictures were compared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compared: Option<Box<Compared>>,
    }
    LoopBegun = "task.loop_begun", 1 {
        template: Box<Template>,
        #[serde(default)]
        by: Actor,
    }
    EvidenceShown = "task.evidence_shown", 1 {
        iteration: u32,
        name: String,
        shown: Shown,
        by: Actor,
    }
    /// The next iteration was asked for and does not begin. A refusal is kept, and nothing was delivered.
    ContinuationRefused = "task.continuation_refused", 1 { iteration: u32, why: Blocked, by: Actor }
    /// An iteration began: its message was accepted, in the same commit.
    LoopAdvanced = "task.loop_advanced", 1 {
        to: u32,
        message: u32,
        consumer: String,
        look: Look,
    }
    /// The worker's conversation is cleaned up before a continuation is given to it, or could not be.
    CleanedUp = "task.cleaned_up", 1 {
        message: u32,
        name: String,
        clean_up: CleanUp,
        skipped: Option<String>,
        /// How often its session had been compacted, if it is asked to be once more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        compactions: Option<u32>,
    }
    LoopEnded = "task.loop_ended", 1 {
        end: LoopEnd,
        #[serde(default)]
        by: Actor,
    }
    /// A member's agent was made to leave its turn, or to make its conversation shorter.
    MemberTold = "task.member_told", 1 { name: String, what: Order, key: String, by: Actor }
    Configured = "task.configured", 1 { config: Box<Config> }
    MoveRecorded = "task.move_recorded", 1 { kind: MoveKind, because: String, by: String }
    MoveUsed = "task.move_used", 1 { action: Action }
    /// A member asked for something that it may not do, or that it could not prove. Nothing came of it.
    ActionRefused = "task.action_refused", 1 { by: Actor, action: Action, code: String, why: String }
    EpilogueDone = "task.epilogue_done", 1 { step: Epilogue, evidence: String, by: Actor }
    /// Somebody tried to disprove the work as a whole.
    WorkAttacked = "task.work_attacked", 1 { attack: super::gate::Attack, by: Actor }
    FinishAsked = "task.finish_asked", 1 {
        no: u32,
        because: String,
        by: Actor,
        /// What the operator lets pass, by the blockers' names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        allow: Vec<Allowance>,
    }
    /// The operator let these pass, by name.
    FinishAllowed = "task.finish_allowed", 1 { blockers: Vec<Blocker>, by: Actor }
    /// The policy that manages the task sees that a worker rests, or that it no longer does.
    PolicySaw = "task.policy_saw", 1 { worker: String, rest: Option<Rest> }
    /// What the policy did, and why that came to nothing if it did.
    PolicyActed = "task.policy_acted", 1 { act: Act, refused: Option<String> }
    /// Somebody proposed what comes next. Nobody is shown the text before both are written.
    NextProposed = "task.next_proposed", 1 { round: u32, role: Role, by: String, text: String }
    NextChosen = "task.next_chosen", 1 { round: u32, choice: Choice, because: String, by: Actor }
    FinishRefused = "task.finish_refused", 1 { blockers: Vec<Blocker> }
    /// Whoever asked for the finish is told that it was granted, after the audit: the last thing that a task says.
    FinishTold = "task.finish_told", 1 { name: String, text: String }
}
