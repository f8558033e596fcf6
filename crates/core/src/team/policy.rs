//! A manager that is implemented by rules instead of an agent.
//!
//! On each `advance`, the first rule that applies acts as [`TeamActor::Policy`], with the permissions of a manager. All
//! actions are recorded with the team. Each rule checks the record before it acts, so that the policy handles each
//! situation once and the number of actions is limited.

mod actions;

use std::{cell::LazyCell, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{
    advance::{StepScope, TeamAdvanceContext, TeamStep, accepts_message},
    command::{TeamCommand, TeamRejection},
    event::*,
    member::{MemberRole, NewsWatermark, TeamActor, TeamMember},
    message::MessageStatus,
    news::session_watermark,
    state::{Team, TeamPhase},
};
use crate::{
    lifecycle::ClaimKind,
    session::Session,
    text::quote_name,
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

/// Minimum and maximum number of actions that a policy may perform in one team. The last action
/// reports that the limit is reached.
pub const MIN_ACTIONS: u32 = 2;
pub const MAX_ACTIONS: u32 = 1_000;

/// Maximum number of bytes of a failed check's output to return to the worker.
const MAX_TAIL: usize = 8 << 10;

/// The rules of a managing policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ManagingPolicy {
    pub name: String,
    /// Maximum number of actions in one team. The last one reports to the operator that the limit
    /// is reached.
    pub actions: u32,
    /// Whether to run the checks when the workers report that they are done.
    pub check: bool,
    /// The maximum number of times that work is returned because a check failed or evidence is
    /// missing.
    pub rework: u32,
    pub rework_text: Option<String>,
    /// Whether to accept members' proposals. Otherwise, the operator is notified.
    pub accept: bool,
    /// The time that a worker may be idle without a report before it is nudged.
    pub nudge_after_ms: Option<u64>,
    pub nudges: u32,
    pub nudge_text: Option<String>,
    /// Whether to request the next iteration of a loop while something is still open.
    pub continue_loop: bool,
    /// Whether to finish the team when nothing is open. Otherwise, the operator is notified.
    pub finish: bool,
}

impl Default for ManagingPolicy {
    fn default() -> Self {
        ManagingPolicy {
            name: "policy".to_owned(),
            actions: 50,
            check: true,
            rework: 3,
            rework_text: None,
            accept: false,
            nudge_after_ms: None,
            nudges: 3,
            nudge_text: None,
            continue_loop: true,
            finish: true,
        }
    }
}

/// A worker's progress counters. If a counter differs from an earlier one, the worker has done more
/// work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProgressMark {
    pub turns: u32,
    pub attempts: u32,
    /// The newest message that the worker acknowledged. Used if the worker has no session.
    pub handled: u32,
}

/// The state of a worker that is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleWorker {
    pub mark: ProgressMark,
    /// Whether the worker reports that it is done.
    pub done: bool,
}

/// A failed check that has not been returned to the worker yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsentFailure {
    pub no: u32,
    pub command: String,
    pub end: CheckEnd,
    pub tail: String,
}

/// An action of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyAction {
    /// Accepted a proposed criterion.
    Accepted {
        criterion: u32,
    },
    /// Ran the checks on this generation of the work.
    Checked {
        generation: u32,
    },
    /// Returned work together with the output of its checks.
    Returned {
        to: String,
    },
    /// Requested evidence that no command can provide.
    EvidenceRequested {
        generation: u32,
    },
    Continued {
        iteration: u32,
    },
    Nudged {
        to: String,
    },
    /// Notified the operator.
    Escalated(EscalationSubject),
    /// Requested that the team finish.
    Finished {
        generation: u32,
    },
    /// Notified the operator that the action limit is reached.
    GaveUp,
}

/// The subject of a notification to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EscalationSubject {
    /// A worker asked a question.
    Question {
        member: String,
        request: String,
        revision: u32,
    },
    /// A check did not run to completion, so its result is unknown.
    Unfinished {
        check: u32,
    },
    /// The rework limit is reached.
    ReworkSpent,
    NudgesSpent,
    /// The policy cannot resolve what blocks the finish.
    Stuck {
        generation: u32,
    },
    /// Nothing blocks the finish, but the policy is not allowed to finish the team, or nothing
    /// proves the work.
    Ready {
        generation: u32,
    },
    /// One of the policy's actions was refused.
    Refused {
        action: u32,
    },
}

/// The observations and actions of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PolicyState {
    pub actions: Vec<PolicyAction>,
    /// The reason why the newest action was refused, if it was refused.
    pub refused: Option<String>,
    /// The idle workers, and since when each has been idle.
    pub idle: BTreeMap<String, (IdleWorker, Moment)>,
    /// The progress of each worker when it last reported that it was done.
    pub counted: BTreeMap<String, ProgressMark>,
    /// The number of times that all workers have reported that they were done.
    pub generation: u32,
    pub failed: Vec<UnsentFailure>,
}

/// A summary of a member's messages.
#[derive(Clone, Copy, Default)]
struct InboxSummary {
    /// Whether any message is unsettled.
    open: bool,
    /// The newest message that has been handled.
    handled: Option<u32>,
}

/// An action that a rule wants to perform.
struct PolicyIntent {
    act: PolicyAction,
    commands: Vec<TeamCommand>,
}

impl PolicyState {
    fn has(&self, act: &PolicyAction) -> bool {
        self.actions.contains(act)
    }

    fn count(&self, of: impl Fn(&PolicyAction) -> bool) -> u32 {
        u32::try_from(self.actions.iter().filter(|act| of(act)).count()).unwrap_or(u32::MAX)
    }

    fn reworks(&self) -> u32 {
        self.count(|act| {
            matches!(act, PolicyAction::Returned { .. } | PolicyAction::EvidenceRequested { .. })
        })
    }

    fn nudges(&self) -> u32 {
        self.count(|act| matches!(act, PolicyAction::Nudged { .. }))
    }

    pub(super) fn record_observation(&mut self, e: &PolicyObserved, at: Moment) {
        let Some(rest) = e.idle else {
            self.idle.remove(&e.worker);
            return;
        };
        self.idle.insert(e.worker.clone(), (rest, at));
        if rest.done && self.counted.get(&e.worker) != Some(&rest.mark) {
            self.counted.insert(e.worker.clone(), rest.mark);
            self.generation += 1;
        }
    }

    pub(super) fn record_action(&mut self, e: &PolicyActed) {
        // The failed checks were returned to the worker who must fix them, or will run again.
        let settled = match e.action {
            PolicyAction::Returned { .. }
            | PolicyAction::Continued { .. }
            | PolicyAction::Checked { .. }
            | PolicyAction::Finished { .. } => e.refused.is_none(),
            PolicyAction::Accepted { .. }
            | PolicyAction::EvidenceRequested { .. }
            | PolicyAction::Nudged { .. }
            | PolicyAction::Escalated(_)
            | PolicyAction::GaveUp => false,
        };
        if settled {
            self.failed.clear();
        }
        self.actions.push(e.action.clone());
        self.refused = e.refused.clone();
    }

    /// Records the result of a check. If it passed, earlier failures of the same command are cleared.
    pub(super) fn record_check(&mut self, no: u32, receipt: &Receipt) {
        self.failed.retain(|failure| failure.command != receipt.command);
        if receipt.end != CheckEnd::Exit(0) {
            let (command, end) = (receipt.command.clone(), receipt.end.clone());
            self.failed.push(UnsentFailure { no, command, end, tail: receipt.tail.clone() });
        }
    }
}

impl Team {
    /// Returns the policy's next observation or action. None while the team is paused or after it
    /// has ended.
    pub(super) fn run_policy(
        &self,
        context: &TeamAdvanceContext<'_>,
        scope: StepScope,
    ) -> Option<TeamStep> {
        let policy = self.spec.policy.as_ref()?;
        if self.phase != TeamPhase::Active {
            return None;
        }
        if let Some(saw) = self.watch_workers(context, scope) {
            return Some(TeamStep::Events(vec![saw.into()]));
        }
        // The rules concern all workers, so they act only once each of them has been observed.
        if scope != StepScope::Team {
            return None;
        }
        let done = u32::try_from(self.policy.actions.len()).unwrap_or(u32::MAX);
        let left = policy.actions.saturating_sub(done);
        let want = (left > 0).then(|| self.next_intent(policy, context)).flatten()?;
        let want = if left == 1 { self.give_up(policy, &want) } else { want };
        Some(TeamStep::Events(self.execute_intent(want, context)))
    }

    /// Returns the next time at which the policy must act, even if nothing else happens until then.
    pub(super) fn policy_deadline(&self) -> Option<u64> {
        if self.phase != TeamPhase::Active {
            return None;
        }
        let policy = self.spec.policy.as_ref()?;
        let acts = u32::try_from(self.policy.actions.len()).unwrap_or(u32::MAX);
        let spent = self.policy.has(&PolicyAction::Escalated(EscalationSubject::NudgesSpent))
            || acts >= policy.actions;
        if spent {
            return None;
        }
        let after = policy.nudge_after_ms?;
        let silent = self.policy.idle.values().filter(|(rest, _)| !rest.done);
        silent.map(|(_, since)| since.deadline(after)).min()
    }

    /// Observes which workers are idle. Each change is recorded once.
    fn watch_workers(
        &self,
        context: &TeamAdvanceContext<'_>,
        scope: StepScope,
    ) -> Option<PolicyObserved> {
        let inboxes = LazyCell::new(|| self.inboxes());
        let in_scope = |worker: &&TeamMember| {
            scope == StepScope::Team || scope.filter(worker.session).is_some()
        };
        let changed = self.bound(MemberRole::Worker).filter(in_scope).find_map(|worker| {
            let seen = self.policy.idle.get(&worker.name).map(|(rest, _)| *rest);
            let inbox = inboxes.get(worker.name.as_str()).copied().unwrap_or_default();
            let now = self.idle_state(worker, inbox, context)?;
            (now != seen).then(|| PolicyObserved { worker: worker.name.clone(), idle: now })
        });
        let gone = || {
            let name = self.policy.idle.keys().find(|name| self.member(name).is_none())?;
            Some(PolicyObserved { worker: name.clone(), idle: None })
        };
        changed.or_else(gone)
    }

    /// Returns a worker's idle state. None if the session cannot be read. In that case, the last observation remains
    /// valid.
    fn idle_state(
        &self,
        worker: &TeamMember,
        inbox: InboxSummary,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<Option<IdleWorker>> {
        if inbox.open {
            return Some(None);
        }
        let Some(session) = worker.session else {
            let mark =
                inbox.handled.map(|handled| ProgressMark { handled, ..ProgressMark::default() });
            // Settled messages are evicted after a while, so use the last observation as well.
            let seen = self.policy.idle.get(&worker.name).map(|(rest, _)| rest.mark);
            return Some(mark.or(seen).map(|mark| IdleWorker { mark, done: true }));
        };
        let session = (context.session)(session)?;
        Some(accepts_message(session).then(|| session_idle_state(session)))
    }

    /// Summarizes the messages of each member in one pass.
    fn inboxes(&self) -> BTreeMap<&str, InboxSummary> {
        let mut inboxes: BTreeMap<&str, InboxSummary> = BTreeMap::new();
        for message in &self.messages {
            let inbox = inboxes.entry(message.to.name()).or_default();
            inbox.open |= !message.status.is_over();
            if matches!(message.status, MessageStatus::Acknowledged { .. }) {
                inbox.handled = inbox.handled.max(Some(message.no));
            }
        }
        inboxes
    }

    /// Returns the first action that a rule wants to perform.
    fn next_intent(
        &self,
        policy: &ManagingPolicy,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<PolicyIntent> {
        self.escalate_questions(context)
            .or_else(|| self.escalate_refusal())
            .or_else(|| self.handle_failed_checks(policy, context))
            .or_else(|| self.handle_done_work(policy, context))
            .or_else(|| self.nudge_silent_worker(policy, context.now))
    }

    /// Executes the commands under the same rules as for any other actor, and records the result.
    fn execute_intent(&self, want: PolicyIntent, context: &TeamAdvanceContext<'_>) -> Vec<Event> {
        let mut after = self.clone();
        let (mut events, mut refused) = (Vec::new(), None);
        for command in &want.commands {
            match after.decide(&TeamActor::Policy, command, context) {
                Ok(more) => {
                    more.iter().for_each(|event| after.evolve(context.now, event));
                    events.extend(more);
                }
                Err(TeamRejection::NothingNew) => {}
                Err(why) => refused = Some(why.to_string()),
            }
        }
        // Record the action first, because the event that ends the team must come last.
        [PolicyActed { action: want.act, refused }.into()].into_iter().chain(events).collect()
    }
}

/// Returns the idle state of a session.
fn session_idle_state(session: &Session) -> IdleWorker {
    let NewsWatermark { turns_ended, attempts_sealed, .. } = session_watermark(session);
    let claim = session.attempt().claim.as_ref();
    let done = claim.is_some_and(|claim| claim.kind == ClaimKind::Completed);
    IdleWorker {
        mark: ProgressMark { turns: turns_ended, attempts: attempts_sealed, handled: 0 },
        done,
    }
}

impl PolicyAction {
    /// Describes the action.
    pub fn describe(&self) -> String {
        match self {
            PolicyAction::Accepted { criterion } => format!("accepted criterion {criterion}"),
            PolicyAction::Checked { .. } => "ran the open checks".to_owned(),
            PolicyAction::Returned { to } => format!("sent work back to {}", quote_name(to)),
            PolicyAction::EvidenceRequested { .. } => "asked for missing evidence".to_owned(),
            PolicyAction::Continued { iteration } => format!("asked for iteration {iteration}"),
            PolicyAction::Nudged { to } => format!("nudged {}", quote_name(to)),
            PolicyAction::Escalated(about) => {
                format!("notified the operator: {}", about.describe())
            }
            PolicyAction::Finished { .. } => "asked to finish the team".to_owned(),
            PolicyAction::GaveUp => "notified the operator that its limit is reached".to_owned(),
        }
    }
}

impl EscalationSubject {
    pub fn describe(&self) -> String {
        match self {
            EscalationSubject::Question { member, .. } => {
                format!("{} asks something", quote_name(member))
            }
            EscalationSubject::Unfinished { check } => format!("check {check} could not be run"),
            EscalationSubject::ReworkSpent => "the rework limit is reached".to_owned(),
            EscalationSubject::NudgesSpent => {
                "a worker is idle and the nudge limit is reached".to_owned()
            }
            EscalationSubject::Stuck { .. } => {
                "something is open that the policy cannot resolve".to_owned()
            }
            EscalationSubject::Ready { .. } => "nothing is open".to_owned(),
            EscalationSubject::Refused { action: act } => format!("action {act} was refused"),
        }
    }
}
