//! The named blockers that keep a team from finishing.

use serde::{Deserialize, Serialize};

use super::{
    criterion::{Criterion, CriterionState, ProvostCheck},
    loop_state::{Loop, LoopEnd},
    manager::{EpilogueStep, ManagerMode},
    member::{MemberRole, TeamActor},
    state::Team,
};
use crate::{
    ids::{SessionId, TreeId},
    lifecycle::State,
    session::{Session, WorkState},
    text::{quote_name, quote_text},
    verdict::{CheckEnd, Receipt},
};

/// A reason why a team cannot finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "blocker", rename_all = "snake_case")]
pub enum FinishBlocker {
    #[error("criterion {no} is {state}: {text}")]
    OpenCriterion { no: u32, state: String, text: String },
    #[error("{member} has not accepted revision {revision} of the contract")]
    ContractNotAccepted { member: String, revision: u32 },
    #[error("epilogue step {} is incomplete", .step.as_str())]
    EpilogueOpen { step: EpilogueStep },
    #[error(
        "the work was not challenged: show a challenge with a failure mode, how it was tested and the result"
    )]
    NotChallenged,
    #[error("iteration {iteration} of the loop lacks evidence: {}", .missing.join(", "))]
    LoopIncomplete { iteration: u32, missing: Vec<String> },
    /// The loop ended on its own, and no one has decided yet how to continue.
    #[error(
        "the loop gave up: {why}; stop it with a reason to finish anyway, or begin another loop"
    )]
    LoopGaveUp { why: String },
    /// Someone other than the operator stopped the loop that the operator required.
    #[error(
        "{by} stopped the operator's loop \"{name}\": only the operator can now finish the team or begin another loop"
    )]
    GateDropped { name: String, by: String },
    #[error(
        "{by} dropped criterion {no}, which the user asked for: reopen it, or have the operator finish the team; the criterion is: {text}"
    )]
    CriterionDropped { no: u32, by: String, text: String },
    #[error(
        "the check `{command}` fails on the final tree{}",
        describe_check_end(.end, .tail)
    )]
    CheckFailed {
        command: String,
        output: String,
        /// A description of how the check ended.
        #[serde(default)]
        end: String,
        /// The end of the output.
        #[serde(default)]
        tail: String,
    },
    #[error("the team is paused")]
    Paused,
    /// The manager announced that it would stop, but has not finished the team.
    #[error("the manager decided to stop, but has not finished the team")]
    DecidedNotFinished,
    #[error("{} {}: it may still change the work", quote_name(.member), describe_state(.state))]
    MemberWorking { member: String, state: String },
    #[error("{} has {}", quote_name(.member), open_instructions(.messages, *.count))]
    InstructionOpen {
        member: String,
        /// The numbers of the first messages.
        messages: Vec<u32>,
        count: usize,
    },
    #[error("{} changed nothing: the tree {} is the same as when the work began", quote_name(.worker), .tree.0)]
    NothingChanged { worker: String, tree: TreeId },
    #[error(
        "nothing proves the work: the team has no check, no satisfied criterion and no complete loop"
    )]
    NothingProved,
}

/// A blocker that the operator may waive by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockerWaiver {
    MemberWorking,
    InstructionOpen,
    NothingChanged,
    NothingProved,
}

impl BlockerWaiver {
    pub const ALL: [BlockerWaiver; 4] = [
        BlockerWaiver::MemberWorking,
        BlockerWaiver::InstructionOpen,
        BlockerWaiver::NothingChanged,
        BlockerWaiver::NothingProved,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            BlockerWaiver::MemberWorking => "member_working",
            BlockerWaiver::InstructionOpen => "instruction_open",
            BlockerWaiver::NothingChanged => "nothing_changed",
            BlockerWaiver::NothingProved => "nothing_proved",
        }
    }
}

/// Describes the state of a busy worker. The description follows the worker's name.
pub fn describe_state(state: &str) -> String {
    match state {
        "needs_input" => "needs input".to_owned(),
        "stalled" => "has stalled".to_owned(),
        "rework" => "has to rework its changes".to_owned(),
        "verifying" => "is being verified".to_owned(),
        state => format!("is {}", state.replace('_', " ")),
    }
}

/// Maximum number of open messages that a blocker lists. Further messages are only counted.
const MAX_OPEN_NAMED: usize = 10;

fn open_instructions(messages: &[u32], count: usize) -> String {
    let named: Vec<String> = messages.iter().map(u32::to_string).collect();
    let more = count.saturating_sub(messages.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (s, listed) = (if count == 1 { "" } else { "s" }, named.join(", "));
    format!("{count} open instruction{s}: message{s} {listed}{more}")
}

impl FinishBlocker {
    /// Returns the name under which the operator can waive the blocker. None if it cannot be waived.
    pub fn waiver(&self) -> Option<BlockerWaiver> {
        match self {
            FinishBlocker::MemberWorking { .. } => Some(BlockerWaiver::MemberWorking),
            FinishBlocker::InstructionOpen { .. } => Some(BlockerWaiver::InstructionOpen),
            FinishBlocker::NothingChanged { .. } => Some(BlockerWaiver::NothingChanged),
            FinishBlocker::NothingProved => Some(BlockerWaiver::NothingProved),
            FinishBlocker::OpenCriterion { .. }
            | FinishBlocker::ContractNotAccepted { .. }
            | FinishBlocker::EpilogueOpen { .. }
            | FinishBlocker::NotChallenged
            | FinishBlocker::LoopIncomplete { .. }
            | FinishBlocker::LoopGaveUp { .. }
            | FinishBlocker::GateDropped { .. }
            | FinishBlocker::CriterionDropped { .. }
            | FinishBlocker::CheckFailed { .. }
            | FinishBlocker::Paused
            | FinishBlocker::DecidedNotFinished => None,
        }
    }
}

impl FinishBlocker {
    /// Returns the machine-readable code.
    pub fn code(&self) -> &'static str {
        match self {
            FinishBlocker::OpenCriterion { .. } => "open_criterion",
            FinishBlocker::ContractNotAccepted { .. } => "contract_not_accepted",
            FinishBlocker::EpilogueOpen { .. } => "epilogue_open",
            FinishBlocker::NotChallenged => "not_challenged",
            FinishBlocker::LoopIncomplete { .. } => "loop_incomplete",
            FinishBlocker::LoopGaveUp { .. } => "loop_gave_up",
            FinishBlocker::GateDropped { .. } => "gate_dropped",
            FinishBlocker::CriterionDropped { .. } => "criterion_dropped",
            FinishBlocker::CheckFailed { .. } => "check_failed",
            FinishBlocker::Paused => "paused",
            FinishBlocker::DecidedNotFinished => "decided_not_finished",
            FinishBlocker::MemberWorking { .. } => "member_working",
            FinishBlocker::InstructionOpen { .. } => "instruction_open",
            FinishBlocker::NothingChanged { .. } => "nothing_changed",
            FinishBlocker::NothingProved => "nothing_proved",
        }
    }
}

impl FinishBlocker {
    /// Returns the failed check and the end of its output, if the blocker is a failed check.
    pub fn failed_check(&self) -> Option<(&str, &str)> {
        match self {
            FinishBlocker::CheckFailed { command, tail, .. } => Some((command, tail)),
            FinishBlocker::OpenCriterion { .. }
            | FinishBlocker::ContractNotAccepted { .. }
            | FinishBlocker::EpilogueOpen { .. }
            | FinishBlocker::NotChallenged
            | FinishBlocker::LoopIncomplete { .. }
            | FinishBlocker::LoopGaveUp { .. }
            | FinishBlocker::GateDropped { .. }
            | FinishBlocker::CriterionDropped { .. }
            | FinishBlocker::Paused
            | FinishBlocker::DecidedNotFinished
            | FinishBlocker::MemberWorking { .. }
            | FinishBlocker::InstructionOpen { .. }
            | FinishBlocker::NothingChanged { .. }
            | FinishBlocker::NothingProved => None,
        }
    }

    /// Formats the blocker as one line, with its code.
    pub fn describe(&self) -> String {
        format!("{}: {self}", self.code())
    }
}

/// Maximum number of characters of a failed check's output to keep in a blocker.
const MAX_TAIL: usize = 400;

/// Maximum number of characters of the last output line to include in the sentence that describes the blocker.
const MAX_LINE: usize = 120;

/// Describes how a check ended, and quotes its last line of output, which is untrusted.
fn describe_check_end(end: &str, tail: &str) -> String {
    let ended = if end.is_empty() { String::new() } else { format!(": {end}") };
    let last = tail.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let last = last.map(|line| format!("; last output: {}", quote_text(tail_of(line, MAX_LINE))));
    ended + &last.unwrap_or_default()
}

/// Returns the last `letters` characters of a text.
fn tail_of(text: &str, letters: usize) -> &str {
    let start = text.char_indices().rev().nth(letters.saturating_sub(1)).map_or(0, |(at, _)| at);
    &text[start..]
}

/// Explains in one sentence why a team is not finished.
pub fn describe_not_finished(blockers: &[FinishBlocker]) -> String {
    let reasons: Vec<String> = blockers.iter().map(FinishBlocker::describe).collect();
    format!("the team is not finished: {}", reasons.join("; "))
}

impl Team {
    /// Returns the blockers that can be determined without running a check. `look` returns the
    /// current state of a session.
    pub fn blockers<'s>(
        &self,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Vec<FinishBlocker> {
        let mut blockers = self.own_blockers();
        blockers.extend(self.busy_workers(look));
        blockers.extend(self.open_instructions());
        if !self.has_proof_source() {
            blockers.push(FinishBlocker::NothingProved);
        }
        blockers
    }

    /// Returns the workers that are busy. An agent that reports no turns may be busy without being
    /// listed.
    fn busy_workers<'s>(
        &self,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Vec<FinishBlocker> {
        let seen = self
            .bound(MemberRole::Worker)
            .filter_map(|worker| Some((worker, look(worker.session?)?)));
        let working = seen.filter(|(_, session)| is_working(session));
        working
            .map(|(worker, session)| FinishBlocker::MemberWorking {
                member: worker.name.clone(),
                state: session.state().as_str().to_owned(),
            })
            .collect()
    }

    /// Returns the members with unhandled instructions.
    fn open_instructions(&self) -> Vec<FinishBlocker> {
        let bound = self.members.iter().filter(|member| member.is_bound());
        let of_member = |name: &str| -> Vec<u32> {
            // Onboarding messages from Provost do not count as work.
            let open = self.messages.iter().filter(|one| one.is_instruction());
            let open = open.filter(|one| one.from != TeamActor::Provost);
            open.filter(|one| one.is_open_for(name)).map(|one| one.no).collect()
        };
        let open = bound.map(|member| (member, of_member(&member.name)));
        open.filter(|(_, open)| !open.is_empty())
            .map(|(member, mut messages)| {
                let count = messages.len();
                messages.truncate(MAX_OPEN_NAMED);
                FinishBlocker::InstructionOpen { member: member.name.clone(), messages, count }
            })
            .collect()
    }

    /// Whether anything can prove the team's work: a check in the audit, a criterion, or a loop. A
    /// dropped criterion or a stopped loop does not count.
    fn has_proof_source(&self) -> bool {
        let satisfied = |one: &Criterion| matches!(one.state, CriterionState::Satisfied { .. });
        let stopped = |looped: &Loop| matches!(looped.ended, Some(LoopEnd::Stopped { .. }));
        !self.audit_checks().is_empty()
            || self.criteria.iter().any(|one| one.is_open() || satisfied(one))
            || self.loop_state.as_ref().is_some_and(|looped| !stopped(looped))
    }

    /// Returns a blocker if the audited work left the initial tree unchanged.
    pub(super) fn unchanged_work<'s>(
        &self,
        worker: &str,
        receipts: &[Receipt],
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Option<FinishBlocker> {
        let member = self.members.iter().find(|member| member.name == worker)?;
        let session = look(member.session?)?;
        let tree = match &session.worktree.state {
            WorkState::Ready { base, .. } => base.as_ref()?.tree.clone(),
            WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => return None,
        };
        let same = !receipts.is_empty() && receipts.iter().all(|receipt| receipt.tree == tree);
        same.then(|| FinishBlocker::NothingChanged { worker: worker.to_owned(), tree })
    }

    /// Returns the blockers that depend only on the team itself.
    fn own_blockers(&self) -> Vec<FinishBlocker> {
        let mut blockers = Vec::new();
        if self.is_paused() {
            blockers.push(FinishBlocker::Paused);
        }
        blockers.extend(self.open_criteria());
        blockers.extend(self.unacknowledged_contracts());
        let open = self.config.epilogue.iter().filter(|step| !self.is_epilogue_done(**step));
        blockers.extend(open.map(|step| FinishBlocker::EpilogueOpen { step: *step }));
        if self.config.adversarial && !self.challenged {
            blockers.push(FinishBlocker::NotChallenged);
        }
        if let Some(looped) = self.loop_state.as_ref().filter(|looped| !looped.is_complete()) {
            let (iteration, missing) = (looped.iteration, looped.missing_evidence());
            blockers.push(match &looped.ended {
                Some(end) => FinishBlocker::LoopGaveUp { why: end.describe() },
                None => FinishBlocker::LoopIncomplete { iteration, missing },
            });
        }
        if let Some(looped) = self.loop_state.as_ref().filter(|looped| looped.is_dropped()) {
            let (name, by) = (looped.template.name.clone(), looped.ended_by.name().to_owned());
            blockers.push(FinishBlocker::GateDropped { name, by });
        }
        blockers.extend(self.criteria.iter().filter_map(|criterion| {
            let (no, text) = (criterion.no, criterion.text.clone());
            criterion.dropped_by.clone().map(|by| FinishBlocker::CriterionDropped { no, by, text })
        }));
        blockers
    }

    /// Returns the blockers for an actor. The operator may waive requirements that the operator set.
    pub(super) fn blockers_for<'s>(
        &self,
        actor: &TeamActor,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Vec<FinishBlocker> {
        let mut blockers = self.blockers(look);
        if *actor == TeamActor::Operator {
            let dropped = |one: &FinishBlocker| {
                matches!(
                    one,
                    FinishBlocker::GateDropped { .. } | FinishBlocker::CriterionDropped { .. }
                )
            };
            blockers.retain(|one| !dropped(one));
        }
        blockers
    }

    /// Returns the blockers that are shown to everyone. They do not include a recorded last move, but they include the
    /// findings of the last audit until the next audit begins.
    pub fn readiness<'s>(
        &self,
        look: impl Fn(SessionId) -> Option<&'s Session>,
    ) -> Vec<FinishBlocker> {
        if self.phase.is_over() {
            return Vec::new();
        }
        let mut blockers = self.blockers(look);
        let last = self.moves.last().filter(|newest| !newest.withdrawn);
        if last.is_some_and(|newest| newest.kind.is_terminal()) {
            blockers.push(FinishBlocker::DecidedNotFinished);
        }
        let found = |one: &&FinishBlocker| {
            matches!(one, FinishBlocker::CheckFailed { .. } | FinishBlocker::NothingChanged { .. })
        };
        blockers.extend(self.blockers.iter().filter(found).cloned());
        blockers
    }

    fn open_criteria(&self) -> impl Iterator<Item = FinishBlocker> {
        let open = self.criteria.iter().filter(|criterion| criterion.is_open());
        open.map(|criterion| FinishBlocker::OpenCriterion {
            no: criterion.no,
            state: criterion.state.as_str().to_owned(),
            text: criterion.text.clone(),
        })
    }

    /// Returns a blocker for each manager that has not accepted its contract, because such a
    /// manager cannot confirm that the contract is fulfilled.
    fn unacknowledged_contracts(&self) -> Vec<FinishBlocker> {
        let revision = self.config.revision;
        match self.config.mode {
            ManagerMode::Light => return Vec::new(),
            ManagerMode::Guided | ManagerMode::Strict => {}
        }
        self.bound(MemberRole::Manager)
            .filter(|manager| manager.acknowledged != Some(revision))
            .map(|manager| FinishBlocker::ContractNotAccepted {
                member: manager.name.clone(),
                revision,
            })
            .collect()
    }

    /// Whether an epilogue step is done. The checks of the epilogue are part of the audit itself.
    fn is_epilogue_done(&self, step: EpilogueStep) -> bool {
        match step {
            EpilogueStep::Checks => true,
            EpilogueStep::DraftPullRequest
            | EpilogueStep::SeparateReview
            | EpilogueStep::Handover => self.epilogue.contains(&step),
        }
    }

    /// Returns the checks that must pass on the final tree: those of the team, of satisfied
    /// criteria, and of the evidence in the loop. A check that passed on another tree does not
    /// count.
    pub fn audit_checks(&self) -> Vec<ProvostCheck> {
        let satisfied = |one: &&Criterion| matches!(one.state, CriterionState::Satisfied { .. });
        let of_criteria = self.criteria.iter().filter(satisfied);
        let of_criteria = of_criteria.filter_map(|criterion| criterion.needs.check());
        let plain = |command: &String| ProvostCheck { command: command.clone(), pictures: None };
        // Evidence for a stopped loop is no longer required.
        let stopped = |looped: &&Loop| matches!(looped.ended, Some(LoopEnd::Stopped { .. }));
        let looped = self.loop_state.as_ref().filter(|looped| !stopped(looped));
        let of_loop = looped.into_iter().flat_map(Loop::checks);
        let own = self.spec.checks.iter().map(plain);
        let mut checks: Vec<ProvostCheck> = Vec::new();
        for check in own.chain(of_criteria).chain(of_loop) {
            if !checks.contains(&check) {
                checks.push(check);
            }
        }
        checks
    }

    /// Returns the blockers found by the audit's checks.
    pub(super) fn audit_blockers(receipts: &[Receipt]) -> Vec<FinishBlocker> {
        let failed = receipts.iter().filter(|receipt| receipt.end != CheckEnd::Exit(0));
        failed
            .map(|receipt| FinishBlocker::CheckFailed {
                command: receipt.command.clone(),
                output: receipt.output.clone(),
                end: receipt.end.summary(),
                tail: tail_of(receipt.tail.trim_end(), MAX_TAIL).to_owned(),
            })
            .collect()
    }
}

/// Splits blockers into those that keep the team from finishing and those that the operator waived.
pub(super) fn split_waived(
    blockers: Vec<FinishBlocker>,
    allow: &[BlockerWaiver],
) -> (Vec<FinishBlocker>, Vec<FinishBlocker>) {
    let allowed = |one: &FinishBlocker| one.waiver().is_some_and(|name| allow.contains(&name));
    blockers.into_iter().partition(|one| !allowed(one))
}

/// Whether a session's agent is busy or about to start.
fn is_working(session: &Session) -> bool {
    match session.state() {
        State::Working
        | State::NeedsInput
        | State::Finishing
        | State::Rework
        | State::Verifying
        | State::Stalled => !session.has_unobservable_turns(),
        State::Idle
        | State::Lost
        | State::Succeeded
        | State::Completed
        | State::Accepted
        | State::Failed
        | State::Stopped
        | State::ExitedWithoutClaim
        | State::Disputed
        | State::Cancelled
        | State::Superseded => false,
    }
}
