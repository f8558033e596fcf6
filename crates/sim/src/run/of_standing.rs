//! Teams: the actions of users and members, the consumers of messages, and pending effects.

use provost_core::{
    ids::{SessionId, StandingId},
    session::again,
    task::{
        Actor, Address, Allowance, Attack, Channel, Checked, Command, Config, CriterionState,
        Effect, Evidence, Judgement, Kind, Message, Mode, MoveKind, Needs, Post, Priority, Proof,
        Role, Shown, Standing, Task,
    },
    verdict::{CheckEnd, Receipt},
    wait::{Wait, WaitStatus},
};

use super::Sim;
use crate::{
    engine::{AskedTask, CrashPoint, Input, Reply, Source, TaskKey},
    laws::Broken,
    rng::Rng,
    screen::SAID,
    standing::{self, Holds, Taker, TaskDeed, Waiter},
};

/// A text that is long enough to be accepted as an explanation.
const WORDS: &str = "so it was done, and so it is";

impl Sim {
    pub(super) fn ask_task(&mut self, task: StandingId, by: Actor, command: Command) -> String {
        self.asks += 1;
        let key = format!("ask-{}", self.asks);
        let ask = AskedTask { key: key.clone(), task, by, command };
        self.asked.push_back(Input::AskedTask(Box::new(ask)));
        key
    }

    /// Rechecks the teams, which may have missed due effects while no engine ran.
    pub(super) fn look_at_tasks_again(&mut self) -> Result<(), Broken> {
        let open: Vec<StandingId> = self.engine.board.tasks().map(|task| task.id).collect();
        for id in open {
            let look = Input::ToldTask(id, Command::Look);
            self.engine.work(self.now(), &[look], CrashPoint::Nowhere)?;
        }
        Ok(())
    }

    /// Returns the text of a team's message to a session. Messages of users always have the same text.
    pub(super) fn text_of(&self, session: SessionId, key: &str) -> String {
        let session =
            if key.starts_with("task-") { self.engine.board.session(session) } else { None };
        let mut sent = session.into_iter().flat_map(|session| &session.messages);
        let named = sent.find(|message| message.write_key() == key || again(&message.key) == key);
        named.map_or_else(|| SAID.to_owned(), |message| message.text.clone())
    }

    // Consumers of messages.

    /// Returns the consumers that can act: they hold a message, or one waits for them.
    pub(super) fn busy_takers(&self) -> Vec<usize> {
        let now = self.world.now_ms;
        let free = |taker: &Taker| taker.asked.is_none() && taker.wake_ms <= now;
        let takers = self.takers.iter().enumerate().filter(|(_, taker)| free(taker));
        let busy = takers.filter(|(_, taker)| match taker.holds {
            Holds::Nothing => taker.keen && self.something_waits_for(taker),
            Holds::Offered(..) | Holds::Accepted(..) => true,
        });
        busy.map(|(at, _)| at).collect()
    }

    fn something_waits_for(&self, taker: &Taker) -> bool {
        let Some(task) = self.engine.task(taker.task) else { return false };
        let now = self.now();
        let mut waiting = task.messages.iter().filter(|message| message.waits(now));
        !task.is_paused() && waiting.any(|message| message.to.name() == taker.consumer)
    }

    /// Returns the time at which a sleeping consumer wakes up or a waiter starts to wait.
    pub(super) fn next_taker(&self) -> Option<u64> {
        let now = self.world.now_ms;
        let takers = self.takers.iter().map(|taker| taker.wake_ms);
        let waiters = self.waiters.iter().map(|waiter| waiter.begin_ms);
        takers.chain(waiters).filter(|wake| *wake > now).min()
    }

    /// A consumer takes its next step, or dies, gives its message back, or sleeps.
    pub(super) fn take(&mut self, at: usize) {
        let Taker { task, consumer, steady, holds, .. } = self.takers[at].clone();
        // Where many act at once, it may have sent a request in the meantime.
        if self.takers[at].asked.is_some() {
            return;
        }
        let chance = if steady { 0 } else { self.rng.below(100) };
        let command = match (holds, chance) {
            (Holds::Nothing, _) => Command::Next { consumer: consumer.clone() },
            (Holds::Offered(no, lease), 0..64) => Command::Accept { no, lease, polls: 0 },
            (Holds::Accepted(no, lease), 0..64) => Command::Acknowledge { no, lease, note: None },
            (Holds::Offered(no, lease) | Holds::Accepted(no, lease), 64..71) => {
                // Whatever the result, the consumer no longer holds the message.
                self.takers[at].holds = Holds::Nothing;
                Command::Release { no, lease, reason: "not now".to_owned() }
            }
            (Holds::Offered(..) | Holds::Accepted(..), 71..78) => {
                self.takers[at].holds = Holds::Nothing;
                return;
            }
            (Holds::Offered(..) | Holds::Accepted(..), _) => {
                let sleeps = self.sleeps(task, holds);
                self.takers[at].wake_ms = self.world.now_ms + sleeps;
                return;
            }
        };
        let by = match consumer.as_str() {
            "operator" => Actor::Operator,
            _ => Actor::Member(consumer),
        };
        self.takers[at].asked = Some(self.ask_task(task, by, command));
    }

    /// Returns how long a consumer sleeps: a while, or exactly as long as its lease.
    fn sleeps(&mut self, task: StandingId, holds: Holds) -> u64 {
        let bounds = self.engine.task(task).map(|task| &task.spec.bounds);
        let own = bounds.map_or(0, |bounds| match holds {
            Holds::Nothing | Holds::Offered(..) => bounds.offer_ms,
            Holds::Accepted(..) => bounds.lease_ms,
        });
        self.rng.pick(&[30, 150, own, own + 1, own + 5])
    }

    /// Delivers replies to callers. At most one consumer handles each message.
    pub(super) fn hear_replies(&mut self) -> Result<(), Broken> {
        for (key, reply) in std::mem::take(&mut self.engine.replies) {
            if let (Reply::Begun(awaited), Some(task)) = (reply, self.waited_asks.remove(&key)) {
                let waiter = Waiter { task, awaited, begin_ms: 0, wait: None, answered: false };
                // Some repeat the request under the same key, much later, and get the same reply.
                let begin_ms = self.world.now_ms + self.rng.below(40_000);
                let later = self.rng.percent(50).then(|| Waiter { begin_ms, ..waiter.clone() });
                self.waiters.extend([waiter].into_iter().chain(later));
                continue;
            }
            let Some(taker) = self.takers.iter_mut().find(|one| one.asked.as_ref() == Some(&key))
            else {
                continue;
            };
            taker.asked = None;
            let task = taker.task;
            taker.holds = match (taker.holds, reply) {
                (Holds::Nothing, Reply::Offered { no, lease }) => Holds::Offered(no, lease),
                (Holds::Offered(no, lease), Reply::Done) => Holds::Accepted(no, lease),
                (Holds::Accepted(no, _), Reply::Done) => {
                    if !self.handled.insert((task, no)) {
                        return Err(format!("message {no} was handled twice"));
                    }
                    Holds::Nothing
                }
                (_, _) => Holds::Nothing,
            };
        }
        Ok(())
    }

    // Waiters.

    /// Returns the waiters that can act: to start, to judge the state, or to receive an event.
    pub(super) fn busy_waiters(&self) -> Vec<usize> {
        let busy = |waiter: &Waiter| match &waiter.wait {
            _ if waiter.answered => false,
            None => waiter.begin_ms <= self.world.now_ms,
            Some(wait) => {
                wait.is_due() || self.engine.task_event_after(waiter.task, wait.since()).is_some()
            }
        };
        let waiters = self.waiters.iter().enumerate().filter(|(_, waiter)| busy(waiter));
        waiters.map(|(at, _)| at).collect()
    }

    /// A waiter takes its next step, like the command line's wait.
    pub(super) fn wait_on(&mut self, at: usize) {
        let waiter = &mut self.waiters[at];
        let Some(wait) = &mut waiter.wait else {
            waiter.wait = Some(Wait::begin(self.engine.events));
            return;
        };
        if wait.is_due() {
            let task = self.engine.task(waiter.task);
            let status = task.map(|task| task.wait_status(waiter.awaited));
            waiter.answered = !matches!(status, Some(WaitStatus::Pending));
            wait.looked();
        } else if let Some(seq) = self.engine.task_event_after(waiter.task, wait.since()) {
            wait.hear(seq);
        }
    }

    /// Every waiter is answered once its event has happened, is impossible, or the team is over.
    pub(super) fn waits_were_answered(&self) -> Result<(), Broken> {
        let mut open = self.waiters.iter().filter(|waiter| !waiter.answered);
        match open.find(|waiter| !self.engine.is_pending(waiter.task, waiter.awaited)) {
            Some(waiter) => Err(format!("a caller waits forever for {:?}", waiter.awaited)),
            None => Ok(()),
        }
    }

    // Pending effects of teams.

    pub(super) fn can_task_go_on(&self, key: &TaskKey) -> bool {
        let mut ran = self.world.ran.iter().filter(|((id, name), _)| {
            *id == SessionId(key.0.0) && name.starts_with(&format!("{}-", key.1))
        });
        ran.all(|(_, ran)| ran.done_ms <= self.world.now_ms)
    }

    /// Runs a check on a worker's current tree. Its result is observed later, or never.
    pub(super) fn carry_out_of_task(&mut self, key: &TaskKey) -> Result<(), Broken> {
        let Some(Effect::RunCheck(owed)) = self.engine.owed_by_tasks.get(key).cloned() else {
            return Ok(());
        };
        let worker = self.engine.task(key.0).and_then(|task| task.member(&owed.worker)?.session);
        let tree = self.world.tree_of(worker);
        // The key includes the tree, so that a result on another tree is not reused.
        let at = (SessionId(key.0.0), format!("{}-{tree}", key.1));
        let Some(uncertain) = self.ran(&at, &format!("{} on {tree}", owed.command))? else {
            return Ok(());
        };
        let end = match (uncertain, tree.starts_with("good")) {
            (true, _) => CheckEnd::Unfinished("power".to_owned()),
            (false, true) => CheckEnd::Exit(0),
            (false, false) => CheckEnd::Exit(1),
        };
        let receipt = Receipt {
            command: owed.command,
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
        let done = Command::CheckDone { no: owed.no, receipt: Box::new(receipt), compared: None };
        self.engine.owed_by_tasks.remove(key);
        let told = Input::ToldTask(key.0, done);
        self.told_of_runs.push(told.clone());
        self.engine.told.entry(Source::OfTask(key.clone())).or_default().push_back(told);
        Ok(())
    }

    // Actions of users and members.

    pub(super) fn do_task_deed(&mut self, deed: TaskDeed) {
        let ids: Vec<StandingId> = self.engine.standing().map(|task| task.id).collect();
        if ids.is_empty() {
            return;
        }
        let id = self.rng.pick(&ids);
        let Some(task) = self.engine.task(id).cloned() else { return };
        if let TaskDeed::Pull = deed {
            return self.make_pull(&task);
        }
        let Some((by, command)) = self.choose(&task, deed) else { return };
        self.record_move_for(&task, &by, &command);
        // A caller without a timely reply asks again: the message keeps its key, but the request is new.
        if self.faults.repeats && self.rng.percent(10) {
            self.ask_task(id, by.clone(), command.clone());
        }
        let waits = matches!(command, Command::Check { .. } | Command::Finish { .. });
        let key = self.ask_task(id, by, command);
        if waits {
            self.waited_asks.insert(key, id);
            self.end_beside_the_wait(id);
        }
    }

    /// Now and then the operator ends a task while somebody begins to wait for something of it. Drawn apart, so that all
    /// other stories are as they were.
    fn end_beside_the_wait(&mut self, task: StandingId) {
        let mut rng = Rng::named(self.seed, &[54, self.asks]);
        if rng.percent(6) {
            let because = WORDS.to_owned();
            let ends = [Command::Fail { because: because.clone() }, Command::Cancel { because }];
            self.ask_task(task, Actor::Operator, rng.pick(&ends));
        }
    }

    /// Wakes a consumer of a member that pulls its messages.
    fn make_pull(&mut self, task: &Task) {
        let idle = |taker: &&mut Taker| {
            taker.task == task.id && !taker.keen && taker.asked.is_none() && taker.wake_ms == 0
        };
        let mut idle = self.takers.iter_mut().filter(idle);
        let Some(taker) = idle.find(|taker| taker.holds == Holds::Nothing) else { return };
        let consumer = taker.consumer.clone();
        let key = format!("ask-{}", self.asks + 1);
        taker.asked = Some(key);
        let by = Actor::Member(consumer.clone());
        self.ask_task(task.id, by, Command::Next { consumer });
    }

    /// A strict manager mostly records a move before it acts.
    fn record_move_for(&mut self, task: &Task, by: &Actor, command: &Command) {
        let strict = task.config.mode == Mode::Strict && task.role_of(by) == Some(Role::Manager);
        let moves = command.action().map_or(&[][..], |action| action.moves());
        if let Some(kind) = moves.first().copied()
            && strict
            && self.rng.percent(75)
        {
            let because = WORDS.to_owned();
            self.ask_task(task.id, by.clone(), Command::RecordMove { kind, because });
        }
    }

    /// Returns the actor of an action: mostly one with permission.
    fn actor_for(&mut self, task: &Task, may: Role) -> Actor {
        let bound = task.members.iter().filter(|member| member.is_bound());
        let members: Vec<(String, Role)> =
            bound.map(|member| (member.name.clone(), member.role)).collect();
        let able = standing::actors(&members, may);
        let anybody: Vec<Actor> =
            members.iter().map(|(name, _)| Actor::Member(name.clone())).collect();
        match self.rng.below(10) {
            0..6 if !able.is_empty() => self.rng.pick(&able),
            6 if !anybody.is_empty() => self.rng.pick(&anybody),
            _ => Actor::Operator,
        }
    }

    fn choose(&mut self, task: &Task, deed: TaskDeed) -> Option<(Actor, Command)> {
        let because = WORDS.to_owned();
        let steers = self.actor_for(task, Role::Manager);
        let command = match deed {
            TaskDeed::Post => return self.post(task),
            TaskDeed::PostAgain => return self.post_again(task),
            TaskDeed::Pull => return None,
            TaskDeed::CancelMessage => {
                let no = self.message(task, |one| !one.standing.is_over())?;
                Command::CancelMessage { no, because }
            }
            TaskDeed::Requeue => {
                let laid_aside = |one: &Message| {
                    matches!(one.standing, Standing::Dead { .. } | Standing::Expired)
                };
                let no = self.message(task, laid_aside)?;
                let to = if self.rng.percent(40) { self.somebody(task) } else { None };
                Command::Requeue { no, because, to }
            }
            TaskDeed::Bury => {
                let no = self.message(task, |one| !one.standing.is_over())?;
                Command::Bury { no, reason: because }
            }
            TaskDeed::Propose => return Some(self.propose(task)),
            TaskDeed::Judge => self.judge(task)?,
            TaskDeed::Check => {
                let no = task.criteria.first().map_or(1, |criterion| criterion.no);
                Command::Check { what: Checked::Criterion(no) }
            }
            TaskDeed::GoRound => return self.go_round(task),
            TaskDeed::GoTooFar => {
                let iteration = self.rng.below(5) as u32;
                self.continues(task, iteration)?
            }
            TaskDeed::StopLoop => Command::StopLoop { because },
            TaskDeed::Bind => return self.bind(task),
            TaskDeed::Retire => {
                let from = self.somebody(task)?;
                let to = if self.rng.percent(30) { self.somebody(task) } else { None };
                let dead_letter = self.rng.percent(60);
                let retire = Command::Retire { name: from, because, to, dead_letter };
                return Some((Actor::Operator, retire));
            }
            TaskDeed::Rotate => return self.rotate(task),
            TaskDeed::Acknowledge => {
                let revision = task.config.revision;
                let by = task.bound(Role::Manager).next()?.name.clone();
                return Some((Actor::Member(by), Command::AcknowledgeContract { revision }));
            }
            TaskDeed::Configure => {
                let config = Config { mode: Mode::Light, ..task.config.clone() };
                let (config, expected) = (Box::new(config), task.config.revision);
                return Some((Actor::Operator, Command::Configure { config, expected }));
            }
            TaskDeed::RecordMove => {
                let kinds = [MoveKind::Wait, MoveKind::Nudge, MoveKind::Stop];
                Command::RecordMove { kind: self.rng.pick(&kinds), because }
            }
            TaskDeed::Pause => Command::Pause { because },
            TaskDeed::GoOn => Command::GoOn,
            TaskDeed::Attack => Command::AttackWork { attack: attack() },
            TaskDeed::Finish => {
                let lets_pass = steers == Actor::Operator && self.rng.percent(70);
                let allow = if lets_pass { Allowance::ALL.to_vec() } else { Vec::new() };
                Command::Finish { because, allow }
            }
            TaskDeed::Fail => Command::Fail { because },
            TaskDeed::Cancel => Command::Cancel { because },
        };
        Some((steers, command))
    }

    fn message(&mut self, task: &Task, of: impl Fn(&Message) -> bool) -> Option<u32> {
        let all = task.messages.iter().filter(|message| of(message));
        let numbers: Vec<u32> = all.map(|message| message.no).collect();
        (!numbers.is_empty()).then(|| self.rng.pick(&numbers))
    }

    fn somebody(&mut self, task: &Task) -> Option<String> {
        let bound = task.members.iter().filter(|member| member.is_bound());
        let names: Vec<String> = bound.map(|member| member.name.clone()).collect();
        (!names.is_empty()).then(|| self.rng.pick(&names))
    }

    fn post(&mut self, task: &Task) -> Option<(Actor, Command)> {
        let by = self.actor_for(task, Role::Manager);
        let to = if self.rng.percent(12) {
            Address::Operator
        } else {
            Address::Member(self.somebody(task)?)
        };
        let key = format!("k{}", self.rng.below(12));
        let post = Post {
            text: format!("do {key}"),
            key,
            correlation: None,
            channel: Channel::Cli,
            to,
            kind: self.rng.pick(&[Kind::Instruction, Kind::Instruction, Kind::Note, Kind::Report]),
            priority: self.rng.pick(&[Priority::Low, Priority::Normal, Priority::High]),
            expires_in_ms: self.rng.pick(&[None, None, None, Some(1), Some(500), Some(5_000)]),
            steer: self.rng.percent(25),
        };
        Some((by, Command::Post(Box::new(post))))
    }

    fn post_again(&mut self, task: &Task) -> Option<(Actor, Command)> {
        let of_somebody = |message: &Message| message.from != Actor::Provost;
        let no = self.message(task, of_somebody)?;
        let message = task.message(no)?;
        let post = Post {
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
        Some((message.from.clone(), Command::Post(Box::new(post))))
    }

    fn propose(&mut self, task: &Task) -> (Actor, Command) {
        let by = self.actor_for(task, Role::Worker);
        let needs = self.rng.pick(&[Needs::Asserted, Needs::Verified { check: "fast".to_owned() }]);
        let (text, rationale) = (WORDS.to_owned(), None);
        let command = if self.rng.percent(30) {
            Command::Demand { text, rationale, needs }
        } else {
            Command::Propose { text, rationale, needs }
        };
        (by, command)
    }

    /// Judges an open criterion, or any one, mostly in a valid way.
    fn judge(&mut self, task: &Task) -> Option<Command> {
        let open = task.criteria.iter().find(|criterion| criterion.is_open());
        let any = task.criteria.last();
        let criterion = if self.rng.percent(75) { open.or(any) } else { any }?;
        let because = WORDS.to_owned();
        let evidence = Evidence::Asserted { text: WORDS.to_owned(), by: "nobody".to_owned() };
        let next = match (&criterion.state, &criterion.needs) {
            (CriterionState::Proposed, _) => Judgement::Accept,
            (CriterionState::Accepted, Needs::Asserted) => Judgement::Satisfy { evidence },
            (CriterionState::Accepted, _) if self.rng.percent(60) => {
                return Some(Command::Check { what: Checked::Criterion(criterion.no) });
            }
            (CriterionState::Accepted, _) => Judgement::Defer { because },
            (_, _) => Judgement::Reopen { because },
        };
        let reject = Judgement::Reject { because: WORDS.to_owned() };
        let judgement = if self.rng.percent(80) { next } else { reject };
        Some(Command::Judge { no: criterion.no, judgement })
    }

    /// Advances a loop by one step.
    fn go_round(&mut self, task: &Task) -> Option<(Actor, Command)> {
        let by = self.actor_for(task, Role::Manager);
        let Some(looped) = task.running_loop() else {
            let template = Box::new(standing::template(&mut self.rng));
            return Some((by, Command::BeginLoop { template }));
        };
        // A continuation that waits to be accepted may belong to a loop that has ended by then.
        if looped.asked.is_some() && self.rng.percent(40) {
            return Some((Actor::Operator, Command::StopLoop { because: WORDS.to_owned() }));
        }
        let missing = looped.missing();
        let wanted = looped.template.evidence.iter().find(|one| missing.contains(&one.name));
        let wanted = if wanted.is_some() && self.rng.percent(85) { wanted } else { None };
        let Some(wanted) = wanted else {
            let next = looped.iteration + 1;
            return Some((by, self.continues(task, next)?));
        };
        let (iteration, name) = (looped.iteration, wanted.name.clone());
        let text = format!("{WORDS}, {}", self.rng.below(2));
        let command = match &wanted.proof {
            Proof::Verified { .. } => Command::Check { what: Checked::Evidence(name) },
            Proof::Adversarial => Command::Show { iteration, name, shown: Shown::Attack(attack()) },
            Proof::Asserted | Proof::Artifact { .. } | Proof::Pictures { .. } => {
                let evidence = Evidence::Asserted { text, by: "nobody".to_owned() };
                Command::Show { iteration, name, shown: Shown::Evidence(evidence) }
            }
        };
        Some((self.actor_for(task, Role::Worker), command))
    }

    fn continues(&mut self, task: &Task, iteration: u32) -> Option<Command> {
        let workers: Vec<String> = task.bound(Role::Worker).map(|one| one.name.clone()).collect();
        if workers.is_empty() {
            return None;
        }
        let to = self.rng.pick(&workers);
        let key = format!("round-{}", self.asks);
        Some(Command::Continue {
            iteration,
            to,
            key,
            text: WORDS.to_owned(),
            channel: Channel::Cli,
        })
    }

    /// Binds a new member: a session without a team, or a member without a session.
    fn bind(&mut self, task: &Task) -> Option<(Actor, Command)> {
        let (session, labels) = (self.free_session(task), Default::default());
        let name = format!("late{}", self.asks);
        let role = self.rng.pick(&[Role::Worker, Role::Worker, Role::Manager]);
        self.takers.push(standing::taker(task.id, &name, session.is_none()));
        Some((Actor::Operator, Command::Bind { name, role, session, labels }))
    }

    fn rotate(&mut self, task: &Task) -> Option<(Actor, Command)> {
        let (from, session) = (self.somebody(task)?, self.free_session(task));
        let to = format!("next{}", self.asks);
        self.takers.push(standing::taker(task.id, &to, session.is_none()));
        let handover = WORDS.to_owned();
        Some((Actor::Operator, Command::Rotate { from, to, session, handover }))
    }

    fn free_session(&mut self, task: &Task) -> Option<SessionId> {
        let bound = crate::engine::sessions(task);
        let all = self.engine.shadows().map(|session| session.id);
        let free: Vec<SessionId> = all.filter(|id| !bound.contains(id)).collect();
        (!free.is_empty() && self.rng.percent(60)).then(|| self.rng.pick(&free))
    }

    // Conditions at the end.

    /// No message waits for a consumer that pulls whenever one is available.
    pub(super) fn messages_were_taken(&self) -> Result<(), Broken> {
        self.engine.all_tasks_rest(self.now())?;
        self.waits_were_answered()?;
        for taker in self.takers.iter().filter(|taker| taker.keen) {
            // Messages held when the team ended stay with their holders. A law of the team covers the rest.
            let goes_on = |task: &&Task| !task.is_paused() && !task.phase.is_over();
            let Some(task) = self.engine.task(taker.task).filter(goes_on) else { continue };
            let mut open = task.messages.iter().filter(|message| !message.standing.is_over());
            if let Some(message) = open.find(|message| message.to.name() == taker.consumer) {
                return Err(format!(
                    "message {} stays {} forever",
                    message.no,
                    message.standing.word()
                ));
            }
        }
        Ok(())
    }

    pub(super) fn cancel_tasks(&mut self) {
        let open = self.engine.standing().filter(|task| !task.phase.is_over());
        let because = "the story ends".to_owned();
        for id in Vec::from_iter(open.map(|task| task.id)) {
            self.ask_task(id, Actor::Operator, Command::Cancel { because: because.clone() });
        }
    }

    pub(super) fn tasks_have_ended(&self) -> Result<(), Broken> {
        self.waits_were_answered()?;
        let mut open = self.engine.standing().filter(|task| !task.is_closed());
        // In a calm scenario no team is cancelled.
        match open.find(|_| !self.faults.calm) {
            Some(task) => Err(format!("a cancelled team is {}", task.phase.word())),
            None => Ok(()),
        }
    }
}

fn attack() -> Attack {
    let part = || WORDS.to_owned();
    Attack { failure_mode: part(), check: part(), result: part() }
}
