//! Teams: the actions of users and members, the consumers of messages, and pending effects.

use provost_core::{
    ids::{SessionId, TeamId},
    session::enter_retry_key,
    team::{
        BlockerWaiver, CheckSubject, CriterionEvidence, CriterionJudgement, CriterionState,
        EvidenceRequirement, LoopProof, ManagerConfig, ManagerMode, MemberRole, MessageChannel,
        MessageStatus, MoveKind, NewMessage, Priority, Recipient, ShownEvidence, Team, TeamActor,
        TeamCommand, TeamEffect, TeamMessage, TeamMessageKind, WorkChallenge,
    },
    verdict::{CheckEnd, Receipt},
    wait::{Wait, WaitStatus},
};

use super::Sim;
use crate::{
    engine::{
        CrashPoint, EngineInput, ObservationSource, SimTeamReply, SimTeamRequest, TeamEffectKey,
    },
    rng::Rng,
    screen::USER_TEXT,
    session_laws::BrokenLaw,
    team::{self, Consumer, HeldMessage, TeamUserAction, TeamWaiter},
};

/// A text that is long enough to be accepted as an explanation.
const EXPLANATION: &str = "so it was done, and so it is";

impl Sim {
    pub(super) fn ask_task(&mut self, task: TeamId, by: TeamActor, command: TeamCommand) -> String {
        self.request_count += 1;
        let key = format!("ask-{}", self.request_count);
        let ask = SimTeamRequest { key: key.clone(), task, by, command };
        self.requests.push_back(EngineInput::TeamRequest(Box::new(ask)));
        key
    }

    /// Rechecks the teams, which may have missed due effects while no engine ran.
    pub(super) fn recheck_teams(&mut self) -> Result<(), BrokenLaw> {
        let open: Vec<TeamId> = self.engine.board.teams().map(|task| task.id).collect();
        for id in open {
            let look = EngineInput::TeamObservation(id, TeamCommand::Tick);
            self.engine.commit_inputs(self.now(), &[look], CrashPoint::Nowhere)?;
        }
        Ok(())
    }

    /// Returns the text of a team's message to a session. Messages from users always have the same text.
    pub(super) fn text_of(&self, session: SessionId, key: &str) -> String {
        let session =
            if key.starts_with("team-") { self.engine.board.session(session) } else { None };
        let mut sent = session.into_iter().flat_map(|session| &session.messages);
        let named =
            sent.find(|message| message.write_key() == key || enter_retry_key(&message.key) == key);
        named.map_or_else(|| USER_TEXT.to_owned(), |message| message.text.clone())
    }

    // Consumers of messages.

    /// Returns the consumers that can act, because they hold a message or one is waiting for them.
    pub(super) fn ready_consumers(&self) -> Vec<usize> {
        let now = self.world.now_ms;
        let free = |taker: &Consumer| taker.pending_key.is_none() && taker.wake_ms <= now;
        let takers = self.consumers.iter().enumerate().filter(|(_, taker)| free(taker));
        let busy = takers.filter(|(_, taker)| match taker.held {
            HeldMessage::Nothing => taker.pulls_eagerly && self.has_waiting_message(taker),
            HeldMessage::Offered(..) | HeldMessage::Accepted(..) => true,
        });
        busy.map(|(at, _)| at).collect()
    }

    fn has_waiting_message(&self, taker: &Consumer) -> bool {
        let Some(task) = self.engine.team(taker.task) else { return false };
        let now = self.now();
        let mut waiting = task.messages.iter().filter(|message| message.is_available(now));
        !task.is_paused() && waiting.any(|message| message.to.name() == taker.consumer)
    }

    /// Returns the time at which a sleeping consumer wakes up or a waiter starts to wait.
    pub(super) fn next_consumer_ms(&self) -> Option<u64> {
        let now = self.world.now_ms;
        let takers = self.consumers.iter().map(|taker| taker.wake_ms);
        let waiters = self.waiters.iter().map(|waiter| waiter.begin_ms);
        takers.chain(waiters).filter(|wake| *wake > now).min()
    }

    /// Makes a consumer take its next step, die, give its message back, or sleep.
    pub(super) fn step_consumer(&mut self, at: usize) {
        let Consumer { task, consumer, never_fails: steady, held: holds, .. } =
            self.consumers[at].clone();
        // In a scenario with many consumers, the consumer may have sent a request in the meantime.
        if self.consumers[at].pending_key.is_some() {
            return;
        }
        let chance = if steady { 0 } else { self.rng.below(100) };
        let command = match (holds, chance) {
            (HeldMessage::Nothing, _) => TeamCommand::Next { consumer: consumer.clone() },
            (HeldMessage::Offered(no, lease), 0..64) => TeamCommand::Accept { no, lease, polls: 0 },
            (HeldMessage::Accepted(no, lease), 0..64) => {
                TeamCommand::Acknowledge { no, lease, note: None }
            }
            (HeldMessage::Offered(no, lease) | HeldMessage::Accepted(no, lease), 64..71) => {
                // Whatever the result, the consumer no longer holds the message.
                self.consumers[at].held = HeldMessage::Nothing;
                TeamCommand::Release { no, lease, reason: "not now".to_owned() }
            }
            (HeldMessage::Offered(..) | HeldMessage::Accepted(..), 71..78) => {
                self.consumers[at].held = HeldMessage::Nothing;
                return;
            }
            (HeldMessage::Offered(..) | HeldMessage::Accepted(..), _) => {
                let sleeps = self.sleep_ms(task, holds);
                self.consumers[at].wake_ms = self.world.now_ms + sleeps;
                return;
            }
        };
        let by = match consumer.as_str() {
            "operator" => TeamActor::Operator,
            _ => TeamActor::Member(consumer),
        };
        self.consumers[at].pending_key = Some(self.ask_task(task, by, command));
    }

    /// Returns how long a consumer sleeps: a while, or exactly as long as its lease.
    fn sleep_ms(&mut self, task: TeamId, holds: HeldMessage) -> u64 {
        let bounds = self.engine.team(task).map(|task| &task.spec.bounds);
        let own = bounds.map_or(0, |bounds| match holds {
            HeldMessage::Nothing | HeldMessage::Offered(..) => bounds.offer_ms,
            HeldMessage::Accepted(..) => bounds.lease_ms,
        });
        self.rng.pick(&[30, 150, own, own + 1, own + 5])
    }

    /// Delivers replies to callers. At most one consumer handles each message.
    pub(super) fn deliver_replies(&mut self) -> Result<(), BrokenLaw> {
        for (key, reply) in std::mem::take(&mut self.engine.replies) {
            if let (SimTeamReply::Begun(awaited), Some(task)) =
                (reply, self.awaited_requests.remove(&key))
            {
                let waiter = TeamWaiter { task, awaited, begin_ms: 0, wait: None, answered: false };
                // Some callers repeat the request under its key much later, and get the same reply.
                let begin_ms = self.world.now_ms + self.rng.below(40_000);
                let later = self.rng.percent(50).then(|| TeamWaiter { begin_ms, ..waiter.clone() });
                self.waiters.extend([waiter].into_iter().chain(later));
                continue;
            }
            let Some(taker) =
                self.consumers.iter_mut().find(|one| one.pending_key.as_ref() == Some(&key))
            else {
                continue;
            };
            taker.pending_key = None;
            let task = taker.task;
            taker.held = match (taker.held, reply) {
                (HeldMessage::Nothing, SimTeamReply::Offered { no, lease }) => {
                    HeldMessage::Offered(no, lease)
                }
                (HeldMessage::Offered(no, lease), SimTeamReply::Done) => {
                    HeldMessage::Accepted(no, lease)
                }
                (HeldMessage::Accepted(no, _), SimTeamReply::Done) => {
                    if !self.handled.insert((task, no)) {
                        return Err(format!("message {no} was handled twice"));
                    }
                    HeldMessage::Nothing
                }
                (_, _) => HeldMessage::Nothing,
            };
        }
        Ok(())
    }

    // Waiters.

    /// Returns the waiters that can act: to start, to judge the state, or to receive an event.
    pub(super) fn ready_waiters(&self) -> Vec<usize> {
        let busy = |waiter: &TeamWaiter| match &waiter.wait {
            _ if waiter.answered => false,
            None => waiter.begin_ms <= self.world.now_ms,
            Some(wait) => {
                wait.is_due() || self.engine.team_event_after(waiter.task, wait.since()).is_some()
            }
        };
        let waiters = self.waiters.iter().enumerate().filter(|(_, waiter)| busy(waiter));
        waiters.map(|(at, _)| at).collect()
    }

    /// Makes a waiter take its next step, as the command line does while it waits.
    pub(super) fn step_waiter(&mut self, at: usize) {
        let waiter = &mut self.waiters[at];
        let Some(wait) = &mut waiter.wait else {
            waiter.wait = Some(Wait::begin(self.engine.events));
            return;
        };
        if wait.is_due() {
            let task = self.engine.team(waiter.task);
            let status = task.map(|task| task.wait_status(waiter.awaited));
            waiter.answered = !matches!(status, Some(WaitStatus::Pending));
            wait.mark_evaluated();
        } else if let Some(seq) = self.engine.team_event_after(waiter.task, wait.since()) {
            wait.record_event(seq);
        }
    }

    /// Every waiter is answered once its event has happened or is impossible, or once the team is over.
    pub(super) fn waits_were_answered(&self) -> Result<(), BrokenLaw> {
        let mut open = self.waiters.iter().filter(|waiter| !waiter.answered);
        match open.find(|waiter| !self.engine.is_pending(waiter.task, waiter.awaited)) {
            Some(waiter) => Err(format!("a caller waits forever for {:?}", waiter.awaited)),
            None => Ok(()),
        }
    }

    // Pending effects of teams.

    pub(super) fn can_team_effect_continue(&self, key: &TeamEffectKey) -> bool {
        let mut ran = self.world.commands.iter().filter(|((id, name), _)| {
            *id == SessionId(key.0.0) && name.starts_with(&format!("{}-", key.1))
        });
        ran.all(|(_, ran)| ran.done_ms <= self.world.now_ms)
    }

    /// Runs a check on a worker's current tree. Its result is observed later, or never.
    pub(super) fn execute_team_effect(&mut self, key: &TeamEffectKey) -> Result<(), BrokenLaw> {
        let Some(TeamEffect::RunCheck(check)) = self.engine.team_effects.get(key).cloned() else {
            return Ok(());
        };
        let worker = self.engine.team(key.0).and_then(|task| task.member(&check.worker)?.session);
        let tree = self.world.tree_of(worker);
        // The key includes the tree, so that a result on another tree is not reused.
        let at = (SessionId(key.0.0), format!("{}-{tree}", key.1));
        let Some(uncertain) = self.ran(&at, &format!("{} on {tree}", check.command))? else {
            return Ok(());
        };
        let end = match (uncertain, tree.starts_with("good")) {
            (true, _) => CheckEnd::Unfinished("power".to_owned()),
            (false, true) => CheckEnd::Exit(0),
            (false, false) => CheckEnd::Exit(1),
        };
        let receipt = Receipt {
            command: check.command,
            tree: provost_core::ids::TreeId(tree),
            end,
            duration_ms: 1,
            output_digest: String::new(),
            output: String::new(),
            tail: String::new(),
            warm: false,
            environment: None,
            overlay: None,
        };
        let done =
            TeamCommand::CheckDone { no: check.no, receipt: Box::new(receipt), compared: None };
        self.engine.team_effects.remove(key);
        let input = EngineInput::TeamObservation(key.0, done);
        self.past_observations.push(input.clone());
        self.engine
            .observations
            .entry(ObservationSource::TeamEffect(key.clone()))
            .or_default()
            .push_back(input);
        Ok(())
    }

    // Actions of users and members.

    pub(super) fn do_team_action(&mut self, action: TeamUserAction) {
        let ids: Vec<TeamId> = self.engine.teams().map(|task| task.id).collect();
        if ids.is_empty() {
            return;
        }
        let id = self.rng.pick(&ids);
        let Some(task) = self.engine.team(id).cloned() else { return };
        if let TeamUserAction::Pull = action {
            return self.make_pull(&task);
        }
        let Some((by, command)) = self.choose(&task, action) else { return };
        self.record_move_for(&task, &by, &command);
        // A caller without a timely reply asks again: the message keeps its key, but the request is new.
        if self.faults.repeats && self.rng.percent(10) {
            self.ask_task(id, by.clone(), command.clone());
        }
        let waits = matches!(command, TeamCommand::Check { .. } | TeamCommand::Finish { .. });
        let key = self.ask_task(id, by, command);
        if waits {
            self.awaited_requests.insert(key, id);
            self.end_beside_the_wait(id);
        }
    }

    /// Sometimes makes the operator end a team while a caller begins to wait for it. This has its own random source, so
    /// that all other scenarios stay the same.
    fn end_beside_the_wait(&mut self, task: TeamId) {
        let mut rng = Rng::from_names(self.seed, &[54, self.request_count]);
        if rng.percent(6) {
            let because = EXPLANATION.to_owned();
            let ends =
                [TeamCommand::Fail { because: because.clone() }, TeamCommand::Cancel { because }];
            self.ask_task(task, TeamActor::Operator, rng.pick(&ends));
        }
    }

    /// Wakes a consumer of a member that pulls its messages.
    fn make_pull(&mut self, task: &Team) {
        let idle = |taker: &&mut Consumer| {
            taker.task == task.id
                && !taker.pulls_eagerly
                && taker.pending_key.is_none()
                && taker.wake_ms == 0
        };
        let mut idle = self.consumers.iter_mut().filter(idle);
        let Some(taker) = idle.find(|taker| taker.held == HeldMessage::Nothing) else { return };
        let consumer = taker.consumer.clone();
        let key = format!("ask-{}", self.request_count + 1);
        taker.pending_key = Some(key);
        let by = TeamActor::Member(consumer.clone());
        self.ask_task(task.id, by, TeamCommand::Next { consumer });
    }

    /// Usually records the required move before a strict manager acts.
    fn record_move_for(&mut self, task: &Team, by: &TeamActor, command: &TeamCommand) {
        let strict = task.config.mode == ManagerMode::Strict
            && task.role_of(by) == Some(MemberRole::Manager);
        let moves = command.action().map_or(&[][..], |action| action.required_moves());
        if let Some(kind) = moves.first().copied()
            && strict
            && self.rng.percent(75)
        {
            let because = EXPLANATION.to_owned();
            self.ask_task(task.id, by.clone(), TeamCommand::RecordMove { kind, because });
        }
    }

    /// Returns an actor for an action, usually one with the permission for it.
    fn actor_for(&mut self, task: &Team, may: MemberRole) -> TeamActor {
        let bound = task.members.iter().filter(|member| member.is_bound());
        let members: Vec<(String, MemberRole)> =
            bound.map(|member| (member.name.clone(), member.role)).collect();
        let able = team::actors(&members, may);
        let anybody: Vec<TeamActor> =
            members.iter().map(|(name, _)| TeamActor::Member(name.clone())).collect();
        match self.rng.below(10) {
            0..6 if !able.is_empty() => self.rng.pick(&able),
            6 if !anybody.is_empty() => self.rng.pick(&anybody),
            _ => TeamActor::Operator,
        }
    }

    fn choose(&mut self, task: &Team, action: TeamUserAction) -> Option<(TeamActor, TeamCommand)> {
        let because = EXPLANATION.to_owned();
        let steers = self.actor_for(task, MemberRole::Manager);
        let command = match action {
            TeamUserAction::Post => return self.post(task),
            TeamUserAction::Repost => return self.repost(task),
            TeamUserAction::Pull => return None,
            TeamUserAction::CancelMessage => {
                let no = self.message(task, |one| !one.status.is_over())?;
                TeamCommand::CancelMessage { no, because }
            }
            TeamUserAction::Requeue => {
                let dead_lettered = |one: &TeamMessage| {
                    matches!(one.status, MessageStatus::Dead { .. } | MessageStatus::Expired)
                };
                let no = self.message(task, dead_lettered)?;
                let to = if self.rng.percent(40) { self.random_member(task) } else { None };
                TeamCommand::Requeue { no, because, to }
            }
            TeamUserAction::DeadLetter => {
                let no = self.message(task, |one| !one.status.is_over())?;
                TeamCommand::DeadLetter { no, reason: because }
            }
            TeamUserAction::Propose => return Some(self.propose(task)),
            TeamUserAction::Judge => self.judge(task)?,
            TeamUserAction::Check => {
                let no = task.criteria.first().map_or(1, |criterion| criterion.no);
                TeamCommand::Check { what: CheckSubject::Criterion(no) }
            }
            TeamUserAction::AdvanceLoop => return self.advance_loop(task),
            TeamUserAction::SkipIteration => {
                let iteration = self.rng.below(5) as u32;
                self.continuation(task, iteration)?
            }
            TeamUserAction::StopLoop => TeamCommand::StopLoop { because },
            TeamUserAction::Bind => return self.bind(task),
            TeamUserAction::Retire => {
                let from = self.random_member(task)?;
                let to = if self.rng.percent(30) { self.random_member(task) } else { None };
                let dead_letter = self.rng.percent(60);
                let retire = TeamCommand::Retire { name: from, because, to, dead_letter };
                return Some((TeamActor::Operator, retire));
            }
            TeamUserAction::Rotate => return self.rotate(task),
            TeamUserAction::Acknowledge => {
                let revision = task.config.revision;
                let by = task.bound(MemberRole::Manager).next()?.name.clone();
                return Some((
                    TeamActor::Member(by),
                    TeamCommand::AcknowledgeContract { revision },
                ));
            }
            TeamUserAction::Configure => {
                let config = ManagerConfig { mode: ManagerMode::Light, ..task.config.clone() };
                let (config, expected) = (Box::new(config), task.config.revision);
                return Some((TeamActor::Operator, TeamCommand::Configure { config, expected }));
            }
            TeamUserAction::RecordMove => {
                let kinds = [MoveKind::Wait, MoveKind::Nudge, MoveKind::Stop];
                TeamCommand::RecordMove { kind: self.rng.pick(&kinds), because }
            }
            TeamUserAction::Pause => TeamCommand::Pause { because },
            TeamUserAction::Resume => TeamCommand::Resume,
            TeamUserAction::Challenge => TeamCommand::ChallengeWork { challenge: challenge() },
            TeamUserAction::Finish => {
                let lets_pass = steers == TeamActor::Operator && self.rng.percent(70);
                let allow = if lets_pass { BlockerWaiver::ALL.to_vec() } else { Vec::new() };
                TeamCommand::Finish { because, allow }
            }
            TeamUserAction::Fail => TeamCommand::Fail { because },
            TeamUserAction::Cancel => TeamCommand::Cancel { because },
        };
        Some((steers, command))
    }

    fn message(&mut self, task: &Team, of: impl Fn(&TeamMessage) -> bool) -> Option<u32> {
        let all = task.messages.iter().filter(|message| of(message));
        let numbers: Vec<u32> = all.map(|message| message.no).collect();
        (!numbers.is_empty()).then(|| self.rng.pick(&numbers))
    }

    fn random_member(&mut self, task: &Team) -> Option<String> {
        let bound = task.members.iter().filter(|member| member.is_bound());
        let names: Vec<String> = bound.map(|member| member.name.clone()).collect();
        (!names.is_empty()).then(|| self.rng.pick(&names))
    }

    fn post(&mut self, task: &Team) -> Option<(TeamActor, TeamCommand)> {
        let by = self.actor_for(task, MemberRole::Manager);
        let to = if self.rng.percent(12) {
            Recipient::Operator
        } else {
            Recipient::Member(self.random_member(task)?)
        };
        let key = format!("k{}", self.rng.below(12));
        let post = NewMessage {
            text: format!("do {key}"),
            key,
            correlation: None,
            channel: MessageChannel::Cli,
            to,
            kind: self.rng.pick(&[
                TeamMessageKind::Instruction,
                TeamMessageKind::Instruction,
                TeamMessageKind::Note,
                TeamMessageKind::Report,
            ]),
            priority: self.rng.pick(&[Priority::Low, Priority::Normal, Priority::High]),
            expires_in_ms: self.rng.pick(&[None, None, None, Some(1), Some(500), Some(5_000)]),
            steer: self.rng.percent(25),
        };
        Some((by, TeamCommand::Post(Box::new(post))))
    }

    fn repost(&mut self, task: &Team) -> Option<(TeamActor, TeamCommand)> {
        let from_member = |message: &TeamMessage| message.from != TeamActor::Provost;
        let no = self.message(task, from_member)?;
        let message = task.message(no)?;
        let post = NewMessage {
            key: message.key.clone(),
            correlation: message.correlation.clone(),
            channel: message.channel,
            to: message.to.clone(),
            kind: message.kind,
            text: message.text.clone(),
            priority: message.priority,
            expires_in_ms: message.window_ms,
            steer: message.steer,
        };
        Some((message.from.clone(), TeamCommand::Post(Box::new(post))))
    }

    fn propose(&mut self, task: &Team) -> (TeamActor, TeamCommand) {
        let by = self.actor_for(task, MemberRole::Worker);
        let needs = self.rng.pick(&[
            EvidenceRequirement::Asserted,
            EvidenceRequirement::Verified { check: "fast".to_owned() },
        ]);
        let (text, rationale) = (EXPLANATION.to_owned(), None);
        let command = if self.rng.percent(30) {
            TeamCommand::ProposeAccepted { text, rationale, needs }
        } else {
            TeamCommand::Propose { text, rationale, needs }
        };
        (by, command)
    }

    /// Judges an open criterion or the newest one, usually in a valid way.
    fn judge(&mut self, task: &Team) -> Option<TeamCommand> {
        let open = task.criteria.iter().find(|criterion| criterion.is_open());
        let any = task.criteria.last();
        let criterion = if self.rng.percent(75) { open.or(any) } else { any }?;
        let because = EXPLANATION.to_owned();
        let evidence =
            CriterionEvidence::Asserted { text: EXPLANATION.to_owned(), by: "nobody".to_owned() };
        let next = match (&criterion.state, &criterion.needs) {
            (CriterionState::Proposed, _) => CriterionJudgement::Accept,
            (CriterionState::Accepted, EvidenceRequirement::Asserted) => {
                CriterionJudgement::Satisfy { evidence }
            }
            (CriterionState::Accepted, _) if self.rng.percent(60) => {
                return Some(TeamCommand::Check { what: CheckSubject::Criterion(criterion.no) });
            }
            (CriterionState::Accepted, _) => CriterionJudgement::Defer { because },
            (_, _) => CriterionJudgement::Reopen { because },
        };
        let reject = CriterionJudgement::Reject { because: EXPLANATION.to_owned() };
        let judgement = if self.rng.percent(80) { next } else { reject };
        Some(TeamCommand::Judge { no: criterion.no, judgement })
    }

    /// Advances a loop by one step.
    fn advance_loop(&mut self, task: &Team) -> Option<(TeamActor, TeamCommand)> {
        let by = self.actor_for(task, MemberRole::Manager);
        let Some(looped) = task.running_loop() else {
            let template = Box::new(team::template(&mut self.rng));
            return Some((by, TeamCommand::BeginLoop { template }));
        };
        // If the loop is stopped now, its continuation may be accepted only after the loop has ended.
        if looped.continuation.is_some() && self.rng.percent(40) {
            return Some((
                TeamActor::Operator,
                TeamCommand::StopLoop { because: EXPLANATION.to_owned() },
            ));
        }
        let missing = looped.missing_evidence();
        let wanted = looped.template.evidence.iter().find(|one| missing.contains(&one.name));
        let wanted = if wanted.is_some() && self.rng.percent(85) { wanted } else { None };
        let Some(wanted) = wanted else {
            let next = looped.iteration + 1;
            return Some((by, self.continuation(task, next)?));
        };
        let (iteration, name) = (looped.iteration, wanted.name.clone());
        let text = format!("{EXPLANATION}, {}", self.rng.below(2));
        let command = match &wanted.proof {
            LoopProof::Verified { .. } => TeamCommand::Check { what: CheckSubject::Evidence(name) },
            LoopProof::Adversarial => {
                TeamCommand::Show { iteration, name, shown: ShownEvidence::Challenge(challenge()) }
            }
            LoopProof::Asserted | LoopProof::Artifact { .. } | LoopProof::Pictures { .. } => {
                let evidence = CriterionEvidence::Asserted { text, by: "nobody".to_owned() };
                TeamCommand::Show { iteration, name, shown: ShownEvidence::Evidence(evidence) }
            }
        };
        Some((self.actor_for(task, MemberRole::Worker), command))
    }

    fn continuation(&mut self, task: &Team, iteration: u32) -> Option<TeamCommand> {
        let workers: Vec<String> =
            task.bound(MemberRole::Worker).map(|one| one.name.clone()).collect();
        if workers.is_empty() {
            return None;
        }
        let to = self.rng.pick(&workers);
        let key = format!("round-{}", self.request_count);
        Some(TeamCommand::Continue {
            iteration,
            to,
            key,
            text: EXPLANATION.to_owned(),
            channel: MessageChannel::Cli,
        })
    }

    /// Binds a new member: a session without a team, or a member without a session.
    fn bind(&mut self, task: &Team) -> Option<(TeamActor, TeamCommand)> {
        let (session, labels) = (self.free_session(task), Default::default());
        let name = format!("late{}", self.request_count);
        let role = self.rng.pick(&[MemberRole::Worker, MemberRole::Worker, MemberRole::Manager]);
        self.consumers.push(team::consumer(task.id, &name, session.is_none()));
        Some((TeamActor::Operator, TeamCommand::Bind { name, role, session, labels }))
    }

    fn rotate(&mut self, task: &Team) -> Option<(TeamActor, TeamCommand)> {
        let (from, session) = (self.random_member(task)?, self.free_session(task));
        let to = format!("next{}", self.request_count);
        self.consumers.push(team::consumer(task.id, &to, session.is_none()));
        let handover = EXPLANATION.to_owned();
        Some((TeamActor::Operator, TeamCommand::Rotate { from, to, session, handover }))
    }

    fn free_session(&mut self, task: &Team) -> Option<SessionId> {
        let bound = crate::engine::sessions(task);
        let all = self.engine.shadows().map(|session| session.id);
        let free: Vec<SessionId> = all.filter(|id| !bound.contains(id)).collect();
        (!free.is_empty() && self.rng.percent(60)).then(|| self.rng.pick(&free))
    }

    // Conditions at the end.

    /// No message is waiting for a consumer that pulls whenever a message is available.
    pub(super) fn messages_were_taken(&self) -> Result<(), BrokenLaw> {
        self.engine.check_all_teams(self.now())?;
        self.waits_were_answered()?;
        for taker in self.consumers.iter().filter(|taker| taker.pulls_eagerly) {
            // Messages held when the team ended stay with their holders. A law of the team covers
            // all other messages.
            let continues = |task: &&Team| !task.is_paused() && !task.phase.is_over();
            let Some(task) = self.engine.team(taker.task).filter(continues) else { continue };
            let mut open = task.messages.iter().filter(|message| !message.status.is_over());
            if let Some(message) = open.find(|message| message.to.name() == taker.consumer) {
                return Err(format!(
                    "message {} stays {} forever",
                    message.no,
                    message.status.as_str()
                ));
            }
        }
        Ok(())
    }

    pub(super) fn cancel_tasks(&mut self) {
        let open = self.engine.teams().filter(|task| !task.phase.is_over());
        let because = "the story ends".to_owned();
        for id in Vec::from_iter(open.map(|task| task.id)) {
            self.ask_task(
                id,
                TeamActor::Operator,
                TeamCommand::Cancel { because: because.clone() },
            );
        }
    }

    pub(super) fn tasks_have_ended(&self) -> Result<(), BrokenLaw> {
        self.waits_were_answered()?;
        let mut open = self.engine.teams().filter(|task| !task.is_closed());
        // In a calm scenario no team is cancelled.
        match open.find(|_| !self.faults.calm) {
            Some(task) => Err(format!("a cancelled team is {}", task.phase.as_str())),
            None => Ok(()),
        }
    }
}

fn challenge() -> WorkChallenge {
    let part = || EXPLANATION.to_owned();
    WorkChallenge { failure_mode: part(), check: part(), result: part() }
}
