//! What comes of a command. Pure: the same task, actor, command and surroundings always give the same events.

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
    /// Decides what comes of a command of an actor.
    pub fn decide(&self, actor: &Actor, command: &Command, around: &Around<'_>) -> Decision {
        let action = command.action();
        // Whoever answers a check of the connection proves that it is there, and does nothing else by it.
        let action = action.filter(|_| !self.answers_probe(actor, command));
        if let Some(action) = action {
            self.permit(actor, action, command)?;
        }
        let mut events = self.come_of(actor, command, around)?;
        // One move is for one deed; a refusal of the loop is none.
        let refused = matches!(events.first(), Some(Event::ContinuationRefused(_)));
        let action = action.filter(|_| !refused && self.uses_move(actor, command));
        if let Some(action) = action {
            // An end of the task is the last that happens to it.
            let ends = matches!(events.last(), Some(Event::PhaseChanged(e)) if e.phase.is_over());
            events.insert(events.len() - usize::from(ends), MoveUsed { action }.into());
        }
        Ok(events)
    }

    fn uses_move(&self, actor: &Actor, command: &Command) -> bool {
        // What is asked of a task that is over changes nothing of it.
        !self.phase.is_over()
            && self.role_of(actor) == Some(Role::Manager)
            && self.needs_move(command)
            && self.move_for(command).is_some()
    }

    /// Says whether an actor may do this. Asked for every command, whoever brings it by whatever way.
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
        // Whoever may not act yet may still read, and acknowledge what was read.
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
        // To call the whole off after it is over does nothing, and needs no move.
        let idempotent = matches!(command, Command::Finish { .. }) && self.phase.is_over();
        match self.needs_move(command) && self.move_for(command).is_none() && !idempotent {
            true => Err(Rejected::NoMove(command.moves())),
            false => Ok(()),
        }
    }

    fn come_of(&self, actor: &Actor, command: &Command, around: &Around<'_>) -> Decision {
        if self.phase.is_over() {
            return self.after_the_end(command);
        }
        match command {
            Command::Bind { name, role, session, labels } => {
                self.bind((name, *role), *session, labels, around)
            }
            Command::Retire { name, because, to, dead_letter } => {
                self.retire(name, because, (to.as_deref(), *dead_letter))
            }
            Command::Rotate { from, to, session, handover } => {
                self.rotate(actor, (from, to), (*session, handover), around)
            }
            Command::Label { name, labels } => self.label(name, labels),
            Command::Rename { name } if name.trim().is_empty() => {
                Err(Rejected::BadName(name.clone()))
            }
            Command::Rename { name } => match *name == self.spec.name {
                true => Err(Rejected::Nothing),
                false => one(TaskRenamed { name: name.clone() }),
            },
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
                match message.is_worn() {
                    true => one(MessageDead { no, reason, by: None }),
                    false => one(MessageReturned { no, reason }),
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
                self.tell_member(actor, member, (what, key), around)
            }
            Command::Compact { member, key } => {
                self.tell_member(actor, member, (Order::Compact, key), around)
            }
            Command::Configure { config, expected } => self.configure(config, *expected),
            Command::RecordMove { kind, because } => self.record_move(actor, *kind, because),
            Command::DoEpilogue { step, evidence } => self.do_epilogue(actor, *step, evidence),
            Command::ProposeNext { text } => self.propose_next(actor, text, around),
            Command::ChooseNext { choice, because } => self.choose_next(actor, *choice, because),
            Command::AttackWork { attack } => self.attack(actor, attack),
            Command::Pause { because } => match self.is_paused() {
                true => Err(Rejected::Nothing),
                false => one(PhaseChanged { phase: Phase::Paused { because: because.clone() } }),
            },
            Command::GoOn => match self.is_paused() {
                true => one(PhaseChanged { phase: self.phase_of_members() }),
                false => Err(Rejected::NotPaused),
            },
            Command::Finish { because, allow } => self.finish(actor, because, allow, around),
            Command::Fail { because } => self.end(Phase::Failed { because: because.clone() }),
            Command::Cancel { because } => self.end(Phase::Cancelled { because: because.clone() }),
            Command::Look => Err(Rejected::Nothing),
        }
    }

    /// A task that is over takes nothing more. To finish what is done is to be told that it is.
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
        (name, role): (&str, Role),
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
        match session.is_some_and(|session| sessions.any(|taken| taken == session)) {
            true => Err(Rejected::SessionTaken),
            false => Ok(()),
        }
    }

    /// Lets a member leave. What waits for it is not lost by that, unless somebody says so.
    fn retire(
        &self,
        name: &str,
        because: &str,
        (to, dead_letter): (Option<&str>, bool),
    ) -> Decision {
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
                // Provost's own news and probes keep nobody: what news say reaches the other managers.
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

    /// Whoever comes is told first what it has to know; a session hears of it with its part.
    fn rotate(
        &self,
        actor: &Actor,
        (from, to): (&str, &str),
        (session, handover): (Option<SessionId>, &str),
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
        match self.known(name)?.labels == *labels {
            true => Err(Rejected::Nothing),
            false => one(MemberLabelled { name: name.to_owned(), labels: labels.clone() }),
        }
    }

    fn acknowledge_contract(&self, actor: &Actor, revision: u32) -> Decision {
        let member = self.known(actor.name())?;
        let now = self.config.revision;
        if revision != now {
            return Err(Rejected::Revision { now, given: revision });
        }
        match member.acknowledged == Some(revision) {
            true => Err(Rejected::Nothing),
            false => one(ContractAcknowledged { name: member.name.clone(), revision }),
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
        match self.epilogue.contains(&step) {
            true => Err(Rejected::Nothing),
            false => one(EpilogueDone { step, evidence, by }),
        }
    }

    /// Says whether an actor may say that a step of the epilogue is done. A review is separate if nobody looked who did
    /// or led the work, as far as there is somebody else.
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

    /// Says whether an actor may say that the work was attacked: nobody who did it, as long as there is somebody else
    /// whose part that is.
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
        // That the whole was attacked is never the word of who did it.
        if self.role_of(actor) == Some(Role::Worker) {
            let whose = "a reviewer, a manager or the operator";
            return Err(Rejected::NotToRecord { what: "attack", whose });
        }
        Proof::Adversarial.met_by(&Shown::Attack(attack.clone()))?;
        one(WorkAttacked { attack: attack.clone(), by: actor.clone() })
    }

    fn phase_of_members(&self) -> Phase {
        match self.members.iter().any(|member| member.role == Role::Worker) {
            true => Phase::Active,
            false => Phase::Open,
        }
    }
}

/// Gives what a session gives a member, as far as it can be looked at.
fn means(session: Option<SessionId>, around: &Around<'_>) -> Option<Means> {
    session.and_then(|id| (around.look)(id)).map(Means::of)
}
