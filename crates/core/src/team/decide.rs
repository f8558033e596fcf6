//! Command handlers. They are pure: the same team, actor, command and context always produce the
//! same events.

use super::{
    advance::TeamAdvanceContext,
    command::{TeamCommand, TeamRejection},
    criterion::check_meaningful,
    event::*,
    loop_evidence::{ShownEvidence, WorkChallenge},
    loop_handlers::Continuation,
    loop_state::LoopProof,
    manager::{EpilogueStep, ManagerConfig, ManagerMode, MoveKind, TeamAction},
    member::{
        MemberCapabilities, MemberLabels, MemberOrder, MemberRole, RESERVED, TeamActor, TeamMember,
        is_member_name,
    },
    message::{MessageTrust, Priority, Recipient, TeamMessageKind},
    onboarding::{handover_key, is_onboarding},
    state::{Team, TeamPhase},
};
use crate::ids::SessionId;

pub(super) type TeamCommandResult = Result<Vec<Event>, TeamRejection>;

pub(super) fn single_event(event: impl Into<Event>) -> TeamCommandResult {
    Ok(vec![event.into()])
}

impl Team {
    /// Handles a command from an actor.
    pub fn decide(
        &self,
        actor: &TeamActor,
        command: &TeamCommand,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        // The answer to a connection probe only proves that the member is reachable, so it requires
        // no permission.
        let action = if self.answers_probe(actor, command) { None } else { command.action() };
        if let Some(action) = action {
            self.check_permission(actor, action, command)?;
        }
        let mut events = self.dispatch(actor, command, context)?;
        // One move covers one action. A continuation that is refused does not use up the move.
        let refused =
            matches!(events.first(), Some(Event::Loop(LoopEvent::ContinuationRefused(_))));
        if let Some(action) = action
            && !refused
            && self.uses_move(actor, command)
        {
            // The event that ends the team must come last.
            let ends = matches!(events.last(), Some(Event::Team(TeamChange::PhaseChanged(e))) if e.phase.is_over());
            events.insert(events.len() - usize::from(ends), MoveUsed { action }.into());
        }
        Ok(events)
    }

    fn uses_move(&self, actor: &TeamActor, command: &TeamCommand) -> bool {
        // A command to a team that is over changes nothing.
        !self.phase.is_over()
            && self.role_of(actor) == Some(MemberRole::Manager)
            && self.needs_move(command)
            && self.move_for(command).is_some()
    }

    /// Checks that an actor may perform this action. This applies to every command on every channel.
    fn check_permission(
        &self,
        actor: &TeamActor,
        action: TeamAction,
        command: &TeamCommand,
    ) -> Result<(), TeamRejection> {
        let role = match actor {
            TeamActor::Operator | TeamActor::Provost => return Ok(()),
            TeamActor::Policy => MemberRole::Manager,
            TeamActor::Member(name) => {
                let who = name.clone();
                self.member(name).ok_or(TeamRejection::NoMember { who })?.role
            }
        };
        if !action.is_open_to(role) {
            return Err(TeamRejection::NotForRole { role, action });
        }
        match role {
            MemberRole::Manager => self.check_manager_permission(actor, action, command),
            MemberRole::Worker | MemberRole::Reviewer => Ok(()),
        }
    }

    fn check_manager_permission(
        &self,
        actor: &TeamActor,
        action: TeamAction,
        command: &TeamCommand,
    ) -> Result<(), TeamRejection> {
        if !self.is_allowed(action) {
            return Err(TeamRejection::NotGranted(action));
        }
        // A manager that is not permitted to act yet can still receive messages and acknowledge the contract.
        if action == TeamAction::Receive || *actor == TeamActor::Policy {
            return Ok(());
        }
        let read = self.member(actor.name()).and_then(|member| member.acknowledged);
        let revision = self.config.revision;
        match self.config.mode {
            ManagerMode::Light => return Ok(()),
            ManagerMode::Guided | ManagerMode::Strict if read != Some(revision) => {
                return Err(TeamRejection::ContractNotAccepted(revision));
            }
            ManagerMode::Guided | ManagerMode::Strict => {}
        }
        // Finishing a team that is already over has no effect and needs no move.
        let idempotent = matches!(command, TeamCommand::Finish { .. }) && self.phase.is_over();
        if self.needs_move(command) && self.move_for(command).is_none() && !idempotent {
            Err(TeamRejection::NoMove(command.required_moves()))
        } else {
            Ok(())
        }
    }

    fn dispatch(
        &self,
        actor: &TeamActor,
        command: &TeamCommand,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        if self.phase.is_over() {
            return self.decide_when_over(command);
        }
        match command {
            TeamCommand::Bind { name, role, session, labels } => {
                self.bind(name, *role, *session, labels, context)
            }
            TeamCommand::Retire { name, because, to, dead_letter } => {
                self.retire(name, because, to.as_deref(), *dead_letter)
            }
            TeamCommand::Rotate { from, to, session, handover } => {
                self.rotate(actor, from, to, *session, handover, context)
            }
            TeamCommand::Label { name, labels } => self.label(name, labels),
            TeamCommand::Rename { name } => self.rename(name),
            TeamCommand::AcknowledgeContract { revision } => {
                self.acknowledge_contract(actor, *revision)
            }
            TeamCommand::Post(post) => self.post(actor, post, context.now),
            TeamCommand::Next { consumer } => self.next(actor, consumer, context),
            TeamCommand::Accept { no, lease, polls } => {
                self.accept(actor, *no, *lease, *polls, context)
            }
            TeamCommand::Acknowledge { no, lease, note } => {
                self.acknowledge(actor, *no, *lease, note.clone())
            }
            TeamCommand::Release { no, lease, reason } => self.release(actor, *no, *lease, reason),
            TeamCommand::CancelMessage { no, because } => self.cancel_message(*no, because),
            TeamCommand::Requeue { no, because, to } => {
                self.requeue_message(*no, because, to.as_deref())
            }
            TeamCommand::DeadLetter { no, reason } => self.dead_letter(actor, *no, reason),
            TeamCommand::Propose { text, rationale, needs } => {
                self.propose(actor, text, rationale.clone(), needs)
            }
            TeamCommand::ProposeAccepted { text, rationale, needs } => {
                self.check_permission(actor, TeamAction::Propose, command)?;
                self.propose_accepted(actor, text, rationale.clone(), needs)
            }
            TeamCommand::Draft { from, dry_run } => self.propose_draft(actor, from, *dry_run),
            TeamCommand::Judge { no, judgement } => self.judge(actor, *no, judgement),
            TeamCommand::ApproveCommands { commands } => self.approve_commands(actor, commands),
            TeamCommand::Check { what } => self.request_check(actor, what),
            TeamCommand::CheckDone { no, receipt, compared } => {
                self.check_done(*no, receipt, compared.as_deref(), context)
            }
            TeamCommand::BeginLoop { template } => self.begin_loop(actor, template),
            TeamCommand::Show { iteration, name, shown } => {
                self.show_evidence(actor, *iteration, name, shown)
            }
            TeamCommand::Continue { iteration, to, key, text, channel } => {
                let (iteration, channel) = (*iteration, *channel);
                let wanted = Continuation { iteration, to, key, text, channel };
                self.request_continuation(actor, wanted, context)
            }
            TeamCommand::StopLoop { because } => self.stop_loop(actor, because),
            TeamCommand::Interrupt { member, key, text } => {
                let what = MemberOrder::Interrupt { text: text.clone() };
                self.order_member(actor, member, what, key, context)
            }
            TeamCommand::Compact { member, key } => {
                self.order_member(actor, member, MemberOrder::Compact, key, context)
            }
            TeamCommand::Configure { config, expected } => self.configure(config, *expected),
            TeamCommand::RecordMove { kind, because } => self.record_move(actor, *kind, because),
            TeamCommand::DoEpilogue { step, evidence } => {
                self.record_epilogue(actor, *step, evidence)
            }
            TeamCommand::ProposeNext { text } => self.propose_next(actor, text, context),
            TeamCommand::ChooseNext { choice, because } => {
                self.choose_next(actor, *choice, because)
            }
            TeamCommand::ChallengeWork { challenge } => self.challenge_work(actor, challenge),
            TeamCommand::Pause { because } => self.pause(because),
            TeamCommand::Resume => self.resume(),
            TeamCommand::Finish { because, allow } => self.finish(actor, because, allow, context),
            TeamCommand::Fail { because } => {
                self.end_team(TeamPhase::Failed { because: because.clone() })
            }
            TeamCommand::Cancel { because } => {
                self.end_team(TeamPhase::Cancelled { because: because.clone() })
            }
            TeamCommand::Tick => Err(TeamRejection::NothingNew),
        }
    }

    fn rename(&self, name: &str) -> TeamCommandResult {
        if name.trim().is_empty() {
            return Err(TeamRejection::BadName(name.to_owned()));
        }
        if name == self.spec.name {
            return Err(TeamRejection::NothingNew);
        }
        single_event(TeamRenamed { name: name.to_owned() })
    }

    fn release(&self, actor: &TeamActor, no: u32, lease: u32, reason: &str) -> TeamCommandResult {
        let (message, _) = self.leased_message(actor, no, lease)?;
        let reason = reason.to_owned();
        if message.is_out_of_offers() {
            single_event(MessageDead { no, reason, by: None })
        } else {
            single_event(MessageReturned { no, reason })
        }
    }

    fn pause(&self, because: &str) -> TeamCommandResult {
        if self.is_paused() {
            return Err(TeamRejection::NothingNew);
        }
        single_event(PhaseChanged { phase: TeamPhase::Paused { because: because.to_owned() } })
    }

    fn resume(&self) -> TeamCommandResult {
        if !self.is_paused() {
            return Err(TeamRejection::NotPaused);
        }
        single_event(PhaseChanged { phase: self.phase_of_members() })
    }

    /// Handles commands to a team that is over, which are rejected. Repeating the command that
    /// ended it reports success.
    fn decide_when_over(&self, command: &TeamCommand) -> TeamCommandResult {
        match (command, &self.phase) {
            (TeamCommand::Finish { .. }, TeamPhase::Done { .. }) => Ok(Vec::new()),
            (TeamCommand::Cancel { .. }, TeamPhase::Cancelled { .. }) => Ok(Vec::new()),
            (TeamCommand::CheckDone { .. } | TeamCommand::Tick, _) => {
                Err(TeamRejection::NothingNew)
            }
            _ => Err(TeamRejection::TeamOver(self.phase.as_str())),
        }
    }

    pub(super) fn bound_member(&self, name: &str) -> Result<&TeamMember, TeamRejection> {
        self.member(name).ok_or_else(|| TeamRejection::NoMember { who: name.to_owned() })
    }

    fn bind(
        &self,
        name: &str,
        role: MemberRole,
        session: Option<SessionId>,
        labels: &MemberLabels,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        self.check_available(name, session)?;
        let (name, labels, means) =
            (name.to_owned(), labels.clone(), capabilities_of(session, context));
        let bound = MemberBound { name, role, session, labels, means }.into();
        let begins = self.phase == TeamPhase::Open && role == MemberRole::Worker;
        let active = begins.then(|| PhaseChanged { phase: TeamPhase::Active }.into());
        Ok([bound].into_iter().chain(active).collect())
    }

    fn check_available(&self, name: &str, session: Option<SessionId>) -> Result<(), TeamRejection> {
        if !is_member_name(name) {
            return Err(TeamRejection::BadName(name.to_owned()));
        }
        if RESERVED.contains(&name.to_lowercase().as_str()) {
            return Err(TeamRejection::NameReserved(name.to_owned()));
        }
        if self.members.iter().any(|member| member.name == name) {
            return Err(TeamRejection::NameTaken(name.to_owned()));
        }
        let bound = self.members.iter().filter(|member| member.is_bound());
        let mut sessions = bound.filter_map(|member| member.session);
        if session.is_some_and(|session| sessions.any(|taken| taken == session)) {
            Err(TeamRejection::SessionTaken)
        } else {
            Ok(())
        }
    }

    /// Retires a member. Its open messages must be explicitly handed over or dead-lettered.
    fn retire(
        &self,
        name: &str,
        because: &str,
        to: Option<&str>,
        dead_letter: bool,
    ) -> TeamCommandResult {
        let member = self.bound_member(name)?;
        let open = self.messages.iter().filter(|message| message.is_open_for(name));
        let open: Vec<_> = open.filter(|message| !is_onboarding(message)).collect();
        if to == Some(name) {
            return Err(TeamRejection::HandoverToSelf(name.to_owned()));
        }
        let to = match to {
            Some(to) => {
                let to = self.bound_member(to)?;
                open.iter().try_for_each(|message| self.check_may_take(message, to))?;
                Some(to.name.clone())
            }
            None => {
                // Provost's own news and probes do not block the retirement, because the other
                // managers receive the news as well.
                let kept = |kind: TeamMessageKind| {
                    !matches!(kind, TeamMessageKind::News | TeamMessageKind::Probe)
                };
                let count = open.iter().filter(|message| kept(message.kind)).count();
                if count > 0 && !dead_letter {
                    return Err(TeamRejection::MessagesOpen { member: member.name.clone(), count });
                }
                None
            }
        };
        single_event(MemberLeft { name: member.name.clone(), because: because.to_owned(), to })
    }

    /// Replaces a member. The successor receives the handover first. If the successor has a session, the handover is
    /// part of its onboarding message.
    fn rotate(
        &self,
        actor: &TeamActor,
        from: &str,
        to: &str,
        session: Option<SessionId>,
        handover: &str,
        context: &TeamAdvanceContext<'_>,
    ) -> TeamCommandResult {
        let role = self.bound_member(from)?.role;
        self.check_available(to, session)?;
        check_meaningful(handover)?;
        let message = session.is_none().then(|| {
            let (no, key) = (self.messages_stored + 1, handover_key(from, to));
            let to = Recipient::Member(to.to_owned());
            MessageStored {
                from: actor.clone(),
                trust: MessageTrust::between(self.role_of(actor), Some(role)),
                kind: TeamMessageKind::Note,
                priority: Priority::High,
                ..MessageStored::by_rule(no, key, to, handover.to_owned())
            }
        });
        let (from, to, handover) = (from.to_owned(), to.to_owned(), handover.to_owned());
        let means = capabilities_of(session, context);
        let rotated = MemberRotated { from, to, session, handover, means }.into();
        Ok([rotated].into_iter().chain(message.map(Event::from)).collect())
    }

    fn label(&self, name: &str, labels: &MemberLabels) -> TeamCommandResult {
        if self.bound_member(name)?.labels == *labels {
            Err(TeamRejection::NothingNew)
        } else {
            single_event(MemberLabelled { name: name.to_owned(), labels: labels.clone() })
        }
    }

    fn acknowledge_contract(&self, actor: &TeamActor, revision: u32) -> TeamCommandResult {
        let member = self.bound_member(actor.name())?;
        let now = self.config.revision;
        if revision != now {
            return Err(TeamRejection::StaleRevision { now, given: revision, accepts: true });
        }
        if member.acknowledged == Some(revision) {
            Err(TeamRejection::NothingNew)
        } else {
            single_event(ContractAcknowledged { name: member.name.clone(), revision })
        }
    }

    fn configure(&self, config: &ManagerConfig, expected: u32) -> TeamCommandResult {
        let now = self.config.revision;
        if expected != now {
            return Err(TeamRejection::StaleRevision { now, given: expected, accepts: false });
        }
        let config = ManagerConfig { revision: now + 1, ..config.clone() };
        single_event(Configured { config: Box::new(config) })
    }

    fn record_move(&self, actor: &TeamActor, kind: MoveKind, because: &str) -> TeamCommandResult {
        check_meaningful(because)?;
        let (because, by) = (because.to_owned(), actor.name().to_owned());
        single_event(MoveRecorded { kind, because, by })
    }

    fn record_epilogue(
        &self,
        actor: &TeamActor,
        step: EpilogueStep,
        evidence: &str,
    ) -> TeamCommandResult {
        self.check_may_record(actor, step)?;
        check_meaningful(evidence)?;
        let (evidence, by) = (evidence.to_owned(), actor.clone());
        if self.epilogue.contains(&step) {
            Err(TeamRejection::NothingNew)
        } else {
            single_event(EpilogueDone { step, evidence, by })
        }
    }

    /// Checks that an actor may record an epilogue step. A review must come from someone who neither did nor led the
    /// work, provided that another member could review the work.
    fn check_may_record(&self, actor: &TeamActor, step: EpilogueStep) -> Result<(), TeamRejection> {
        let what = step.as_str();
        let reviewed = self.bound(MemberRole::Reviewer).next().is_some();
        match (step, self.role_of(actor)) {
            (EpilogueStep::SeparateReview, Some(MemberRole::Reviewer)) => Ok(()),
            (EpilogueStep::SeparateReview, _) if reviewed => {
                Err(TeamRejection::RecordNotAllowed { what, whose: "a reviewer" })
            }
            (_, Some(MemberRole::Worker | MemberRole::Reviewer)) => {
                Err(TeamRejection::RecordNotAllowed { what, whose: "a manager or the operator" })
            }
            (_, Some(MemberRole::Manager) | None) => Ok(()),
        }
    }

    /// Checks that an actor may record a challenge of the work. A worker cannot record a challenge while a reviewer is
    /// bound.
    pub(super) fn check_may_challenge(&self, actor: &TeamActor) -> Result<(), TeamRejection> {
        let reviewed = self.bound(MemberRole::Reviewer).next().is_some();
        match self.role_of(actor) {
            Some(MemberRole::Worker) if reviewed => {
                Err(TeamRejection::RecordNotAllowed { what: "challenge", whose: "a reviewer" })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn challenge_work(&self, actor: &TeamActor, challenge: &WorkChallenge) -> TeamCommandResult {
        // The worker can never attest that the work as a whole was challenged.
        if self.role_of(actor) == Some(MemberRole::Worker) {
            let whose = "a reviewer, a manager or the operator";
            return Err(TeamRejection::RecordNotAllowed { what: "challenge", whose });
        }
        LoopProof::Adversarial.check_evidence(&ShownEvidence::Challenge(challenge.clone()))?;
        single_event(WorkChallenged { challenge: challenge.clone(), by: actor.clone() })
    }

    fn phase_of_members(&self) -> TeamPhase {
        if self.members.iter().any(|member| member.role == MemberRole::Worker) {
            TeamPhase::Active
        } else {
            TeamPhase::Open
        }
    }
}

/// Returns the capabilities that a member gains from its session. None if the session cannot be read.
fn capabilities_of(
    session: Option<SessionId>,
    context: &TeamAdvanceContext<'_>,
) -> Option<MemberCapabilities> {
    session.and_then(|id| (context.session)(id)).map(MemberCapabilities::from_session)
}
