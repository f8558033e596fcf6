//! The owner: one thread that holds the board and writes the ledger.
//!
//! All inputs that arrive during a commit are decided together and committed together, so many
//! writers cost few commits. No reply is sent, and no effect starts, before its events are durable.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use provost_api::{ApiError, Code, EventRow};
use provost_core::{
    ids::{LaunchId, RunId, SessionId, StandingId},
    lifecycle::State,
    run::Run,
    session::{Command, Effect, Message, Rejected, Reporter, Session, standing_of},
    shortage::Shortage,
    task::{self, Task},
};
use provost_ledger::{
    AppendError, Batch, Committed, Ledger, ReadLedger, Recorded, SqliteLedger, StoredSnapshot,
    StreamId,
};
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::{broadcast, mpsc};

use super::{
    again,
    answer::{
        adopted_already, kept, lossy, refused, refused_there, report_reply, run_refused, run_reply,
        session_reply, unrecordable, unwritten,
    },
    catching_up::CatchingUp,
    clock::Clock,
    executor::{Dispatch, Executor, World},
    failpoint,
    handle::{
        Answer, Ask, Asked, Handle, Input, Published, RunTold, TaskTold, Teller, Told, event_row,
        is_query,
    },
    home::Home,
    secrets::Secrets,
    shortage::Waits,
    tasks::{self, Polls},
};
use crate::{
    board::{Board, Changes, Outcome, Staged, Turn},
    card,
    stream::{self, Subject},
};

/// The maximum number of inputs that are decided and committed together.
const MAX_BATCH: usize = 512;

/// Callers often send the next request right after a reply. If fewer inputs arrived during a commit
/// than it answered, the owner waits this long for the others: one commit for all costs less than
/// two for half of them each.
const GATHER: Duration = Duration::from_micros(150);

/// The owner waits for others only if the last commit answered at least this many.
const CROWD: usize = 8;

/// The maximum number of inputs that wait for the owner; more make their senders wait.
const MAX_WAITING: usize = 4096;

/// How many events a slow subscriber may lag before it reads the ledger instead.
const MAX_BEHIND: usize = 1024;

/// How far ahead of a deadline sessions are loaded: a decision takes a while.
const AHEAD_MS: u64 = 1_000;

/// The wait after a failed write before observations are written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// The maximum number of agents' reports kept in memory while the ledger cannot be written.
const MAX_KEPT: usize = 1_000;

/// The longest time that a new daemon waits until every launch was observed, before deadlines count
/// again.
const CATCH_UP_MS: u64 = 2_000;

/// Why the engine cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the ledger cannot be read: {0}")]
    Ledger(#[from] provost_ledger::Error),
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// Folds a stream from a snapshot and the records after it.
type Fold<T> = fn(&StreamId, Option<&StoredSnapshot>, &[Recorded]) -> Result<T, stream::Error>;

/// Observations of sessions, and results of effects of runs and teams.
#[derive(Default)]
struct News {
    sessions: Vec<Told>,
    runs: Vec<RunTold>,
    tasks: Vec<TaskTold>,
}

/// The owner of the board and the ledger.
pub struct Owner {
    pub(super) board: Board,
    pub(super) ledger: SqliteLedger,
    pub(super) clock: Clock,
    inputs: mpsc::Receiver<Input>,
    orders: mpsc::Sender<Dispatch>,
    events: broadcast::Sender<Published>,
    heard: Arc<Mutex<HashMap<LaunchId, u64>>>,
    /// Observations that could not be written yet. They are never dropped.
    backlog: News,
    pub(super) unreadable: BTreeMap<String, String>,
    secrets: Secrets,
    catching_up: CatchingUp,
    pub(super) polls: Polls,
    /// How Provost is called in commands shown to members, wherever they are.
    pub(super) caller: task::Caller,
    /// Answers to launches that were not observed yet. A dead launch cannot use them.
    early: Vec<Asked>,
    /// The number of requests that the last commit answered.
    answered: usize,
    pub(super) home: Home,
    pub(super) waits: Waits,
    /// Why the last write failed, if it did.
    pub(super) unwritten: Option<Shortage>,
    /// Sessions as they would be if the observations could be written. Empty while they can.
    pub(super) preview: BTreeMap<SessionId, Session>,
    /// Reports of agents that could not be written yet.
    kept: Vec<Asked>,
}

/// A running engine.
pub struct Opened {
    pub handle: Handle,
    /// Ends when the owner has stopped.
    pub owner: thread::JoinHandle<()>,
    /// Carries out pending effects. The opener of the engine must await it.
    pub executor: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Owner {
    /// Folds the open streams of the ledger and starts the owner.
    pub fn start(ledger: SqliteLedger, world: World) -> Result<Opened, StartError> {
        let last = last_moment(&ledger)?;
        let clock = Clock::after(last);
        let (sender, inputs) = mpsc::channel(MAX_WAITING);
        let (orders, dispatched) = mpsc::channel(MAX_WAITING);
        let events = broadcast::Sender::new(MAX_BEHIND);
        let heard = Arc::default();
        let teller = Teller { inputs: sender.clone(), heard: Arc::clone(&heard) };
        let handle = Handle { inputs: sender, events: events.clone() };
        let secrets = world.secrets.clone();
        let (caller, home, waits) = (world.caller(), world.home.clone(), world.waits.clone());
        let executor = Executor::new(world, teller, handle.clone(), clock);
        let executor = Box::pin(executor.run(dispatched));
        let mut owner = Owner {
            board: Board::called_by(caller.clone()),
            ledger,
            clock,
            inputs,
            orders,
            events,
            heard,
            backlog: News::default(),
            unreadable: BTreeMap::new(),
            secrets,
            catching_up: CatchingUp::default(),
            polls: Polls::default(),
            caller,
            early: Vec::new(),
            answered: 0,
            home,
            waits,
            unwritten: None,
            preview: BTreeMap::new(),
            kept: Vec::new(),
        };
        let changes = owner.restore()?;
        let launches: BTreeSet<LaunchId> =
            changes.start.iter().filter_map(|(_, effect)| followed(effect)).collect();
        // Sent with the first batch, before deadlines count: waits for a daemon are measured from
        // now on.
        owner.backlog.sessions = launches.iter().map(|launch| followed_again(*launch)).collect();
        owner.backlog.tasks = owner.board.tasks().map(|task| looked_at_again(task.id)).collect();
        owner.catching_up =
            CatchingUp { launches, from: last, until: clock.now().mono_ms + CATCH_UP_MS };
        let thread = thread::Builder::new().name("owner".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.expect("a runtime with a clock and nothing else can be made");
            runtime.block_on(owner.run(changes));
        })?;
        Ok(Opened { handle, owner: thread, executor })
    }

    fn restore(&mut self) -> Result<Changes, StartError> {
        let mut all = Changes::default();
        if self.ledger.read_only().is_some() || self.ledger.loss().is_some() {
            // Nothing may be done that could not be recorded.
            return Ok(all);
        }
        for state in self.ledger.open_streams()? {
            let stream = state.head.stream;
            match self.load(&stream) {
                Ok(changes) => {
                    all.start.extend(changes.start);
                    all.start_of_runs.extend(changes.start_of_runs);
                    all.start_of_tasks.extend(changes.start_of_tasks);
                }
                Err(why) => drop(self.unreadable.insert(stream.to_string(), why)),
            }
        }
        Ok(all)
    }

    /// Folds a session, a run or a team from the ledger onto the board.
    pub(super) fn load(&mut self, stream: &StreamId) -> Result<Changes, String> {
        match stream::subject(stream.as_str()).map_err(|why| why.to_string())? {
            Subject::Session(_) => {
                let (mut session, version) = self.folded::<Session>(stream, stream::fold)?;
                session.imported = self.is_imported(stream)?;
                Ok(self.board.load(session, version))
            }
            Subject::Run(_) => {
                let (mut run, version) = self.folded::<Run>(stream, stream::fold_run)?;
                run.imported = self.is_imported(stream)?;
                Ok(self.board.load_run(run, version))
            }
            Subject::Task(_) => {
                let (task, version) = self.folded::<Task>(stream, stream::fold_task)?;
                Ok(self.board.load_task(task, version))
            }
        }
    }

    fn is_imported(&self, stream: &StreamId) -> Result<bool, String> {
        self.ledger.is_imported(stream).map_err(|why| why.to_string())
    }

    fn folded<T: DeserializeOwned>(
        &self,
        stream: &StreamId,
        fold: Fold<T>,
    ) -> Result<(T, u64), String> {
        let told = |why: provost_ledger::Error| why.to_string();
        let snapshot = self.ledger.snapshot(stream).map_err(told)?;
        let after = stream::usable::<T>(snapshot.as_ref());
        let records = self.ledger.read_stream(stream, after).map_err(told)?;
        let used = if after > 0 { snapshot } else { None };
        let folded = fold(stream, used.as_ref(), &records).map_err(|why| why.to_string())?;
        Ok((folded, after + records.len() as u64))
    }

    async fn run(mut self, changes: Changes) {
        self.dispatch(changes).await;
        loop {
            let Some(inputs) = self.receive().await else { return };
            let (mut stop, mut lost) = (None, Vec::new());
            let mut asked = std::mem::take(&mut self.early);
            asked.append(&mut self.kept);
            let mut told = std::mem::take(&mut self.backlog);
            for input in inputs {
                match input {
                    Input::Asked(one) => asked.push(*one),
                    Input::Told(one) => told.sessions.push(one),
                    Input::RunTold(one) => told.runs.push(one),
                    Input::TaskTold(one) => told.tasks.push(one),
                    Input::CaughtUp(launch) => drop(self.catching_up.launches.remove(&launch)),
                    Input::EffectLost(subject, key) => lost.push((subject, key)),
                    Input::Stop(done) => stop = Some(done),
                }
            }
            let now = self.clock.now();
            let is_early = |one: &Asked| self.catching_up.is_early(&one.ask, now);
            let (early, asked) = asked.into_iter().partition(is_early);
            self.early = early;
            self.work(asked, told).await;
            for (subject, key) in lost {
                self.dispatch_again(subject, &key).await;
            }
            if let Some(done) = stop {
                // The caller may have stopped waiting; the owner stops nevertheless.
                done.send(()).ok();
                return;
            }
        }
    }

    /// Waits for inputs, and takes all that are there. `None` when every sender is gone.
    async fn receive(&mut self) -> Option<Vec<Input>> {
        let mut inputs = Vec::new();
        let wait = self.wait();
        tokio::select! {
            biased;
            count = self.inputs.recv_many(&mut inputs, MAX_BATCH) => {
                if count == 0 {
                    return None;
                }
            }
            () = sleep(wait) => return Some(inputs),
        }
        if self.answered >= CROWD && inputs.len() < self.answered {
            self.gather(&mut inputs);
        }
        Some(inputs)
    }

    /// Waits a moment for the callers that were answered last, and takes their inputs.
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's own clock is too coarse, and nothing else runs in this thread"
    )]
    fn gather(&mut self, inputs: &mut Vec<Input>) {
        thread::sleep(GATHER);
        while inputs.len() < MAX_BATCH
            && let Ok(input) = self.inputs.try_recv()
        {
            inputs.push(input);
        }
    }

    fn wait(&self) -> Option<Duration> {
        let now = self.clock.now();
        let catching_up = (!self.catching_up.is_over(now)).then_some(self.catching_up.until);
        let due = self.board.next_deadline().map(|at| {
            let at = catching_up.map_or(at, |until| at.max(until));
            Duration::from_millis(at.saturating_sub(now.mono_ms))
        });
        let kept = (!self.early.is_empty()).then(|| {
            Duration::from_millis(self.catching_up.answers_from().saturating_sub(now.mono_ms))
        });
        let due = [due, kept].into_iter().flatten().min();
        let unwritten = !self.backlog.is_empty() || !self.kept.is_empty();
        let again = unwritten.then_some(WRITE_AGAIN);
        match (due, again) {
            // While the ledger cannot be written, deadlines change nothing either.
            (_, Some(again)) => Some(again),
            (due, None) => due,
        }
    }

    async fn work(&mut self, asked: Vec<Asked>, told: News) {
        let (queries, changes): (Vec<_>, Vec<_>) =
            asked.into_iter().partition(|one| is_query(&one.ask));
        if !queries.is_empty() {
            self.preview = self.previewed(&told.sessions);
        }
        for query in queries {
            let reply = self.answer(&query.ask);
            drop(query.reply.send(reply));
        }
        let loaded = self.load_for(&changes, &told);
        self.answered = changes.len();
        self.settle(changes, told).await;
        self.put_away(&loaded);
    }

    /// Evicts subjects that were loaded for one batch.
    pub(super) fn put_away(&mut self, loaded: &[Subject]) {
        for subject in loaded {
            match subject {
                Subject::Session(id) => self.board.let_go(*id),
                Subject::Run(id) => self.board.let_run_go(*id),
                Subject::Task(id) => self.board.let_task_go(*id),
            }
        }
    }

    /// Decides and commits together. A change that cannot be recorded is isolated and refused
    /// alone, so that one session's excess never delays another's events.
    async fn settle(&mut self, changes: Vec<Asked>, told: News) {
        let decided = self.decide(&changes, &told);
        match self.commit(decided.staged).await {
            Ok(()) => reply(changes, decided.replies),
            Err(AppendError::Invalid(_)) if changes.len() + told.len() > 1 => {
                for one in told.each() {
                    self.settle_one(Vec::new(), one).await;
                }
                for one in changes {
                    self.settle_one(vec![one], News::default()).await;
                }
            }
            Err(why) => {
                let invalid = matches!(why, AppendError::Invalid(_));
                let failure = if invalid { unrecordable(&why) } else { unwritten(&why) };
                for (one, reply) in changes.into_iter().zip(decided.replies) {
                    let keeps = reply.is_ok() && !invalid && self.may_keep(&one.ask);
                    let failure = if keeps { kept(&why) } else { failure.clone() };
                    let Asked { ask, actor, key, reply: asker } = one;
                    // A caller that is gone needs no reply.
                    drop(asker.send(reply.and(Err(failure))));
                    if keeps {
                        let nobody = tokio::sync::oneshot::channel().0;
                        self.kept.push(Asked { ask, actor, key, reply: nobody });
                    }
                }
                if !invalid {
                    self.backlog.extend(told);
                }
            }
        }
    }

    /// Whether it is an agent's report, which is recorded once there is disk space: the agent may
    /// not report it again.
    fn may_keep(&self, ask: &Ask) -> bool {
        let from_agent =
            matches!(ask, Ask::Report { from: Reporter::Launch(_) | Reporter::Dropped(_), .. });
        from_agent && self.kept.len() < MAX_KEPT
    }

    async fn settle_one(&mut self, changes: Vec<Asked>, told: News) {
        Box::pin(self.settle(changes, told)).await;
    }

    /// Loads closed sessions, runs and teams that an input is about.
    fn load_for(&mut self, changes: &[Asked], told: &News) -> Vec<Subject> {
        let named = changes.iter().filter_map(|one| self.subject(&one.ask)?.ok());
        let paired = changes.iter().flat_map(|one| self.sessions_of_pair(&one.ask));
        let sessions = named.chain(paired).chain(told.sessions.iter().map(|one| one.session));
        let runs = changes.iter().filter_map(|one| self.subject_run(&one.ask));
        let runs = runs.chain(told.runs.iter().map(|one| one.run));
        let tasks = changes.iter().filter_map(|one| self.subject_of_task(&one.ask));
        let tasks = tasks.chain(told.tasks.iter().map(|one| one.task));
        // A deadline that passes now may need a session that was evicted.
        let mut soon = self.catching_up.reached(self.clock.now());
        soon.mono_ms = soon.mono_ms.saturating_add(AHEAD_MS);
        let due = self.board.due_tasks(soon.mono_ms).into_iter().map(Subject::Task);
        let due = due.chain(self.board.due(soon).into_iter().map(Subject::Session));
        let wanted: Vec<Subject> = sessions
            .map(Subject::Session)
            .chain(runs.map(Subject::Run))
            .chain(tasks.map(Subject::Task))
            .chain(due)
            .collect();
        let mut loaded = Vec::new();
        for subject in wanted {
            self.bring_back(subject, &mut loaded);
            for session in self.needed_for(subject) {
                self.bring_back(Subject::Session(session), &mut loaded);
            }
        }
        loaded
    }

    /// Returns the sessions that may get a command when this changes: a run may resume a session,
    /// and a team may wake its members.
    fn needed_for(&self, subject: Subject) -> Vec<SessionId> {
        let of_task = |id: &StandingId| self.board.task(*id).map(tasks::wanted).unwrap_or_default();
        match subject {
            Subject::Run(id) => self.board.run(id).map(Run::wanted).unwrap_or_default(),
            Subject::Task(id) => of_task(&id),
            Subject::Session(id) => self.board.tasks_of(id).iter().flat_map(of_task).collect(),
        }
    }

    fn sessions_of_pair(&self, ask: &Ask) -> Vec<SessionId> {
        let Ask::Task(ask) = ask else { return Vec::new() };
        self.sessions_to_bind(ask)
    }

    fn subject_of_task(&self, ask: &Ask) -> Option<StandingId> {
        let Ask::Task(ask) = ask else { return None };
        self.subject_task(ask)
    }

    /// Loads a team and the sessions of its members, for a query.
    pub(super) fn load_with_members(&mut self, id: StandingId) -> Vec<Subject> {
        let mut loaded = Vec::new();
        self.bring_back(Subject::Task(id), &mut loaded);
        for session in self.needed_for(Subject::Task(id)) {
            self.bring_back(Subject::Session(session), &mut loaded);
        }
        loaded
    }

    fn bring_back(&mut self, subject: Subject, loaded: &mut Vec<Subject>) {
        let (held, stream) = match subject {
            Subject::Session(id) => (self.board.session(id).is_some(), stream::stream_id(id)),
            Subject::Run(id) => (self.board.run(id).is_some(), stream::run_stream_id(id)),
            Subject::Task(id) => (self.board.task(id).is_some(), stream::task_stream_id(id)),
        };
        if held {
            return;
        }
        match self.load(&stream) {
            Ok(_) => loaded.push(subject),
            Err(why) if self.ledger.stream(&stream).is_ok_and(|found| found.is_some()) => {
                self.unreadable.insert(stream.to_string(), why);
            }
            // There is nothing of this name, which the reply says.
            Err(_) => {}
        }
    }

    fn subject_run(&self, ask: &Ask) -> Option<RunId> {
        match ask {
            Ask::DoRun { run, .. } => self.resolve_run(run).ok(),
            Ask::OpenRun { .. }
            | Ask::RunRow { .. }
            | Ask::Graph { .. }
            | Ask::Runs { .. }
            | Ask::Task(_)
            | Ask::Open { .. }
            | Ask::Do { .. }
            | Ask::Report { .. }
            | Ask::Call { .. }
            | Ask::Row { .. }
            | Ask::Why { .. }
            | Ask::List(_)
            | Ask::Live
            | Ask::Status { .. }
            | Ask::Overlay
            | Ask::Archive { .. } => None,
        }
    }

    /// Begins a turn in which deadlines count up to the moment that was observed.
    pub(super) fn begin_turn(&self) -> Turn<'_> {
        let now = self.clock.now();
        self.board.begin_observing(now, self.catching_up.reached(now))
    }

    /// Decides everything against one set of drafts.
    fn decide(&self, changes: &[Asked], told: &News) -> Decided {
        let mut turn = self.begin_turn();
        let observed = told.sessions.iter();
        for (one, command) in observed.flat_map(|one| one.commands.iter().map(move |c| (one, c))) {
            // An observation that is not new was made before; one of a missing session is dropped.
            drop(turn.command(one.session, command, "provost"));
        }
        for one in &told.runs {
            drop(turn.command_run(one.run, &one.command, "provost"));
        }
        for one in &told.tasks {
            // A result that is not new was recorded before; the follow-ups of the sessions still
            // apply.
            drop(turn.command_task(one.task, &task::Actor::Provost, &one.command, "provost"));
            turn.follow_task(one.task);
        }
        for id in self.board.due_tasks(turn.reached().mono_ms) {
            turn.follow_task(id);
        }
        for id in self.board.due(turn.reached()) {
            turn.due(id, |launch| self.heard_of(launch));
        }
        let mut replies = Vec::new();
        let mut keys: HashMap<String, String> = HashMap::new();
        for one in changes {
            let key = self.whole_key(one);
            let known = key.as_ref().and_then(|key| self.replied(key, &keys));
            // One key means one message, whatever its text: the team itself compares them.
            let known = known.filter(|reply| again::is_answered_by(&one.ask, reply));
            let reply = match known {
                Some(reply) => self.same_change(&turn, &one.ask, reply),
                None => self.change(&mut turn, &one.ask, &one.actor).inspect(|reply| {
                    if let Some(key) = &key {
                        let kept = again::kept(&one.ask, reply);
                        keys.insert(key.clone(), kept.clone());
                        turn.remember(key.clone(), kept);
                    }
                }),
            };
            replies.push(reply);
        }
        Decided { staged: turn.stage(), replies }
    }

    /// Qualifies a key with its team: the same key may be used for another team.
    fn whole_key(&self, one: &Asked) -> Option<String> {
        let key = one.key.as_ref()?;
        let task = self.subject_of_task(&one.ask);
        Some(task.map_or_else(|| key.clone(), |task| format!("{key}/{task}")))
    }

    fn replied(&self, key: &str, now: &HashMap<String, String>) -> Option<String> {
        now.get(key).cloned().or_else(|| self.ledger.idempotent(key).ok().flatten())
    }

    fn change(&self, turn: &mut Turn<'_>, ask: &Ask, actor: &str) -> Result<String, ApiError> {
        if let Some(loss) = self.ledger.loss() {
            return Err(lossy(&loss));
        }
        if let Some(why) = self.ledger.read_only() {
            return Err(
                ApiError::new(Code::ReadOnly, why.to_string()).next("provost ledger export")
            );
        }
        match ask {
            Ask::Open { id, spec, warnings } => {
                let adopted = spec.adopted.as_deref();
                if let Some(other) = adopted.and_then(|adopted| turn.has_agent(adopted)) {
                    return Err(adopted_already(other));
                }
                let session = turn.open(*id, (**spec).clone(), actor);
                let row = card::row(session);
                Ok(json!({"ok": true, "id": row.id, "session": row, "warnings": warnings})
                    .to_string())
            }
            Ask::Do { session, command } => {
                let id = self.resolve(session)?;
                match turn.command(id, command, actor) {
                    None => Err(self.unloaded(id)),
                    Some(Err(Rejected::Nothing)) => self.row_of(turn, id, session),
                    Some(Err(why)) => Err(refused_there(&why, turn.session(id), id)),
                    Some(Ok((session, _))) => {
                        self.keep_secret(session, command);
                        Ok(session_reply(session))
                    }
                }
            }
            Ask::Report { session, from, testimony } => {
                let id = match (session, from) {
                    (None, Reporter::Launch(launch) | Reporter::Dropped(launch)) => launch.session,
                    (Some(session), Reporter::Launch(launch) | Reporter::Dropped(launch)) => {
                        self.own_session(session, launch)?
                    }
                    (Some(session), Reporter::Operator) => self.resolve(session)?,
                    (None, Reporter::Operator) => {
                        return Err(ApiError::new(Code::BadRequest, "no session was given")
                            .next("provost report completed --session ID"));
                    }
                };
                let testimony = self.secrets.hide(id, testimony);
                let command = Command::Report { from: *from, testimony };
                match turn.command(id, &command, actor) {
                    None => Err(self.unloaded(id)),
                    Some(Err(Rejected::Nothing)) => turn
                        .session(id)
                        .map(|session| report_reply(session, "recorded"))
                        .ok_or_else(|| self.missing(&id.to_string())),
                    Some(Err(why @ Rejected::ReportBudget { launch })) => {
                        // The session shows that reports are missing.
                        drop(turn.command(id, &Command::ReportRefused { launch }, actor));
                        Err(refused(&why, id))
                    }
                    Some(Err(why)) => Err(refused(&why, id)),
                    Some(Ok((session, events))) => {
                        let standing = standing_of(&events).map_or("recorded", |s| s.word());
                        Ok(report_reply(session, standing))
                    }
                }
            }
            Ask::Call { launch, native, call } => {
                let id = launch.session;
                match turn.call(*launch, native, call, actor) {
                    None => Err(self.unloaded(id)),
                    Some(Err(Rejected::Nothing)) => {
                        let message = "the calling process has ended, or the call was made before";
                        Err(ApiError::new(Code::Refused, message).next("provost status"))
                    }
                    Some(Err(why @ Rejected::ReportBudget { launch })) => {
                        drop(turn.command(id, &Command::ReportRefused { launch }, actor));
                        Err(refused(&why, id))
                    }
                    Some(Err(why)) => Err(refused(&why, id)),
                    Some(Ok(Outcome { ok, text })) => {
                        Ok(json!({"ok": true, "id": id, "taken": ok, "answer": text}).to_string())
                    }
                }
            }
            Ask::OpenRun { id, spec } => {
                let run = turn.open_run(*id, (**spec).clone(), actor);
                run.map(run_reply).ok_or_else(|| self.no_run(&id.to_string()))
            }
            Ask::DoRun { run, command } => {
                let id = self.resolve_run(run)?;
                match turn.command_run(id, command, actor) {
                    None => Err(self.no_run(run)),
                    Some(Err(why)) => Err(run_refused(&why, &id.short())),
                    Some(Ok(run)) => Ok(run_reply(run)),
                }
            }
            Ask::Task(ask) => self.change_task(turn, ask, actor),
            Ask::RunRow { .. }
            | Ask::Graph { .. }
            | Ask::Runs { .. }
            | Ask::Row { .. }
            | Ask::Why { .. }
            | Ask::List(_)
            | Ask::Live
            | Ask::Status { .. }
            | Ask::Overlay
            | Ask::Archive { .. } => unreachable!("queries are answered before decisions"),
        }
    }

    /// Checks that a launch which names a session names its own.
    fn own_session(&self, named: &str, launch: &LaunchId) -> Result<SessionId, ApiError> {
        if self.resolve(named)? == launch.session {
            return Ok(launch.session);
        }
        let message =
            format!("an agent may only report about itself; it belongs to launch {launch}");
        Err(ApiError::new(Code::Forbidden, message).next("provost report completed"))
    }

    /// Keeps a secret answer for its delivery: the ledger does not have it.
    fn keep_secret(&self, session: &Session, command: &Command) {
        let Command::Answer { request, reply, .. } = command else { return };
        let answers = |message: &&Message| message.request == Some(*request);
        let asked = session.requests.iter().find(|asked| asked.id == *request);
        if let Some(message) = session.messages.iter().rev().find(answers)
            && let Some(asked) = asked.map(|request| &request.asked)
            && asked.is_secret()
        {
            self.secrets.keep(session.id, &message.key, asked, reply);
        }
    }

    /// Returns when a launch was last heard, if it was since the daemon started.
    pub(super) fn heard_of(&self, launch: LaunchId) -> Option<u64> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).get(&launch).copied()
    }

    fn row_of(&self, turn: &Turn<'_>, id: SessionId, named: &str) -> Result<String, ApiError> {
        turn.session(id).map(session_reply).ok_or_else(|| self.missing(named))
    }

    /// Makes the decisions durable, then applies, publishes and dispatches them.
    async fn commit(&mut self, staged: Option<(Batch, Staged)>) -> Result<(), AppendError> {
        let Some((batch, staged)) = staged else { return Ok(()) };
        failpoint::pass("commit.before");
        let appended = self.ledger.append(batch);
        self.unwritten = appended.as_ref().err().and_then(|why| self.unwritten_for(why));
        let committed = appended?;
        failpoint::pass("commit.after");
        let changes = self.board.commit(staged, &committed);
        self.publish(committed, &changes.states);
        self.dispatch(changes).await;
        Ok(())
    }

    async fn dispatch(&self, changes: Changes) {
        for (session, key) in changes.cancel {
            self.order(Dispatch::Cancel { session, key }).await;
        }
        for (run, key) in changes.cancel_of_runs {
            self.order(Dispatch::CancelRun { run, key }).await;
        }
        for (id, effect) in changes.start_of_runs {
            let Some(held) = self.board.run(id) else { continue };
            self.order(Dispatch::StartRun { run: Arc::new(held.clone()), effect }).await;
        }
        for (task, key) in changes.cancel_of_tasks {
            self.order(Dispatch::CancelTask { task, key }).await;
        }
        for (id, effect) in changes.start_of_tasks {
            let Some(held) = self.board.task(id) else { continue };
            let (task, worker) = (Arc::new(held.clone()), self.worker_of(held, &effect));
            self.order(Dispatch::StartTask { task, worker, effect }).await;
        }
        let mut shared: HashMap<SessionId, Arc<Session>> = HashMap::new();
        for (id, effect) in changes.start {
            let Some(held) = self.board.session(id) else { continue };
            let session = shared.entry(id).or_insert_with(|| Arc::new(held.clone())).clone();
            self.order(Dispatch::Start { session, effect }).await;
        }
    }

    /// Restarts an effect that nothing carries out any more, if it is still pending.
    async fn dispatch_again(&self, subject: Subject, key: &str) {
        match subject {
            Subject::Session(id) => {
                let Some(session) = self.board.session(id) else { return };
                let owed = session.effects().into_iter().find(|effect| effect.key() == key);
                if let Some(effect) = owed {
                    let session = Arc::new(session.clone());
                    self.order(Dispatch::Start { session, effect }).await;
                }
            }
            Subject::Run(id) => {
                let Some(run) = self.board.run(id) else { return };
                let owed = run.effects().into_iter().find(|effect| effect.key() == key);
                if let Some(effect) = owed {
                    let run = Arc::new(run.clone());
                    self.order(Dispatch::StartRun { run, effect }).await;
                }
            }
            Subject::Task(id) => {
                let Some(task) = self.board.task(id) else { return };
                let owed = task.effects().into_iter().find(|effect| effect.key() == key);
                if let Some(effect) = owed {
                    let (task, worker) = (Arc::new(task.clone()), self.worker_of(task, &effect));
                    self.order(Dispatch::StartTask { task, worker, effect }).await;
                }
            }
        }
    }

    /// Returns the session whose work an effect of a team is about, even if it is closed.
    fn worker_of(&self, task: &Task, effect: &task::Effect) -> Option<Arc<Session>> {
        let task::Effect::RunCheck(owed) = effect;
        let id = task.member(&owed.worker)?.session?;
        let held = self.board.session(id).cloned();
        let stored = || self.folded::<Session>(&stream::stream_id(id), stream::fold).ok();
        held.or_else(|| stored().map(|(session, _)| session)).map(Arc::new)
    }

    async fn order(&self, order: Dispatch) {
        // The executor ends only with the daemon; effects pending then are pending again at the
        // next start.
        drop(self.orders.send(order).await);
    }

    fn publish(&self, committed: Committed, states: &BTreeMap<(SessionId, u64), State>) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let mut rows: Vec<EventRow> = committed.into_records().iter().map(event_row).collect();
        for row in &mut rows {
            let id = row.session.parse().ok();
            let state = id.and_then(|id| states.get(&(id, row.version)));
            row.state = state.map(|state| state.word().to_owned());
        }
        // Without a receiver there is nothing to do.
        drop(self.events.send(Arc::new(rows)));
    }
}

impl News {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.sessions.len() + self.runs.len() + self.tasks.len()
    }

    fn extend(&mut self, more: News) {
        self.sessions.extend(more.sessions);
        self.runs.extend(more.runs);
        self.tasks.extend(more.tasks);
    }

    /// Splits the batch into single observations.
    fn each(self) -> impl Iterator<Item = News> {
        let sessions = self.sessions.into_iter();
        let sessions = sessions.map(|one| News { sessions: vec![one], ..News::default() });
        let runs = self.runs.into_iter().map(|one| News { runs: vec![one], ..News::default() });
        let tasks = self.tasks.into_iter().map(|one| News { tasks: vec![one], ..News::default() });
        sessions.chain(runs).chain(tasks)
    }
}

struct Decided {
    staged: Option<(Batch, Staged)>,
    replies: Vec<Answer>,
}

/// Sends all replies. A caller that is gone needs none; the decision holds.
fn reply(changes: Vec<Asked>, replies: Vec<Answer>) {
    for (one, answer) in changes.into_iter().zip(replies) {
        drop(one.reply.send(answer));
    }
}

fn followed_again(launch: LaunchId) -> Told {
    Told { session: launch.session, commands: vec![Command::LaunchFollowed { launch }] }
}

/// Makes a team re-evaluate its members: work may have been missed while no daemon ran.
fn looked_at_again(task: StandingId) -> TaskTold {
    TaskTold { task, command: task::Command::Look }
}

/// Returns the launch that an effect follows.
fn followed(effect: &Effect) -> Option<LaunchId> {
    match effect {
        Effect::Follow(launch) => Some(*launch),
        Effect::PrepareWork { .. }
        | Effect::RunSetup { .. }
        | Effect::StartLaunch(_)
        | Effect::StopLaunch(..)
        | Effect::Deliver { .. }
        | Effect::PressAgain { .. }
        | Effect::TakeSnapshot { .. }
        | Effect::RunCheck { .. }
        | Effect::RunHook(_) => None,
    }
}

fn last_moment(ledger: &SqliteLedger) -> Result<u64, provost_ledger::Error> {
    Ok(ledger.newest_record()?.map_or(0, |record| record.at.mono_ms))
}

async fn sleep(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
