//! The events of a task's stream. Append-only, as those of a session.

use serde::{Deserialize, Serialize};

use super::{
    criterion::{Judgement, Needs, Source},
    finish::Blocker,
    gate::{Blocked, Look, LoopEnd, Shown, Template},
    manager::{Action, Config, Epilogue, MoveKind},
    member::{Actor, Labels, Role},
    message::{Address, Channel, Kind, Lease, Priority, Trust},
    spec::TaskSpec,
    state::{CheckOwed, Phase},
};
use crate::{ids::SessionId, verdict::Receipt};

events! {
    TaskOpened = "task.opened", 1 { spec: Box<TaskSpec> }
    PhaseChanged = "task.phase_changed", 1 { phase: Phase }
    MemberBound = "task.member_bound", 1 {
        name: String,
        role: Role,
        session: Option<SessionId>,
        labels: Labels,
    }
    MemberLeft = "task.member_left", 1 { name: String, because: String }
    /// Another took a member's place, with what it has to know.
    MemberRotated = "task.member_rotated", 1 {
        from: String,
        to: String,
        session: Option<SessionId>,
        handover: String,
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
        iteration: Option<u32>,
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
    MessageDead = "task.message_dead", 1 { no: u32, reason: String }
    MessageRequeued = "task.message_requeued", 1 { no: u32, because: String }
    /// What of a member's session its manager was told with the message before this.
    NewsTold = "task.news_told", 1 {
        member: String,
        turns_ended: u32,
        attempts_sealed: u32,
        requests: u32,
    }
    CriterionProposed = "task.criterion_proposed", 1 {
        no: u32,
        text: String,
        source: Source,
        rationale: Option<String>,
        needs: Needs,
    }
    CriterionJudged = "task.criterion_judged", 1 { no: u32, judgement: Judgement, by: Actor }
    CheckWanted = "task.check_wanted", 1 { check: CheckOwed }
    CheckDone = "task.check_done", 1 { no: u32, receipt: Box<Receipt> }
    LoopBegun = "task.loop_begun", 1 { template: Box<Template> }
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
    LoopEnded = "task.loop_ended", 1 { end: LoopEnd }
    Configured = "task.configured", 1 { config: Box<Config> }
    MoveRecorded = "task.move_recorded", 1 { kind: MoveKind, because: String, by: String }
    MoveUsed = "task.move_used", 1 { action: Action }
    EpilogueDone = "task.epilogue_done", 1 { step: Epilogue, evidence: String, by: Actor }
    /// Somebody tried to disprove the work as a whole.
    WorkAttacked = "task.work_attacked", 1 { attack: super::gate::Attack, by: Actor }
    FinishAsked = "task.finish_asked", 1 { no: u32, because: String, by: Actor }
    FinishRefused = "task.finish_refused", 1 { blockers: Vec<Blocker> }
}
