//! The actions that the managing policy decides on.

use crate::{
    team::{
        advance::TeamAdvanceContext,
        command::{CheckSubject, NewMessage, TeamCommand},
        criterion::{Criterion, CriterionJudgement, CriterionState},
        finish::FinishBlocker,
        loop_state::{LoopProof, LoopRequirement},
        member::{MemberRole, TeamMember},
        message::{MessageChannel, Priority, Recipient, TeamMessageKind},
        policy::{
            EscalationSubject, IdleWorker, MAX_TAIL, ManagingPolicy, PolicyAction, PolicyIntent,
            UnsentFailure,
        },
        state::Team,
    },
    text::{quote_lines, quote_name, quote_text, visible},
    time::Moment,
    verdict::CheckEnd,
};

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

impl Team {
    /// Forwards workers' questions to the operator.
    pub(super) fn escalate_questions(
        &self,
        context: &TeamAdvanceContext<'_>,
    ) -> Option<PolicyIntent> {
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
    pub(super) fn escalate_refusal(&self) -> Option<PolicyIntent> {
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
    pub(super) fn handle_failed_checks(
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
    pub(super) fn handle_done_work(
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

    pub(super) fn missing_evidence(
        &self,
        of: impl Fn(&LoopProof) -> bool,
    ) -> Vec<&LoopRequirement> {
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

    pub(super) fn nudge_silent_worker(
        &self,
        policy: &ManagingPolicy,
        now: Moment,
    ) -> Option<PolicyIntent> {
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
    pub(super) fn escalate(&self, about: EscalationSubject, text: String) -> Option<PolicyIntent> {
        let act = PolicyAction::Escalated(about);
        let post = || {
            self.message_command(Recipient::Operator, TeamMessageKind::Note, Priority::High, text)
        };
        (!self.policy.has(&act)).then(|| PolicyIntent { act, commands: vec![post()] })
    }

    /// Uses the last action to report that the limit is reached.
    pub(super) fn give_up(&self, policy: &ManagingPolicy, wanted: &PolicyIntent) -> PolicyIntent {
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

    pub(super) fn message_command(
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
}
