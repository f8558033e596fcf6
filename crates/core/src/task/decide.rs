//! Command handling. Pure: the same team, actor, command and context always produce the same
//! events.

use super::{
    advance::Around,
    command::{Command, Rejected},
    criterion::says_something,
    event::*,
    gate::{Attack, Proof, Shown},
    handing::{handover_key, hands_over},
    manager::{Action, Config, Epilogue, Mode, MoveKind},
    member::{Actor, Labels, Means, Member, Order, RESERVED, Role, is_member_name},
    message::{Address, Kind, Priority, Trust},
    state::{Phase, Task},
};
use crate::ids::SessionId;

pub(super) type Decision = Result<Vec<Event>, Rejected>;

pub(super) fn one(event: impl Into<Event>) -> Decision {
    Ok(vec![event.into()])
}

impl Task {
    /// Decides on a command of an actor.
    pub fn decide(&self, actor: &Actor, command: &Command, around: &Around<'_>) -> Decision {
        // The answer to a connection probe only proves that the member is reachable, so that it
        // needs no permission.
        let action = if self.answers_probe(actor, command) { None } else { command.action() };
        if let Some(action) = action {
            self.permit(actor, action, command)?;
        }
        let mut events = self.come_of(actor, command, around)?;
        // One move covers one action. A refused continuation uses none.
        let refused = matches!(events.first(), Some(Event::ContinuationRefused(_)));
        if let Some(action) = action
            && !refused
            && self.uses_move(actor, command)
        {
            // The end of the team stays its last event.
            let ends = matches!(events.last(), Some(Event::PhaseChanged(e)) if e.phase.is_over());
            events.insert(events.len() - usize::from(ends), MoveUsed { action }.into());
        }
        Ok(events)
    }

    fn uses_move(&self, actor: &Actor, command: &Command) -> bool {
        // A command to a team that is over changes nothing.
        !self.phase.is_over()
            && self.role_of(actor) == Some(Role::Manager)
            && self.needs_move(command)
            && self.move_for(command).is_some()
    }

    /// Checks that an actor may perform this action. Applied to every command, on every channel.
    fn permit(&self, actor: &Actor, action: Action, command: &Command) -> Result<(), Rejected> {
        let role = match actor {
            Actor::Operator | Actor::Provost => return Ok(()),
            Actor::Policy => Role::Manager,
            Actor::Member(name) => {
                let who = name.clone();
                self.member(name).ok_or(Rejected::NoMember { who })?.role
            }
        };
        if !action.is_open_to(role) {
            return Err(Rejected::NotForRole { role, action });
        }
        match role {
            Role::Manager => self.permit_manager(actor, action, command),
            Role::Worker | Role::Reviewer => Ok(()),
        }
    }

    fn permit_manager(
        &self,
        actor: &Actor,
        action: Action,
        command: &Command,
    ) -> Result<(), Rejected> {
        if !self.is_granted(action) {
            return Err(Rejected::NotGranted(action));
        }
        // A manager who may not act yet may still receive messages and acknowledge the contract.
        if action == Action::Receive || *actor == Actor::Policy {
            return Ok(());
        }
        let read = self.member(actor.name()).and_then(|member| member.acknowledged);
        let revision = self.config.revision;
        match self.config.mode {
            Mode::Light => return Ok(()),
            Mode::Guided | Mode::Strict if read != Some(revision) => {
                return Err(Rejected::NotAcknowledged(revision));
            }
            Mode::Guided | Mode::Strict => {}
        }
        // Finishing a team that is already over does nothing and needs no move.
        let idempotent = matches!(command, Command::Finish { .. }) && self.phase.is_over();
        if self.needs_move(command) && self.move_for(command).is_none() && !idempotent {
            Err(Rejected::NoMove(command.moves()))
        } else {
            Ok(())
        }
    }

    fn come_of(&self, actor: &Actor, command: &Command, around: &Around<'_>) -> Decision {
        if self.phase.is_over() {
            return self.after_the_end(command);
        }
        match command {
            Command::Bind { name, role, session, labels } => {
                self.bind(name, *role, *session, labels, around)
            }
            Command::Retire { name, because, to, dead_letter } => {
                self.retire(name, because, to.as_deref(), *dead_letter)
            }
            Command::Rotate { from, to, session, handover } => {
                self.rotate(actor, from, to, *session, handover, around)
            }
            Command::Label { name, labels } => self.label(name, labels),
            Command::Rename { name } if name.trim().is_empty() => {
                Err(Rejected::BadName(name.clone()))
            }
            Command::Rename { name } => {
                if *name == self.spec.name {
                    Err(Rejected::Nothing)
                } else {
                    one(TaskRenamed { name: name.clone() })
                }
            }
            Command::AcknowledgeContract { revision } => {
                self.acknowledge_contract(actor, *revision)
            }
            Command::Post(post) => self.post(actor, post, around.now),
            Command::Next { consumer } => self.next(actor, consumer, around),
            Command::Accept { no, lease, polls } => self.accept(actor, *no, *lease, *polls, around),
            Command::Acknowledge { no, lease, note } => {
                self.acknowledge(actor, *no, *lease, note.clone())
            }
            Command::Release { no, lease, reason } => {
                let (message, _) = self.held(actor, *no, *lease)?;
                let (no, reason) = (*no, reason.clone());
                if message.is_worn() {
                    one(MessageDead { no, reason, by: None })
                } else {
                    one(MessageReturned { no, reason })
                }
            }
            Command::CancelMessage { .. } | Command::Requeue { .. } | Command::Bury { .. } => {
                self.sort(actor, command)
            }
            Command::Propose { text, rationale, needs } => {
                self.propose(actor, text, rationale.clone(), needs)
            }
            Command::Demand { text, rationale, needs } => {
                self.permit(actor, Action::Propose, command)?;
                self.demand(actor, text, rationale.clone(), needs)
            }
            Command::Draft { from, dry_run } => self.propose_draft(actor, from, *dry_run),
            Command::Judge { no, judgement } => self.judge(actor, *no, judgement),
            Command::ApproveCommands { commands } => self.approve_commands(actor, commands),
            Command::Check { what } => self.want_check(actor, what),
            Command::CheckDone { no, receipt, compared } => {
                self.check_done(*no, receipt, compared.as_deref(), around)
            }
            Command::BeginLoop { template } => self.begin_loop(actor, template),
            Command::Show { iteration, name, shown } => self.show(actor, *iteration, name, shown),
            Command::Continue { .. } => self.ask_to_continue(actor, command, around),
            Command::StopLoop { because } => self.stop_loop(actor, because),
            Command::Interrupt { member, key, text } => {
                let what = Order::Interrupt { text: text.clone() };
                self.tell_member(actor, member, what, key, around)
            }
            Command::Compact { member, key } => {
                self.tell_member(actor, member, Order::Compact, key, around)
            }
            Command::Configure { config, expected } => self.configure(config, *expected),
            Command::RecordMove { kind, because } => self.record_move(actor, *kind, because),
            Command::DoEpilogue { step, evidence } => self.do_epilogue(actor, *step, evidence),
            Command::ProposeNext { text } => self.propose_next(actor, text, around),
            Command::ChooseNext { choice, because } => self.choose_next(actor, *choice, because),
            Command::AttackWork { attack } => self.attack(actor, attack),
            Command::Pause { because } => {
                if self.is_paused() {
                    Err(Rejected::Nothing)
                } else {
                    one(PhaseChanged { phase: Phase::Paused { because: because.clone() } })
                }
            }
            Command::GoOn => {
                if self.is_paused() {
                    one(PhaseChanged { phase: self.phase_of_members() })
                } else {
                    Err(Rejected::NotPaused)
                }
            }
            Command::Finish { because, allow } => self.finish(actor, because, allow, around),
            Command::Fail { because } => self.end(Phase::Failed { because: because.clone() }),
            Command::Cancel { because } => self.end(Phase::Cancelled { because: because.clone() }),
            Command::Look => Err(Rejected::Nothing),
        }
    }

    /// A team that is over accepts no further commands. Repeating the finish reports success.
    fn after_the_end(&self, command: &Command) -> Decision {
        match (command, &self.phase) {
            (Command::Finish { .. }, Phase::Done { .. }) => Ok(Vec::new()),
            (Command::Cancel { .. }, Phase::Cancelled { .. }) => Ok(Vec::new()),
            (Command::CheckDone { .. } | Command::Look, _) => Err(Rejected::Nothing),
            _ => Err(Rejected::Over(self.phase.word())),
        }
    }

    pub(super) fn known(&self, name: &str) -> Result<&Member, Rejected> {
        self.member(name).ok_or_else(|| Rejected::NoMember { who: name.to_owned() })
    }

    fn bind(
        &self,
        name: &str,
        role: Role,
        session: Option<SessionId>,
        labels: &Labels,
        around: &Around<'_>,
    ) -> Decision {
        self.is_free(name, session)?;
        let (name, labels, means) = (name.to_owned(), labels.clone(), means(session, around));
        let bound = MemberBound { name, role, session, labels, means }.into();
        let begins = self.phase == Phase::Open && role == Role::Worker;
        let active = begins.then(|| PhaseChanged { phase: Phase::Active }.into());
        Ok([bound].into_iter().chain(active).collect())
    }

    fn is_free(&self, name: &str, session: Option<SessionId>) -> Result<(), Rejected> {
        if !is_member_name(name) {
            return Err(Rejected::BadName(name.to_owned()));
        }
        if RESERVED.contains(&name.to_lowercase().as_str()) {
            return Err(Rejected::NameReserved(name.to_owned()));
        }
        if self.members.iter().any(|member| member.name == name) {
            return Err(Rejected::NameTaken(name.to_owned()));
        }
        let bound = self.members.iter().filter(|member| member.is_bound());
        let mut sessions = bound.filter_map(|member| member.session);
        if session.is_some_and(|session| sessions.any(|taken| taken == session)) {
            Err(Rejected::SessionTaken)
        } else {
            Ok(())
        }
    }

    /// Retires a member. Its open messages must be handed over or dead-lettered explicitly.
    fn retire(&self, name: &str, because: &str, to: Option<&str>, dead_letter: bool) -> Decision {
        let member = self.known(name)?;
        let open = self.messages.iter().filter(|message| message.is_open_for(name));
        let open: Vec<_> = open.filter(|message| !hands_over(message)).collect();
        if to == Some(name) {
            return Err(Rejected::OwnSuccessor(name.to_owned()));
        }
        let to = match to {
            Some(to) => {
                let to = self.known(to)?;
                open.iter().try_for_each(|message| self.may_take(message, to))?;
                Some(to.name.clone())
            }
            None => {
                // Provost's own news and probes do not block the retirement. The other managers
                // receive the news.
                let kept = |kind: Kind| !matches!(kind, Kind::News | Kind::Probe);
                let count = open.iter().filter(|message| kept(message.kind)).count();
                if count > 0 && !dead_letter {
                    return Err(Rejected::MessagesOpen { member: member.name.clone(), count });
                }
                None
            }
        };
        one(MemberLeft { name: member.name.clone(), because: because.to_owned(), to })
    }

    /// Replaces a member. The successor first receives the handover; a session gets it with its
    /// onboarding.
    fn rotate(
        &self,
        actor: &Actor,
        from: &str,
        to: &str,
        session: Option<SessionId>,
        handover: &str,
        around: &Around<'_>,
    ) -> Decision {
        let role = self.known(from)?.role;
        self.is_free(to, session)?;
        says_something(handover)?;
        let told = session.is_none().then(|| {
            let (no, key) = (self.messages_stored + 1, handover_key(from, to));
            let to = Address::Member(to.to_owned());
            MessageStored {
                from: actor.clone(),
                trust: Trust::between(self.role_of(actor), Some(role)),
                kind: Kind::Note,
                priority: Priority::High,
                ..MessageStored::by_rule(no, key, to, handover.to_owned())
            }
        });
        let (from, to, handover) = (from.to_owned(), to.to_owned(), handover.to_owned());
        let means = means(session, around);
        let rotated = MemberRotated { from, to, session, handover, means }.into();
        Ok([rotated].into_iter().chain(told.map(Event::from)).collect())
    }

    fn label(&self, name: &str, labels: &Labels) -> Decision {
        if self.known(name)?.labels == *labels {
            Err(Rejected::Nothing)
        } else {
            one(MemberLabelled { name: name.to_owned(), labels: labels.clone() })
        }
    }

    fn acknowledge_contract(&self, actor: &Actor, revision: u32) -> Decision {
        let member = self.known(actor.name())?;
        let now = self.config.revision;
        if revision != now {
            return Err(Rejected::Revision { now, given: revision });
        }
        if member.acknowledged == Some(revision) {
            Err(Rejected::Nothing)
        } else {
            one(ContractAcknowledged { name: member.name.clone(), revision })
        }
    }

    fn configure(&self, config: &Config, expected: u32) -> Decision {
        let now = self.config.revision;
        if expected != now {
            return Err(Rejected::Revision { now, given: expected });
        }
        let config = Config { revision: now + 1, ..config.clone() };
        one(Configured { config: Box::new(config) })
    }

    fn record_move(&self, actor: &Actor, kind: MoveKind, because: &str) -> Decision {
        says_something(because)?;
        let (because, by) = (because.to_owned(), actor.name().to_owned());
        one(MoveRecorded { kind, because, by })
    }

    fn do_epilogue(&self, actor: &Actor, step: Epilogue, evidence: &str) -> Decision {
        self.may_record(actor, step)?;
        says_something(evidence)?;
        let (evidence, by) = (evidence.to_owned(), actor.clone());
        if self.epilogue.contains(&step) {
            Err(Rejected::Nothing)
        } else {
            one(EpilogueDone { step, evidence, by })
        }
    }

    /// Checks that an actor may record an epilogue step. A review is separate if the reviewer
    /// neither did nor led the work, provided that another member could do it.
    fn may_record(&self, actor: &Actor, step: Epilogue) -> Result<(), Rejected> {
        let what = step.word();
        let reviewed = self.bound(Role::Reviewer).next().is_some();
        match (step, self.role_of(actor)) {
            (Epilogue::SeparateReview, Some(Role::Reviewer)) => Ok(()),
            (Epilogue::SeparateReview, _) if reviewed => {
                Err(Rejected::NotToRecord { what, whose: "a reviewer" })
            }
            (_, Some(Role::Worker | Role::Reviewer)) => {
                Err(Rejected::NotToRecord { what, whose: "a manager or the operator" })
            }
            (_, Some(Role::Manager) | None) => Ok(()),
        }
    }

    /// Checks that an actor may record a challenge of the work. A worker may not, as long as a
    /// reviewer is bound.
    pub(super) fn may_attack(&self, actor: &Actor) -> Result<(), Rejected> {
        let reviewed = self.bound(Role::Reviewer).next().is_some();
        match self.role_of(actor) {
            Some(Role::Worker) if reviewed => {
                Err(Rejected::NotToRecord { what: "attack", whose: "a reviewer" })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn attack(&self, actor: &Actor, attack: &Attack) -> Decision {
        // The worker never attests that the work as a whole was challenged.
        if self.role_of(actor) == Some(Role::Worker) {
            let whose = "a reviewer, a manager or the operator";
            return Err(Rejected::NotToRecord { what: "attack", whose });
        }
        Proof::Adversarial.met_by(&Shown::Attack(attack.clone()))?;
        one(WorkAttacked { attack: attack.clone(), by: actor.clone() })
    }

    fn phase_of_members(&self) -> Phase {
        if self.members.iter().any(|member| member.role == Role::Worker) {
            Phase::Active
        } else {
            Phase::Open
        }
    }
}

/// Returns the means that a session gives a member, as far as it can be read.
fn means(session: Option<SessionId>, around: &Around<'_>) -> Option<Means> {
    session.and_then(|id| (around.look)(id)).map(Means::of)
}
