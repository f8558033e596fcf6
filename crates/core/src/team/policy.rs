//! A manager that is implemented by rules instead of an agent.
//!
//! On each `advance`, the first rule that applies acts as [`TeamActor::Policy`], with the permissions of a manager. All
//! actions are recorded with the team. Each rule checks the record before it acts, so that the policy handles each
//! situation once and the number of actions is limited.

use std::{cell::LazyCell, collections::BTreeMap};

use serde::{Deserialize, Serialize};

use super::{
    advance::{StepScope, TeamAdvanceContext, TeamStep, accepts_message},
    command::{CheckSubject, NewMessage, TeamCommand, TeamRejection},
    criterion::{Criterion, CriterionJudgement, CriterionState},
    event::*,
    finish::FinishBlocker,
    loop_state::{LoopProof, LoopRequirement},
    member::{MemberRole, NewsWatermark, TeamActor, TeamMember},
    message::{MessageChannel, MessageStatus, Priority, Recipient, TeamMessageKind},
    news::session_watermark,
    state::{Team, TeamPhase},
};
use crate::{
    lifecycle::ClaimKind,
    session::Session,
    text::{quote_lines, quote_name, quote_text, visible},
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

    /// Forwards workers' questions to the operator.
    fn escalate_questions(&self, context: &TeamAdvanceContext<'_>) -> Option<PolicyIntent> {
        self.bound(MemberRole::Worker).find_map(|worker| {
            let session = (context.session)(worker.session?)?;
            session.open_requests().find_map(|request| {
                let about = EscalationSubject::Question {
                    member: worker.name.clone(),
                    request: request.id.to_string(),
                    revision: request.revision,
                };
                let verb = if session.is_screen_only(request) { "attach" } else { "answer" };
                let text = format!(
                    "{} asks: {}\nAnswer it with: provost {verb} {}",
                    quote_name(&worker.name),
                    quote_text(&request.asked.title),
                    session.id.short()
                );
                self.escalate(about, text)
            })
        })
    }

    /// Notifies the operator about a refused action.
    fn escalate_refusal(&self) -> Option<PolicyIntent> {
        let why = self.policy.refused.as_ref()?;
        let newest = self.policy.actions.last()?;
        if matches!(newest, PolicyAction::Escalated(_) | PolicyAction::GaveUp) {
            return None;
        }
        let act = u32::try_from(self.policy.actions.len()).unwrap_or(u32::MAX);
        let text = format!("Action {act} of the policy was refused: {}", visible(why));
        self.escalate(EscalationSubject::Refused { action: act }, text)
    }

    /// Returns failed checks to the worker, once all requested checks have finished.
    fn handle_failed_checks(
        &self,
        policy: &ManagingPolicy,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<PolicyIntent> {
        let failed = &self.policy.failed;
        if failed.is_empty() || !self.checks.is_empty() || self.audit.is_some() {
            return None;
        }
        let unfinished = failed.iter().find(|one| matches!(one.end, CheckEnd::Unfinished(_)));
        if let Some(failure) = unfinished {
            let text = format!("A check did not complete: {}", describe_failure(failure));
            return self.escalate(EscalationSubject::Unfinished { check: failure.no }, text);
        }
        let worker = self.checked_worker().ok()?;
        let found = failed.iter().map(describe_failure).collect::<Vec<_>>().join("\n\n");
        let intro = policy.rework_text.as_deref().unwrap_or(REWORK_TEXT);
        let text = format!("{intro}\n\n{found}");
        let next = self.running_loop().map(|looped| looped.iteration + 1);
        let gate = |iteration: &u32| {
            let looped = self.running_loop();
            looped.is_some_and(|looped| {
                looped.check_may_request(*iteration, context.tokens_used(self)).is_ok()
            })
        };
        match next.filter(gate) {
            Some(iteration) if policy.continue_loop => Some(PolicyIntent {
                act: PolicyAction::Continued { iteration },
                commands: vec![TeamCommand::Continue {
                    iteration,
                    to: worker.name.clone(),
                    key: self.free_key(),
                    text,
                    channel: MessageChannel::Rule,
                }],
            }),
            Some(_) | None => {
                self.send_back(policy, PolicyAction::Returned { to: worker.name.clone() }, text)
            }
        }
    }

    /// Returns work to the worker until the rework limit is reached. After that, notifies the
    /// operator once.
    fn send_back(
        &self,
        policy: &ManagingPolicy,
        act: PolicyAction,
        text: String,
    ) -> Option<PolicyIntent> {
        if self.policy.reworks() >= policy.rework {
            let text = format!(
                "Work was sent back {} times, the limit of the policy {}. Still open:\n{text}",
                policy.rework,
                quote_name(&policy.name)
            );
            return self.escalate(EscalationSubject::ReworkSpent, text);
        }
        let to = Recipient::Member(self.checked_worker().ok()?.name.clone());
        let post = self.message_command(to, TeamMessageKind::Instruction, Priority::Normal, text);
        Some(PolicyIntent { act, commands: vec![post] })
    }

    /// Decides what to do when all workers are idle and report that they are done.
    fn handle_done_work(
        &self,
        policy: &ManagingPolicy,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<PolicyIntent> {
        let mut workers = self.bound(MemberRole::Worker).peekable();
        workers.peek()?;
        let done = |worker: &TeamMember| {
            self.policy.idle.get(&worker.name).is_some_and(|(rest, _)| rest.done)
        };
        if !workers.all(done) || !self.checks.is_empty() || self.audit.is_some() {
            return None;
        }
        self.accept_criterion(policy)
            .or_else(|| self.check_work(policy))
            .or_else(|| self.request_evidence(policy))
            .or_else(|| self.finish_or_report(policy, context))
    }

    fn accept_criterion(&self, policy: &ManagingPolicy) -> Option<PolicyIntent> {
        let proposed = |criterion: &&Criterion| matches!(criterion.state, CriterionState::Proposed);
        if !policy.accept {
            return None;
        }
        let criterion = self.criteria.iter().find(proposed)?.no;
        let act = PolicyAction::Accepted { criterion };
        let judged = TeamCommand::Judge { no: criterion, judgement: CriterionJudgement::Accept };
        (!self.policy.has(&act)).then_some(PolicyIntent { act, commands: vec![judged] })
    }

    /// Runs all checks that are still open, once per generation of the work.
    fn check_work(&self, policy: &ManagingPolicy) -> Option<PolicyIntent> {
        let act = PolicyAction::Checked { generation: self.policy.generation };
        if !policy.check || self.policy.has(&act) {
            return None;
        }
        let accepted = |criterion: &&Criterion| {
            let check = criterion.needs.check();
            check.is_some_and(|check| self.check_consent(&check).is_ok())
                && matches!(criterion.state, CriterionState::Accepted)
        };
        let criteria = self.criteria.iter().filter(accepted);
        let criteria = criteria.map(|criterion| CheckSubject::Criterion(criterion.no));
        let evidence = self.missing_evidence(is_checkable);
        let evidence =
            evidence.into_iter().map(|required| CheckSubject::Evidence(required.name.clone()));
        let commands: Vec<TeamCommand> =
            criteria.chain(evidence).map(|what| TeamCommand::Check { what }).collect();
        (!commands.is_empty()).then_some(PolicyIntent { act, commands })
    }

    fn missing_evidence(&self, of: impl Fn(&LoopProof) -> bool) -> Vec<&LoopRequirement> {
        let Some(looped) = self.running_loop() else { return Vec::new() };
        let missing = looped.missing_evidence();
        let wanted =
            |required: &&LoopRequirement| missing.contains(&required.name) && of(&required.proof);
        looped.template.evidence.iter().filter(wanted).collect()
    }

    /// Requests from the worker the evidence that no command can provide.
    fn request_evidence(&self, policy: &ManagingPolicy) -> Option<PolicyIntent> {
        let missing = self.missing_evidence(|proof| !is_checkable(proof));
        let act = PolicyAction::EvidenceRequested { generation: self.policy.generation };
        if missing.is_empty() || self.policy.has(&act) {
            return None;
        }
        let asked: Vec<String> = missing
            .iter()
            .map(|required| format!("- {}: {}", required.name, required.proof.describe()))
            .collect();
        let text =
            format!("Before this continues, show the missing evidence:\n{}", asked.join("\n"));
        self.send_back(policy, act, text)
    }

    /// Finishes the team, or reports what blocks the finish.
    fn finish_or_report(
        &self,
        policy: &ManagingPolicy,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<PolicyIntent> {
        let generation = self.policy.generation;
        let mut blockers = self.blockers(context.session);
        // If no check proves the work, the operator must decide, which is reported below.
        blockers.retain(|blocker| *blocker != FinishBlocker::NothingProved);
        let unchanged = |one: &&FinishBlocker| matches!(one, FinishBlocker::NothingChanged { .. });
        blockers.extend(self.blockers.iter().filter(unchanged).cloned());
        if !blockers.is_empty() {
            // The failed checks have already been reported.
            if !self.policy.failed.is_empty() {
                return None;
            }
            let open: Vec<String> = blockers.iter().map(|blocker| format!("- {blocker}")).collect();
            let text = format!(
                "The workers report that they are done, but these are open:\n{}",
                open.join("\n")
            );
            return self.escalate(EscalationSubject::Stuck { generation }, text);
        }
        // An assertion alone is not enough to finish a team.
        let proved = !self.audit_checks().is_empty() || self.loop_state.is_some();
        if !policy.finish || !proved {
            let why = if proved { "you can finish the team" } else { "no check proves the work" };
            let text =
                format!("The workers report that they are done, and nothing is open; {why}.");
            return self.escalate(EscalationSubject::Ready { generation }, text);
        }
        let act = PolicyAction::Finished { generation };
        let because =
            format!("the policy {} found every criterion satisfied", quote_name(&policy.name));
        let finish = TeamCommand::Finish { because, allow: Vec::new() };
        (!self.policy.has(&act)).then(|| PolicyIntent { act, commands: vec![finish] })
    }

    fn nudge_silent_worker(&self, policy: &ManagingPolicy, now: Moment) -> Option<PolicyIntent> {
        let after = policy.nudge_after_ms?;
        let silent =
            |(rest, since): &(IdleWorker, Moment)| !rest.done && now.is_past(*since, after);
        let (name, _) = self.policy.idle.iter().find(|(_, rested)| silent(rested))?;
        if self.policy.nudges() >= policy.nudges {
            let text = format!(
                "{} is idle without a report, and was nudged {} times.",
                quote_name(name),
                policy.nudges
            );
            return self.escalate(EscalationSubject::NudgesSpent, text);
        }
        let text = policy.nudge_text.as_deref().unwrap_or(NUDGE_TEXT).to_owned();
        let to = Recipient::Member(name.clone());
        let post = self.message_command(to, TeamMessageKind::Instruction, Priority::Normal, text);
        Some(PolicyIntent { act: PolicyAction::Nudged { to: name.clone() }, commands: vec![post] })
    }

    /// Notifies the operator, once.
    fn escalate(&self, about: EscalationSubject, text: String) -> Option<PolicyIntent> {
        let act = PolicyAction::Escalated(about);
        let post = || {
            self.message_command(Recipient::Operator, TeamMessageKind::Note, Priority::High, text)
        };
        (!self.policy.has(&act)).then(|| PolicyIntent { act, commands: vec![post()] })
    }

    /// Uses the last action to report that the limit is reached.
    fn give_up(&self, policy: &ManagingPolicy, wanted: &PolicyIntent) -> PolicyIntent {
        let text = format!(
            "The policy {} has reached its limit of {} actions. Its next action would have been: {}",
            quote_name(&policy.name),
            policy.actions.saturating_sub(1),
            wanted.act.describe()
        );
        let post =
            self.message_command(Recipient::Operator, TeamMessageKind::Note, Priority::High, text);
        PolicyIntent { act: PolicyAction::GaveUp, commands: vec![post] }
    }

    fn message_command(
        &self,
        to: Recipient,
        kind: TeamMessageKind,
        priority: Priority,
        text: String,
    ) -> TeamCommand {
        TeamCommand::Post(Box::new(NewMessage {
            key: self.free_key(),
            correlation: None,
            channel: MessageChannel::Rule,
            to,
            kind,
            text,
            priority,
            expires_in_ms: None,
            steer: false,
        }))
    }

    /// Returns an unused key, so that a member cannot suppress a message by using its key first.
    fn free_key(&self) -> String {
        let act = self.policy.actions.len() + 1;
        let taken = |key: &String| self.messages.iter().any(|message| message.key == *key);
        let mut keys = (0_u32..).map(|n| format!("policy-{act}-{n}"));
        keys.find(|key| !taken(key)).unwrap_or_default()
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

/// Whether the policy can run the check, because everything that the check needs is known.
fn is_checkable(proof: &LoopProof) -> bool {
    match proof {
        LoopProof::Verified { .. } | LoopProof::Pictures { files: Some(_), .. } => true,
        LoopProof::Asserted
        | LoopProof::Adversarial
        | LoopProof::Artifact { .. }
        | LoopProof::Pictures { files: None, .. } => false,
    }
}

const REWORK_TEXT: &str =
    "Checks of your work failed. Fix the problems, and report again that you are done.";

const NUDGE_TEXT: &str =
    "You are idle and have not reported that you are done. Continue; if you are stuck, say why.";

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

/// Describes a failed check. Its output is quoted, because the work under review may have produced it.
fn describe_failure(failure: &UnsentFailure) -> String {
    let head = format!("`{}`: {}", visible(&failure.command), failure.end.summary());
    let tail = failure.tail.trim_end();
    let cut = tail.len().saturating_sub(MAX_TAIL);
    let start = (cut..tail.len()).find(|at| tail.is_char_boundary(*at)).unwrap_or(tail.len());
    match &tail[start..] {
        "" => head,
        tail => format!("{head}\n{}", quote_lines(tail)),
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
