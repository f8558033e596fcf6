//! Applies events to a team. This never fails, because every stored event must remain readable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    blind_proposals::{Proposal, ProposalRound},
    criterion::{Criterion, CriterionJudgement, CriterionSource, CriterionState},
    dedup::{EvictedMessage, MAX_KEYS_KEPT},
    event::*,
    loop_state::{CompletedIteration, Loop},
    manager::ManagerMove,
    member::{MemberRole, NewsWatermark, TeamActor, TeamMember},
    message::{MAX_SETTLED_KEPT, MessageStatus, MessageTrust, Recipient, TeamMessage},
    messages::TeamMessages,
    onboarding::{is_onboarding, onboarded_member},
    policy::PolicyState,
    state::{
        AuditedWork, CheckPurpose, CompletedCheck, FailedCheck, FinishAudit, MAX_RESULTS,
        PendingCheck, Team, TeamPhase,
    },
};
use crate::{
    ids::TeamId,
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

impl Team {
    /// Creates a team from its first event.
    pub fn open(id: TeamId, at: Moment, event: &TeamOpened) -> Team {
        let spec = (*event.spec).clone();
        Team {
            id,
            opened: at,
            phase: TeamPhase::Open,
            since: at,
            members: Vec::new(),
            messages: TeamMessages::default(),
            messages_stored: 0,
            evicted: Vec::new(),
            criteria: Vec::new(),
            consented: BTreeSet::new(),
            loop_state: None,
            config: spec.config.clone(),
            moves: Vec::new(),
            epilogue: BTreeSet::new(),
            challenged: false,
            checks: Vec::new(),
            checks_requested: 0,
            failed: Vec::new(),
            results: Vec::new(),
            audit: None,
            audits: 0,
            audited: None,
            blockers: Vec::new(),
            allowed: Vec::new(),
            next: None,
            refused: Vec::new(),
            policy: PolicyState::default(),
            spec,
        }
    }

    /// Applies one event.
    pub fn evolve(&mut self, at: Moment, event: &Event) {
        match event {
            Event::Team(event) => self.apply_change(at, event),
            Event::Member(event) => self.apply_member(at, event),
            Event::Message(event) => {
                self.apply_message(at, event);
                self.clear_continuation();
            }
            Event::Criterion(event) => self.apply_criterion(at, event),
            Event::Check(event) => self.apply_check(event),
            Event::Loop(event) => self.apply_loop(at, event),
            Event::Manager(event) => self.apply_manager(at, event),
            Event::Finish(event) => self.apply_finish(event),
        }
    }

    /// Applies a change to the team itself.
    fn apply_change(&mut self, at: Moment, event: &TeamChange) {
        match event {
            // `open` handles this event, which is always the first in the stream.
            TeamChange::TeamOpened(_) => {}
            TeamChange::TeamRenamed(e) => self.spec.name.clone_from(&e.name),
            TeamChange::PhaseChanged(e) => self.enter_phase(e.phase.clone(), at),
            TeamChange::CommandsApproved(e) => self.consented.extend(e.commands.iter().cloned()),
            TeamChange::Configured(e) => self.config = (*e.config).clone(),
        }
    }

    /// Applies an event about a criterion.
    fn apply_criterion(&mut self, at: Moment, event: &CriterionEvent) {
        match event {
            CriterionEvent::CriterionProposed(e) => self.propose_criterion(e, at),
            CriterionEvent::CriterionJudged(e) => self.judge_criterion(e, at),
        }
    }

    /// Applies an event about a check.
    fn apply_check(&mut self, event: &CheckEvent) {
        match event {
            CheckEvent::CheckRequested(e) => {
                self.checks_requested = e.check.no;
                self.checks.push(e.check.clone());
            }
            CheckEvent::CheckJoined(e) => {
                let check = self.checks.iter_mut().find(|check| check.no == e.no);
                if let Some(check) = check {
                    check.joined.push(e.by.clone());
                }
            }
            CheckEvent::CheckDone(e) => self.end_check(e),
        }
    }

    /// Applies an event about a manager or the managing policy.
    fn apply_manager(&mut self, at: Moment, event: &ManagerEvent) {
        match event {
            ManagerEvent::MoveRecorded(e) => {
                let (kind, because, by) = (e.kind, e.because.clone(), e.by.clone());
                let (used, withdrawn) = (false, false);
                self.moves.push(ManagerMove { kind, because, by, at, used, withdrawn });
            }
            ManagerEvent::MoveUsed(_) => {
                if let Some(newest) = self.moves.last_mut() {
                    newest.used = true;
                }
            }
            ManagerEvent::ActionRefused(e) => self.add_refusal(e),
            ManagerEvent::EpilogueDone(e) => drop(self.epilogue.insert(e.step)),
            ManagerEvent::PolicyObserved(e) => self.policy.record_observation(e, at),
            ManagerEvent::PolicyActed(e) => self.policy.record_action(e),
            ManagerEvent::NextProposed(e) => self.add_proposal(e),
            ManagerEvent::NextChosen(e) => {
                if let Some(round) = self.next.as_mut().filter(|round| round.no == e.round) {
                    round.chosen = Some((e.choice, e.because.clone()));
                }
            }
        }
    }

    /// Applies an event about finishing the team.
    fn apply_finish(&mut self, event: &FinishEvent) {
        match event {
            FinishEvent::WorkChallenged(_) => self.challenged = true,
            FinishEvent::FinishRequested(e) => {
                self.audits = e.no;
                self.audit = Some(FinishAudit {
                    no: e.no,
                    because: e.because.clone(),
                    by: e.by.clone(),
                    receipts: Vec::new(),
                    allow: e.allow.clone(),
                });
                self.blockers.clear();
            }
            FinishEvent::FinishAllowed(e) => self.allowed.clone_from(&e.blockers),
            FinishEvent::FinishRefused(e) => {
                self.audit = None;
                self.blockers = e.blockers.clone();
            }
            FinishEvent::FinishReported(_) => {}
        }
    }

    fn enter_phase(&mut self, phase: TeamPhase, at: Moment) {
        if phase.is_over() {
            self.audit = None;
            self.checks.clear();
            self.blockers.clear();
            let because = format!("the team is {}", phase.as_str());
            // Leased messages are cancelled as well, because they can no longer be acknowledged.
            self.messages.change_where(
                |message| !message.status.is_over(),
                |message| message.status = MessageStatus::Cancelled { because: because.clone() },
            );
        }
        self.phase = phase;
        self.since = at;
    }

    /// Applies an event about a member.
    fn apply_member(&mut self, at: Moment, event: &MemberEvent) {
        match event {
            MemberEvent::MemberBound(e) => self.members.push(TeamMember {
                name: e.name.clone(),
                role: e.role,
                session: e.session,
                labels: e.labels.clone(),
                means: e.means,
                onboarded: false,
                handover: None,
                bound: at,
                left: None,
                acknowledged: None,
                reported: NewsWatermark::default(),
                news: Vec::new(),
            }),
            MemberEvent::MemberLeft(e) => self.retire_member(e, at),
            MemberEvent::MemberRotated(e) => self.replace_member(e, at),
            MemberEvent::MemberLabelled(e) => {
                self.with_member(&e.name, |member| member.labels = e.labels.clone());
            }
            MemberEvent::ContractAcknowledged(e) => {
                self.with_member(&e.name, |member| member.acknowledged = Some(e.revision));
            }
            MemberEvent::NewsReported(e) => self.with_member(&e.member, |member| {
                member.reported = NewsWatermark {
                    turns_ended: e.turns_ended,
                    attempts_sealed: e.attempts_sealed,
                    requests: e.requests,
                    processes_lost: e.processes_lost,
                };
                member.news = e.messages.clone();
            }),
            // This event does not change the state of a team. A session's own events record the order to the session.
            MemberEvent::MemberOrdered(_) => {}
        }
    }

    fn with_member(&mut self, name: &str, change: impl FnOnce(&mut TeamMember)) {
        let member = self.members.iter_mut().find(|member| member.name == name);
        if let Some(member) = member {
            change(member);
        }
    }

    fn retire_member(&mut self, e: &MemberLeft, at: Moment) {
        self.with_member(&e.name, |member| member.left = Some(at));
        match &e.to {
            Some(to) => self.reassign_messages(&e.name, to),
            None => {
                let reason = format!("{} has left the team", e.name);
                self.messages.change_where(
                    |message| message.is_open_for(&e.name),
                    |message| {
                        message.status = if is_onboarding(message) {
                            MessageStatus::Cancelled { because: reason.clone() }
                        } else {
                            MessageStatus::Dead { reason: reason.clone() }
                        };
                    },
                );
            }
        }
        self.clear_continuation();
    }

    /// Hands the open messages of a member over to another member, except for messages about the member's own
    /// onboarding.
    fn reassign_messages(&mut self, from: &str, to: &str) {
        let because = format!("{from} has left the team");
        let to = Recipient::Member(to.to_owned());
        let open = self.messages.iter().filter(|message| message.is_open_for(from));
        let trust: BTreeMap<u32, MessageTrust> =
            open.map(|message| (message.no, self.trust_for(message, &to))).collect();
        self.messages.change_where(
            |message| message.is_open_for(from),
            |message| {
                if is_onboarding(message) {
                    message.status = MessageStatus::Cancelled { because: because.clone() };
                    return;
                }
                message.trust = trust.get(&message.no).copied().unwrap_or(message.trust);
                message.readdress(to.clone());
                message.redelivered |= message.status != MessageStatus::Stored;
                message.status = MessageStatus::Stored;
            },
        );
    }

    /// Hands the open messages of a replaced member over to its successor, except for messages about the member's own
    /// onboarding.
    fn replace_member(&mut self, e: &MemberRotated, at: Moment) {
        let Some(left) = self.members.iter_mut().find(|member| member.name == e.from) else {
            return;
        };
        left.left = Some(at);
        let role = left.role;
        self.members.push(TeamMember {
            name: e.to.clone(),
            role,
            session: e.session,
            labels: super::member::MemberLabels::default(),
            means: e.means,
            onboarded: false,
            handover: Some(e.handover.clone()),
            bound: at,
            left: None,
            acknowledged: None,
            reported: NewsWatermark::default(),
            news: Vec::new(),
        });
        self.reassign_messages(&e.from, &e.to);
    }

    /// Applies an event about messages between members.
    fn apply_message(&mut self, at: Moment, event: &MessageEvent) {
        match event {
            MessageEvent::MessageStored(e) => self.store_message(e, at),
            MessageEvent::MessageOffered(e) => self.messages.change(e.no, |message| {
                message.offers = e.lease.no;
                message.status = MessageStatus::Offered(e.lease.clone());
            }),
            MessageEvent::MessageAccepted(e) => {
                self.settle_message(e.no, MessageStatus::Accepted(e.lease.clone()));
            }
            MessageEvent::MessageAcknowledged(e) => {
                let lease = self.message(e.no).map_or(0, |message| message.offers);
                self.settle_message(e.no, MessageStatus::Acknowledged { by: e.by.clone(), lease });
            }
            MessageEvent::MessageReturned(e) => self.messages.change(e.no, |message| {
                message.redelivered |= message.status != MessageStatus::Stored;
                message.status = MessageStatus::Stored;
            }),
            MessageEvent::MessageExpired(e) => self.settle_message(e.no, MessageStatus::Expired),
            MessageEvent::MessageCancelled(e) => {
                self.settle_message(e.no, MessageStatus::Cancelled { because: e.because.clone() });
            }
            MessageEvent::MessageDead(e) => {
                self.messages.change(e.no, |message| message.dead_lettered_by = e.by.clone());
                self.settle_message(e.no, MessageStatus::Dead { reason: e.reason.clone() });
            }
            MessageEvent::MessageRequeued(e) => self.requeue(e),
            MessageEvent::UndeliveredReported(e) => {
                for no in &e.messages {
                    self.messages.change(*no, |message| message.reported = true);
                }
            }
            MessageEvent::NewsAdded(e) => {
                self.messages.change(e.no, |message| message.text = e.text.clone());
            }
        }
    }

    fn requeue(&mut self, e: &MessageRequeued) {
        let to = e.to.as_ref().map(|to| Recipient::Member(to.clone()));
        let trust = to.as_ref().and_then(|to| Some(self.trust_for(self.message(e.no)?, to)));
        self.messages.change(e.no, |message| {
            message.status = MessageStatus::Stored;
            message.expires_ms = None;
            message.forgiven_offers = message.offers;
            message.redelivered |= message.offers > 0;
            (message.dead_lettered_by, message.reported) = (None, false);
            if let Some(to) = to {
                message.trust = trust.unwrap_or(message.trust);
                message.readdress(to);
            }
        });
    }

    fn store_message(&mut self, e: &MessageStored, at: Moment) {
        self.messages_stored = e.no;
        if let Some(name) = onboarded_member(e) {
            self.with_member(name, |member| member.onboarded = true);
        }
        if let (Some(_), Some(looped)) = (e.iteration, &mut self.loop_state) {
            looped.continuation = Some(e.no);
        }
        if matches!(e.to, Recipient::Member(_)) {
            self.withdraw_last_move(&e.from);
        }
        self.messages.push(TeamMessage {
            no: e.no,
            key: e.key.clone(),
            correlation: e.correlation.clone(),
            from: e.from.clone(),
            channel: e.channel,
            trust: e.trust,
            to: e.to.clone(),
            sent_to: None,
            kind: e.kind,
            text: e.text.clone(),
            priority: e.priority,
            stored: at,
            expires_ms: e.expires_ms,
            window_ms: e.window_ms,
            iteration: e.iteration,
            steer: e.steer,
            begun: false,
            offers: 0,
            forgiven_offers: 0,
            redelivered: false,
            dead_lettered_by: None,
            reported: false,
            status: MessageStatus::Stored,
        });
    }

    /// Withdraws the last move if it was a decision to stop, because a manager that requests more
    /// work has not stopped.
    fn withdraw_last_move(&mut self, by: &TeamActor) {
        let continues = self.role_of(by) == Some(MemberRole::Manager);
        let newest = self.moves.last_mut().filter(|newest| continues && newest.kind.is_terminal());
        if let Some(newest) = newest {
            newest.withdrawn = true;
        }
    }

    fn settle_message(&mut self, no: u32, status: MessageStatus) {
        self.messages.change(no, |message| message.status = status);
        if let Some(oldest) = self.messages.evict_oldest_settled(MAX_SETTLED_KEPT) {
            self.evict_message(&oldest);
        }
    }

    fn evict_message(&mut self, message: &TeamMessage) {
        self.evicted.extend(EvictedMessage::from_message(message).map(Arc::new));
        if self.evicted.len() > MAX_KEYS_KEPT {
            self.evicted.remove(0);
        }
    }

    /// Clears a continuation that can no longer be accepted, so that it does not block anything.
    fn clear_continuation(&mut self) {
        let Some(asked) = self.loop_state.as_ref().and_then(|looped| looped.continuation) else {
            return;
        };
        let is_over = self.message(asked).is_none_or(|message| message.status.is_over());
        if is_over && let Some(looped) = &mut self.loop_state {
            looped.continuation = None;
        }
    }

    fn add_proposal(&mut self, e: &NextProposed) {
        let proposal = Proposal { by: e.by.clone(), text: e.text.clone() };
        match self.next.as_mut().filter(|round| round.no == e.round) {
            Some(round) => round.manager = Some(proposal),
            None => {
                let (manager, chosen) = (None, None);
                self.next = Some(ProposalRound { no: e.round, worker: proposal, manager, chosen });
            }
        }
    }

    fn propose_criterion(&mut self, e: &CriterionProposed, at: Moment) {
        if e.source == CriterionSource::User {
            self.consented.extend(e.needs.command().map(str::to_owned));
        }
        self.criteria.push(Criterion {
            no: e.no,
            text: e.text.clone(),
            source: e.source,
            rationale: e.rationale.clone(),
            needs: e.needs.clone(),
            state: CriterionState::Proposed,
            since: at,
            dropped_by: None,
        });
    }

    fn judge_criterion(&mut self, e: &CriterionJudged, at: Moment) {
        let criterion = self.criteria.iter_mut().find(|criterion| criterion.no == e.no);
        if let Some(criterion) = criterion
            && let Some(state) = criterion.state.after(&e.judgement)
        {
            if e.by == TeamActor::Operator && e.judgement == CriterionJudgement::Accept {
                self.consented.extend(criterion.needs.command().map(str::to_owned));
            }
            criterion.state = state;
            criterion.since = at;
            let lays_aside = matches!(
                e.judgement,
                CriterionJudgement::Defer { .. } | CriterionJudgement::Reject { .. }
            );
            let dropped =
                lays_aside && e.by.is_manager() && criterion.source == CriterionSource::User;
            criterion.dropped_by = dropped.then(|| e.by.name().to_owned());
        }
    }

    fn end_check(&mut self, e: &CheckDone) {
        let Some(at) = self.checks.iter().position(|check| check.no == e.no) else { return };
        let check = self.checks.remove(at);
        let receipt = (*e.receipt).clone();
        self.results.push(Arc::new(CompletedCheck { no: e.no, receipt }));
        if self.results.len() > MAX_RESULTS {
            self.results.remove(0);
        }
        if self.spec.policy.is_some() {
            self.policy.record_check(e.no, &e.receipt);
        }
        match (&check.purpose, &mut self.audit) {
            (CheckPurpose::Audit(no), Some(audit)) if audit.no == *no => {
                audit.receipts.push((*e.receipt).clone());
                let (worker, tree) = (check.worker, e.receipt.tree.clone());
                self.audited = Some(AuditedWork { worker, tree });
            }
            (CheckPurpose::Audit(_), _) => {}
            (CheckPurpose::Evidence { iteration, name }, _) => {
                let looped =
                    self.loop_state.as_mut().filter(|looped| looped.iteration == *iteration);
                if let Some(looped) = looped
                    && e.receipt.end != CheckEnd::Exit(0)
                {
                    looped.retract(name);
                }
                self.remember_failure(check, &e.receipt);
            }
            (CheckPurpose::Criterion(_), _) => self.remember_failure(check, &e.receipt),
        }
    }

    /// Remembers that a check failed, without its output, until the check is run again.
    fn remember_failure(&mut self, check: PendingCheck, receipt: &Receipt) {
        let PendingCheck { purpose, worker, .. } = check;
        self.failed.retain(|failed| failed.purpose != purpose);
        if receipt.end != CheckEnd::Exit(0) {
            let receipt = Receipt { tail: String::new(), ..receipt.clone() };
            self.failed.push(FailedCheck { purpose, worker, receipt });
        }
    }

    /// Forgets the failed checks for evidence, because these checks belong to one iteration, as does the evidence.
    fn clear_evidence_failures(&mut self) {
        self.failed.retain(|failed| !matches!(failed.purpose, CheckPurpose::Evidence { .. }));
    }

    /// Applies an event about the loop.
    fn apply_loop(&mut self, at: Moment, event: &LoopEvent) {
        match event {
            LoopEvent::LoopBegun(e) => {
                let (template, by) = ((*e.template).clone(), e.by.clone());
                if by == TeamActor::Operator {
                    self.consented.extend(template.commands().map(str::to_owned));
                }
                self.loop_state = Some(Loop::begin(template, by, self.messages_stored));
                self.clear_evidence_failures();
                self.withdraw_last_move(&e.by);
            }
            LoopEvent::LoopAdvanced(e) => {
                self.clear_evidence_failures();
                self.messages.change(e.message, |message| message.begun = true);
            }
            LoopEvent::EvidenceShown(_)
            | LoopEvent::ContinuationRefused(_)
            | LoopEvent::ConversationCleanedUp(_)
            | LoopEvent::LoopEnded(_) => {}
        }
        if let Some(looped) = &mut self.loop_state {
            looped.apply(at, event);
        }
    }
}

impl Loop {
    fn apply(&mut self, at: Moment, event: &LoopEvent) {
        match event {
            LoopEvent::LoopBegun(_) => {}
            LoopEvent::EvidenceShown(e) => {
                if e.iteration == self.iteration {
                    self.record_evidence(&e.name, &e.shown);
                    self.shown_by.insert(e.name.clone(), e.by.clone());
                }
            }
            LoopEvent::ContinuationRefused(e) => {
                self.refusals += 1;
                self.last_refusal = Some(e.why.code().to_owned());
            }
            LoopEvent::LoopAdvanced(e) => {
                self.completed.push(CompletedIteration {
                    iteration: self.iteration,
                    message: e.message,
                    consumer: e.consumer.clone(),
                    at,
                    fingerprint: e.fingerprint.clone(),
                });
                self.iteration = e.to;
                self.continuation = None;
                self.compactions = None;
                self.evidence_shown.clear();
                self.shown_by.clear();
            }
            LoopEvent::ConversationCleanedUp(e) => {
                self.cleaned_for = Some(e.message);
                self.compactions = e.compactions;
            }
            LoopEvent::LoopEnded(e) => {
                self.ended = Some(e.end.clone());
                self.ended_by = e.by.clone();
                self.continuation = None;
            }
        }
    }
}
