//! The actions of users and agents on a team.

use provost_core::{
    ids::{SessionId, TeamId},
    team::{
        BlockerWaiver, CheckSubject, CriterionEvidence, CriterionJudgement, CriterionState,
        EvidenceRequirement, LoopProof, ManagerConfig, ManagerMode, MemberRole, MessageChannel,
        MessageStatus, MoveKind, NewMessage, Priority, Recipient, ShownEvidence, Team, TeamActor,
        TeamCommand, TeamMessage, TeamMessageKind, WorkChallenge,
    },
};

use super::super::Sim;
use crate::{
    rng::Rng,
    team::{self, Consumer, HeldMessage, TeamUserAction},
};

/// A text that is long enough to be accepted as an explanation.
const EXPLANATION: &str = "so it was done, and so it is";

impl Sim {
    pub(in crate::run) fn do_team_action(&mut self, action: TeamUserAction) {
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

    /// Sometimes makes the operator end a team while a caller begins to wait for it. This method has its own random
    /// source, so that all other scenarios stay the same.
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

    pub(super) fn message(
        &mut self,
        task: &Team,
        of: impl Fn(&TeamMessage) -> bool,
    ) -> Option<u32> {
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
}

fn challenge() -> WorkChallenge {
    let part = || EXPLANATION.to_owned();
    WorkChallenge { failure_mode: part(), check: part(), result: part() }
}
