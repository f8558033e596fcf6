//! The engine's side: the real board over an in-memory ledger, plus the state that a daemon keeps only in memory.
//!
//! A crash drops everything here except the ledger. The laws judge each commit against a shadow that is folded from
//! the stored form of every event.

mod standing;

use std::collections::{BTreeMap, VecDeque};

use provost_core::{
    ids::{LaunchId, RunId, SessionId, StandingId},
    run::{self, Run, RunSpec},
    session::{Command, Effect, EffectKey, Event, Rejected, Session, Spec},
    task,
    time::Moment,
};
use provost_engine::{
    board::{Board, Changes},
    stream::{self, Subject},
};
use provost_ledger::{Committed, Ledger, MemLedger, ReadLedger, Recorded, StreamId};

use self::standing::TaskShadow;
pub(crate) use self::standing::{AskedTask, Reply, TaskKey, sessions};
use crate::{
    coverage::Coverage,
    follow::Follower,
    laws::{Broken, Watch},
    run_laws::RunWatch,
    standing::Pair,
    turns::Turns,
};

pub(crate) type Key = (SessionId, EffectKey);
pub(crate) type RunKey = (RunId, EffectKey);

/// The source of an observation. Observations of one source stay in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Follower(LaunchId),
    Effect(Key),
    OfRun(RunKey),
    OfTask(TaskKey),
}

/// An effect in progress.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Follow(Follower),
    Other(Effect),
}

/// An effect of a run in progress, with the run as it was when the effect was dispatched.
#[derive(Clone, Debug)]
pub(crate) struct RunTask {
    pub(crate) effect: run::Effect,
    pub(crate) run: Run,
    /// Whether it has started to land. Then it finishes, whatever is decided meanwhile.
    pub(crate) lands: bool,
}

/// Input of the owner: observations, and requests of users and agents with their own idempotency keys.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    Told(SessionId, Command),
    Asked { key: String, session: SessionId, command: Command },
    ToldRun(RunId, run::Command),
    AskedRun { key: String, run: RunId, command: run::Command },
    ToldTask(StandingId, task::Command),
    AskedTask(Box<AskedTask>),
    Due,
}

/// The point at which an engine crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    Nowhere,
    BeforeAppend,
    AfterAppend,
    /// After this number of orders that follow from a commit.
    InDispatch(usize),
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Went {
    Well,
    Unwritten,
    Crashed,
}

#[derive(Debug)]
struct Shadow {
    session: Session,
    watch: Watch,
    version: u64,
}

#[derive(Debug)]
struct RunShadow {
    run: Run,
    watch: RunWatch,
    version: u64,
}

/// The engine and the invariants that judge it.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) board: Board,
    pub(crate) ledger: MemLedger,
    pub(crate) tasks: BTreeMap<Key, Task>,
    pub(crate) run_tasks: BTreeMap<RunKey, RunTask>,
    /// Pending effects of teams.
    pub(crate) owed_by_tasks: BTreeMap<TaskKey, task::Effect>,
    /// Replies to requests about teams, with the keys of the requests.
    pub(crate) replies: Vec<(String, Reply)>,
    pub(crate) told: BTreeMap<Source, VecDeque<Input>>,
    pub(crate) heard: BTreeMap<LaunchId, u64>,
    pub(crate) coverage: Coverage,
    pub(crate) events: u64,
    pub(crate) trace: Option<Vec<String>>,
    /// The latest committed events, for the simulation to act on.
    pub(crate) fresh: Vec<(SessionId, Event)>,
    pub(crate) fresh_of_runs: Vec<(RunId, run::Event)>,
    shadows: BTreeMap<SessionId, Shadow>,
    run_shadows: BTreeMap<RunId, RunShadow>,
    task_shadows: BTreeMap<StandingId, TaskShadow>,
    /// The events of teams, by their sequence numbers.
    task_events: Vec<(u64, StandingId)>,
    turns: Turns,
}

impl Engine {
    pub(crate) fn with_trace(trace: Option<Vec<String>>) -> Engine {
        Engine { trace, ..Engine::default() }
    }

    pub(crate) fn open(
        &mut self,
        now: Moment,
        specs: Vec<(SessionId, Spec)>,
        runs: Vec<(RunId, RunSpec)>,
        pairs: &[Pair],
    ) -> Result<(), Broken> {
        let mut turn = self.board.begin(now);
        for (id, spec) in specs {
            turn.open(id, spec, "operator");
        }
        for (id, spec) in runs {
            turn.open_run(id, spec, "operator");
        }
        for pair in pairs {
            Engine::open_pair(&mut turn, pair)?;
        }
        let (batch, staged) = turn.stage().ok_or("nothing to open")?;
        let committed = self.ledger.append(batch).map_err(|why| why.to_string())?;
        let changes = self.board.commit(staged, &committed);
        self.judge(&committed, now)?;
        self.dispatch(changes, usize::MAX);
        Ok(())
    }

    /// Decides and commits a few inputs together, and crashes at the given point.
    pub(crate) fn work(
        &mut self,
        now: Moment,
        inputs: &[Input],
        crash: CrashPoint,
    ) -> Result<Went, Broken> {
        let loaded = self.load_for(now, inputs);
        let mut replies = Vec::new();
        let mut turn = self.board.begin(now);
        // As in the daemon, due deadlines of teams are handled before requests to them.
        for id in self.board.due_tasks(now.mono_ms) {
            turn.follow_task(id);
        }
        for input in inputs {
            match input {
                Input::Told(session, command) => {
                    // A rejected observation was already known.
                    drop(turn.command(*session, command, "provost"));
                }
                Input::Asked { key, session, command } => {
                    let known = self.ledger.idempotent(key).ok().flatten();
                    if known.is_none()
                        && let Some(Ok(_)) = turn.command(*session, command, "operator")
                    {
                        turn.remember(key.clone(), "{}".to_owned());
                    }
                }
                Input::ToldRun(run, command) => {
                    drop(turn.command_run(*run, command, "provost"));
                }
                Input::AskedRun { key, run, command } => {
                    let known = self.ledger.idempotent(key).ok().flatten();
                    if known.is_none()
                        && let Some(Ok(_)) = turn.command_run(*run, command, "operator")
                    {
                        turn.remember(key.clone(), "{}".to_owned());
                    }
                }
                Input::ToldTask(task, command) => {
                    drop(turn.command_task(*task, &task::Actor::Provost, command, "provost"));
                    turn.follow_task(*task);
                }
                Input::AskedTask(ask) => replies.push(self.ask_task(&mut turn, ask)?),
                Input::Due => {
                    for id in self.board.due(now) {
                        turn.due(id, |launch| self.heard.get(&launch).copied());
                    }
                }
            }
        }
        let staged = turn.stage();
        let went = match staged {
            None => Went::Well,
            Some(_) if crash == CrashPoint::BeforeAppend => Went::Crashed,
            Some((batch, staged)) => match self.ledger.append(batch) {
                Err(_) => Went::Unwritten,
                Ok(committed) if crash == CrashPoint::AfterAppend => {
                    self.judge(&committed, now)?;
                    Went::Crashed
                }
                Ok(committed) => {
                    let changes = self.board.commit(staged, &committed);
                    self.judge(&committed, now)?;
                    self.same_as_shadows(&changes)?;
                    self.dispatch_until(changes, crash)
                }
            },
        };
        // Callers get their replies only if the engine survived.
        if went == Went::Well {
            self.replies.extend(replies);
        }
        for subject in loaded {
            match subject {
                Subject::Session(id) => self.board.let_go(id),
                Subject::Run(id) => self.board.let_run_go(id),
                Subject::Task(id) => self.board.let_task_go(id),
            }
        }
        Ok(went)
    }

    /// Crashes: only the ledger remains.
    pub(crate) fn crash(&mut self) {
        self.note(|| "— crash".to_owned());
        self.board = Board::default();
        self.tasks.clear();
        self.run_tasks.clear();
        self.owed_by_tasks.clear();
        self.told.clear();
        self.heard.clear();
    }

    /// Restarts: folds open streams and restores their pending effects.
    pub(crate) fn restore(&mut self) -> Result<(), Broken> {
        let open = self.ledger.open_streams().map_err(|why| why.to_string())?;
        for state in open {
            let subject = stream::subject(state.head.stream.as_str()).map_err(|e| e.to_string())?;
            let changes = self.load(subject)?;
            self.dispatch(changes, usize::MAX);
        }
        Ok(())
    }

    pub(crate) fn shadows(&self) -> impl Iterator<Item = &Session> {
        self.shadows.values().map(|shadow| &shadow.session)
    }

    pub(crate) fn shadow(&self, id: SessionId) -> Option<&Session> {
        self.shadows.get(&id).map(|shadow| &shadow.session)
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.run_shadows.values().map(|shadow| &shadow.run)
    }

    pub(crate) fn run(&self, id: RunId) -> Option<&Run> {
        self.run_shadows.get(&id).map(|shadow| &shadow.run)
    }

    /// Compares everything that the ledger stores beside its events with a fresh fold of them.
    pub(crate) fn verify(&self) -> Result<(), Broken> {
        let sessions = self.shadows.keys().map(|id| stream::stream_id(*id));
        let runs = self.run_shadows.keys().map(|id| stream::run_stream_id(*id));
        let tasks = self.task_shadows.keys().map(|id| stream::task_stream_id(*id));
        for name in sessions.chain(runs).chain(tasks) {
            let records = self.ledger.read_stream(&name, 0).map_err(|why| why.to_string())?;
            let mut folded = stream::refold(&name, &records)?;
            folded.owed.sort();
            let stored = self.ledger.stream(&name).map_err(|why| why.to_string())?;
            let stored = stored.ok_or("a stream is missing")?;
            if (stored.head.open, &stored.owed) != (folded.open, &folded.owed) {
                return Err(format!(
                    "the ledger has pending {:?}, but the events imply {:?}",
                    stored.owed, folded.owed
                ));
            }
            if stored.card != folded.card {
                return Err("the projection differs from the events".to_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    fn load_for(&mut self, now: Moment, inputs: &[Input]) -> Vec<Subject> {
        let mut loaded = Vec::new();
        for task in self.board.due_tasks(now.mono_ms) {
            self.bring_back_task(task, &mut loaded);
        }
        for input in inputs {
            match input {
                Input::Told(session, _) | Input::Asked { session, .. } => {
                    self.bring_back(Subject::Session(*session), &mut loaded);
                    self.bring_back_tasks_of(*session, &mut loaded);
                }
                Input::ToldTask(task, _) => self.bring_back_task(*task, &mut loaded),
                Input::AskedTask(ask) => {
                    self.bring_back_task(ask.task, &mut loaded);
                    if let Some(session) = ask.command.bound_session() {
                        self.bring_back(Subject::Session(session), &mut loaded);
                    }
                }
                Input::ToldRun(run, _) | Input::AskedRun { run, .. } => {
                    self.bring_back(Subject::Run(*run), &mut loaded);
                    // A run may resume sessions that it left.
                    let left = self.board.run(*run).map(Run::wanted).unwrap_or_default();
                    for session in left {
                        self.bring_back(Subject::Session(session), &mut loaded);
                    }
                }
                Input::Due => {
                    for session in self.board.due(now) {
                        self.bring_back_tasks_of(session, &mut loaded);
                    }
                }
            }
        }
        loaded
    }

    fn bring_back(&mut self, subject: Subject, loaded: &mut Vec<Subject>) {
        let held = match subject {
            Subject::Session(id) => self.board.session(id).is_some(),
            Subject::Run(id) => self.board.run(id).is_some(),
            Subject::Task(id) => self.board.task(id).is_some(),
        };
        if !held && self.load(subject).is_ok() {
            loaded.push(subject);
        }
    }

    fn load(&mut self, subject: Subject) -> Result<Changes, Broken> {
        match subject {
            Subject::Session(id) => {
                let (session, version) =
                    self.folded::<Session>(&stream::stream_id(id), stream::fold)?;
                same(self.shadow(id), &session)?;
                Ok(self.board.load(session, version))
            }
            Subject::Run(id) => {
                let (run, version) =
                    self.folded::<Run>(&stream::run_stream_id(id), stream::fold_run)?;
                same(self.run(id), &run)?;
                Ok(self.board.load_run(run, version))
            }
            Subject::Task(id) => {
                let (task, version) =
                    self.folded::<task::Task>(&stream::task_stream_id(id), stream::fold_task)?;
                same(self.task(id), &task)?;
                Ok(self.board.load_task(task, version))
            }
        }
    }

    fn folded<T: serde::de::DeserializeOwned>(
        &self,
        name: &StreamId,
        fold: Fold<T>,
    ) -> Result<(T, u64), Broken> {
        let snapshot = self.ledger.snapshot(name).map_err(|why| why.to_string())?;
        let after = stream::usable::<T>(snapshot.as_ref());
        let records = self.ledger.read_stream(name, after).map_err(|why| why.to_string())?;
        let used = if after > 0 { snapshot } else { None };
        let folded = fold(name, used.as_ref(), &records).map_err(|e| e.to_string())?;
        Ok((folded, after + records.len() as u64))
    }

    fn dispatch_until(&mut self, changes: Changes, crash: CrashPoint) -> Went {
        match crash {
            CrashPoint::InDispatch(orders) => {
                self.dispatch(changes, orders);
                Went::Crashed
            }
            CrashPoint::Nowhere | CrashPoint::BeforeAppend | CrashPoint::AfterAppend => {
                self.dispatch(changes, usize::MAX);
                Went::Well
            }
        }
    }

    fn dispatch(&mut self, changes: Changes, orders: usize) {
        for (id, key) in changes.cancel {
            // A follower runs until it has reported everything; other tasks stop.
            let follows = matches!(self.tasks.get(&(id, key.clone())), Some(Task::Follow(_)));
            if !follows {
                self.tasks.remove(&(id, key));
            }
        }
        for (id, key) in changes.cancel_of_runs {
            let task = self.run_tasks.get(&(id, key.clone()));
            // A landing in progress is not interrupted.
            if task.is_some_and(|task| !task.lands) {
                self.run_tasks.remove(&(id, key));
            }
        }
        for (id, key) in changes.cancel_of_tasks {
            self.owed_by_tasks.remove(&(id, key));
        }
        let left = orders.saturating_sub(changes.start.len());
        let of_tasks = changes.start_of_tasks.into_iter().take(left);
        self.owed_by_tasks.extend(of_tasks.map(|(id, effect)| ((id, effect.key()), effect)));
        for (id, effect) in changes.start_of_runs.into_iter().take(left) {
            if let Some(run) = self.board.run(id).cloned() {
                let key = (id, effect.key());
                self.run_tasks.insert(key, RunTask { effect, run, lands: false });
            }
        }
        for (id, effect) in changes.start.into_iter().take(orders) {
            let key = (id, effect.key());
            let session = self.board.session(id);
            #[expect(clippy::wildcard_enum_match_arm, reason = "all others run once")]
            let task = match effect {
                Effect::Follow(launch) => match session.and_then(|s| s.launch(launch)) {
                    Some(launch) => Task::Follow(Follower::new(launch)),
                    None => continue,
                },
                other => Task::Other(other),
            };
            self.tasks.insert(key, task);
        }
    }

    /// Shows every stored event to the laws.
    fn judge(&mut self, committed: &Committed, now: Moment) -> Result<(), Broken> {
        let mut changed = Vec::new();
        for record in committed.records() {
            let subject = stream::subject(record.stream.as_str()).map_err(|e| e.to_string())?;
            match subject {
                Subject::Session(id) => self.judge_record(id, record, now)?,
                Subject::Run(id) => self.judge_run_record(id, record, now)?,
                Subject::Task(id) => self.judge_task_record(id, record, now)?,
            }
            self.events += 1;
            changed.push(subject);
        }
        self.tasks_rest(&changed, now)?;
        for subject in changed {
            match subject {
                Subject::Session(id) => {
                    let shadow = &self.shadows[&id];
                    shadow.watch.rest(&shadow.session, now)?;
                }
                Subject::Run(_) | Subject::Task(_) => {}
            }
        }
        // A run depends on its sessions, so it is settled only when they are.
        let all: usize = self.runs().map(Run::agents_at_work).sum();
        for RunShadow { run, watch, .. } in self.run_shadows.values() {
            let most = run.spec.planning.machine_parallel as usize;
            if all > most {
                return Err(format!("{all} agents work for all runs, the limit is {most}"));
            }
            watch.rest(run, now, all - run.agents_at_work(), |id| self.shadow(id))?;
        }
        Ok(())
    }

    fn judge_record(
        &mut self,
        id: SessionId,
        record: &Recorded,
        now: Moment,
    ) -> Result<(), Broken> {
        let event =
            Event::decode(&record.kind, record.v, &record.data).map_err(|why| why.to_string())?;
        self.note(|| format!("{:>8} {:>3} {event:?}", now.mono_ms, id.0.as_u64_pair().1));
        self.judge_event(id, record.version, stream::to_core(record.at), &event)?;
        self.fresh.push((id, event));
        Ok(())
    }

    fn judge_run_record(
        &mut self,
        id: RunId,
        record: &Recorded,
        now: Moment,
    ) -> Result<(), Broken> {
        let event = run::Event::decode(&record.kind, record.v, &record.data)
            .map_err(|why| why.to_string())?;
        self.note(|| format!("{:>8} run {event:?}", now.mono_ms));
        self.coverage.visit_run(&event);
        let at = stream::to_core(record.at);
        if let run::Event::RunOpened(opened) = &event {
            let run = Run::open(id, at, opened);
            let watch = RunWatch::of(&run)?;
            self.run_shadows.insert(id, RunShadow { run, watch, version: record.version });
        } else {
            let shadow = self.run_shadows.get_mut(&id).ok_or("an event of an unknown run")?;
            if record.version != shadow.version + 1 {
                return Err(format!("event {} follows event {}", record.version, shadow.version));
            }
            let before = shadow.run.clone();
            shadow.run.evolve(at, &event);
            shadow.version = record.version;
            shadow.watch.event(&before, &event, &shadow.run)?;
        }
        self.fresh_of_runs.push((id, event));
        Ok(())
    }

    fn judge_event(
        &mut self,
        id: SessionId,
        version: u64,
        at: Moment,
        event: &Event,
    ) -> Result<(), Broken> {
        if let Event::SessionOpened(opened) = event {
            let session = Session::open(id, at, opened);
            let watch = Watch::of(&session);
            self.coverage.visit(event, &session);
            self.shadows.insert(id, Shadow { session, watch, version });
            return Ok(());
        }
        let shadow = self.shadows.get_mut(&id).ok_or("an event of an unknown session")?;
        if version != shadow.version + 1 {
            return Err(format!("event {version} follows event {}", shadow.version));
        }
        let before = shadow.session.clone();
        shadow.session.evolve(at, event);
        shadow.version = version;
        self.coverage.visit(event, &shadow.session);
        self.turns.event(&before, at, event)?;
        shadow.watch.event(&before, at, event, &shadow.session)
    }

    fn same_as_shadows(&self, changes: &Changes) -> Result<(), Broken> {
        self.tasks_are_the_same()?;
        for (id, shadow) in &self.run_shadows {
            if self.board.run(*id).is_some_and(|held| *held != shadow.run) {
                return Err("the run on the board differs from the stored one".to_owned());
            }
        }
        for id in &changes.changed {
            if let (Some(held), Some(shadow)) = (self.board.session(*id), self.shadow(*id))
                && held != shadow
            {
                return Err("the session on the board differs from the stored one".to_owned());
            }
        }
        Ok(())
    }
}

type Fold<T> =
    fn(&StreamId, Option<&provost_ledger::StoredSnapshot>, &[Recorded]) -> Result<T, stream::Error>;

fn same<T: PartialEq>(shadow: Option<&T>, folded: &T) -> Result<(), Broken> {
    if shadow == Some(folded) {
        Ok(())
    } else {
        Err("the fold after a restart differs from the fold before".to_owned())
    }
}

/// Whether a command would change anything. Used to choose actions, not to carry them out.
pub(crate) fn is_open_to(session: &Session, command: &Command, now: Moment) -> bool {
    !matches!(session.decide(command, now), Err(Rejected::Nothing))
}
