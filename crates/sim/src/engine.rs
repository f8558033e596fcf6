//! The simulated daemon: the real board over an in-memory ledger, plus the state that a daemon keeps only in memory.
//!
//! A crash drops everything here except the ledger. The laws judge each commit against a shadow that is folded from
//! the stored form of every event.

mod team_shadow;

use std::collections::{BTreeMap, VecDeque};

use provost_core::{
    ids::{LaunchId, RunId, SessionId, TeamId},
    run::{self, Run, RunSpec},
    session::{
        EffectKey, Event, Session, SessionCommand, SessionEffect, SessionRejection, SessionSpec,
    },
    team,
    time::Moment,
};
use provost_engine::{
    board::{Board, CommitChanges},
    stream::{self, Subject},
};
use provost_ledger::{CommittedBatch, Ledger, MemLedger, ReadLedger, RecordedEvent, StreamId};

use self::team_shadow::TeamShadow;
pub(crate) use self::team_shadow::{SimTeamReply, SimTeamRequest, TeamEffectKey, sessions};
use crate::{
    account_spacing::AccountSpacing,
    coverage::Coverage,
    launch_follower::LaunchFollower,
    run_laws::RunWatch,
    session_laws::{BrokenLaw, SessionWatch},
    team::SimTeam,
};

pub(crate) type SessionEffectKey = (SessionId, EffectKey);
pub(crate) type RunEffectKey = (RunId, EffectKey);

/// The source of an observation. Observations of one source stay in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObservationSource {
    Follower(LaunchId),
    Effect(SessionEffectKey),
    RunEffect(RunEffectKey),
    TeamEffect(TeamEffectKey),
}

/// An effect in progress.
#[derive(Clone, Debug)]
pub(crate) enum EffectTask {
    Follow(LaunchFollower),
    Other(SessionEffect),
}

/// A run's effect that is in progress, with the state of the run when the effect was dispatched.
#[derive(Clone, Debug)]
pub(crate) struct RunEffectTask {
    pub(crate) effect: run::RunEffect,
    pub(crate) run: Run,
    /// Whether the landing has started. A started landing finishes, even if the run is stopped.
    pub(crate) lands: bool,
}

/// Input for the owner: observations, and requests from users and agents, each with its own idempotency key.
#[derive(Clone, Debug)]
pub(crate) enum EngineInput {
    Observation(SessionId, SessionCommand),
    Request { key: String, session: SessionId, command: SessionCommand },
    RunObservation(RunId, run::RunCommand),
    RunRequest { key: String, run: RunId, command: run::RunCommand },
    TeamObservation(TeamId, team::TeamCommand),
    TeamRequest(Box<SimTeamRequest>),
    Deadline,
}

/// The point at which an engine crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashPoint {
    Nowhere,
    BeforeAppend,
    AfterAppend,
    /// The engine crashes after it has dispatched this many of the orders that result from a
    /// commit.
    InDispatch(usize),
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitResult {
    Committed,
    AppendFailed,
    Crashed,
}

#[derive(Debug)]
struct SessionShadow {
    session: Session,
    watch: SessionWatch,
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
pub(crate) struct SimEngine {
    pub(crate) board: Board,
    pub(crate) ledger: MemLedger,
    pub(crate) tasks: BTreeMap<SessionEffectKey, EffectTask>,
    pub(crate) run_tasks: BTreeMap<RunEffectKey, RunEffectTask>,
    /// Pending effects of teams.
    pub(crate) team_effects: BTreeMap<TeamEffectKey, team::TeamEffect>,
    /// Replies to requests about teams, with the keys of the requests.
    pub(crate) replies: Vec<(String, SimTeamReply)>,
    pub(crate) observations: BTreeMap<ObservationSource, VecDeque<EngineInput>>,
    pub(crate) heard: BTreeMap<LaunchId, u64>,
    pub(crate) coverage: Coverage,
    pub(crate) events: u64,
    pub(crate) trace: Option<Vec<String>>,
    /// The latest committed events, to which the simulation reacts.
    pub(crate) fresh_events: Vec<(SessionId, Event)>,
    pub(crate) fresh_run_events: Vec<(RunId, run::Event)>,
    shadows: BTreeMap<SessionId, SessionShadow>,
    run_shadows: BTreeMap<RunId, RunShadow>,
    team_shadows: BTreeMap<TeamId, TeamShadow>,
    /// The events of teams, by their sequence numbers.
    team_events: Vec<(u64, TeamId)>,
    turns: AccountSpacing,
}

impl SimEngine {
    pub(crate) fn with_trace(trace: Option<Vec<String>>) -> SimEngine {
        SimEngine { trace, ..SimEngine::default() }
    }

    pub(crate) fn open(
        &mut self,
        now: Moment,
        specs: Vec<(SessionId, SessionSpec)>,
        runs: Vec<(RunId, RunSpec)>,
        pairs: &[SimTeam],
    ) -> Result<(), BrokenLaw> {
        let mut turn = self.board.begin(now);
        for (id, spec) in specs {
            turn.open(id, spec, "operator");
        }
        for (id, spec) in runs {
            turn.open_run(id, spec, "operator");
        }
        for pair in pairs {
            SimEngine::open_team(&mut turn, pair)?;
        }
        let (batch, staged) = turn.stage().ok_or("nothing to open")?;
        let committed = self.ledger.append(batch).map_err(|why| why.to_string())?;
        let changes = self.board.commit(staged, &committed);
        self.check_commit(&committed, now)?;
        self.dispatch(changes, usize::MAX);
        Ok(())
    }

    /// Decides and commits a few inputs together, and crashes at the given point.
    pub(crate) fn commit_inputs(
        &mut self,
        now: Moment,
        inputs: &[EngineInput],
        crash: CrashPoint,
    ) -> Result<CommitResult, BrokenLaw> {
        let loaded = self.load_for(now, inputs);
        let mut replies = Vec::new();
        let mut turn = self.board.begin(now);
        // As in the daemon, a team's due deadlines are handled before requests to the team.
        for id in self.board.due_teams(now.mono_ms) {
            turn.advance_team(id);
        }
        for input in inputs {
            match input {
                EngineInput::Observation(session, command) => {
                    // A rejected observation was already known.
                    drop(turn.command(*session, command, "provost"));
                }
                EngineInput::Request { key, session, command } => {
                    let known = self.ledger.stored_reply(key).ok().flatten();
                    if known.is_none()
                        && let Some(Ok(_)) = turn.command(*session, command, "operator")
                    {
                        turn.store_reply(key.clone(), "{}".to_owned());
                    }
                }
                EngineInput::RunObservation(run, command) => {
                    drop(turn.command_run(*run, command, "provost"));
                }
                EngineInput::RunRequest { key, run, command } => {
                    let known = self.ledger.stored_reply(key).ok().flatten();
                    if known.is_none()
                        && let Some(Ok(_)) = turn.command_run(*run, command, "operator")
                    {
                        turn.store_reply(key.clone(), "{}".to_owned());
                    }
                }
                EngineInput::TeamObservation(task, command) => {
                    drop(turn.command_team(*task, &team::TeamActor::Provost, command, "provost"));
                    turn.advance_team(*task);
                }
                EngineInput::TeamRequest(ask) => {
                    replies.push(self.decide_team_request(&mut turn, ask)?)
                }
                EngineInput::Deadline => {
                    for id in self.board.due(now) {
                        turn.apply_deadline(id, |launch| self.heard.get(&launch).copied());
                    }
                }
            }
        }
        let staged = turn.stage();
        let went = match staged {
            None => CommitResult::Committed,
            Some(_) if crash == CrashPoint::BeforeAppend => CommitResult::Crashed,
            Some((batch, staged)) => match self.ledger.append(batch) {
                Err(_) => CommitResult::AppendFailed,
                Ok(committed) if crash == CrashPoint::AfterAppend => {
                    self.check_commit(&committed, now)?;
                    CommitResult::Crashed
                }
                Ok(committed) => {
                    let changes = self.board.commit(staged, &committed);
                    self.check_commit(&committed, now)?;
                    self.check_shadows(&changes)?;
                    self.dispatch_until(changes, crash)
                }
            },
        };
        // Callers get their replies only if the engine survived.
        if went == CommitResult::Committed {
            self.replies.extend(replies);
        }
        for subject in loaded {
            match subject {
                Subject::Session(id) => self.board.evict_session(id),
                Subject::Run(id) => self.board.evict_run(id),
                Subject::Team(id) => self.board.evict_team(id),
            }
        }
        Ok(went)
    }

    /// Simulates a crash, after which only the ledger remains.
    pub(crate) fn crash(&mut self) {
        self.note(|| "— crash".to_owned());
        self.board = Board::default();
        self.tasks.clear();
        self.run_tasks.clear();
        self.team_effects.clear();
        self.observations.clear();
        self.heard.clear();
    }

    /// Simulates a restart: folds the open streams and restores their pending effects.
    pub(crate) fn restore(&mut self) -> Result<(), BrokenLaw> {
        let open = self.ledger.open_streams().map_err(|why| why.to_string())?;
        for state in open {
            let subject =
                stream::parse_subject(state.head.stream.as_str()).map_err(|e| e.to_string())?;
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

    /// Compares everything that the ledger stores besides its events with a fresh fold of the
    /// events.
    pub(crate) fn verify(&self) -> Result<(), BrokenLaw> {
        let sessions = self.shadows.keys().map(|id| stream::session_stream_id(*id));
        let runs = self.run_shadows.keys().map(|id| stream::run_stream_id(*id));
        let tasks = self.team_shadows.keys().map(|id| stream::team_stream_id(*id));
        for name in sessions.chain(runs).chain(tasks) {
            let records = self.ledger.read_stream(&name, 0).map_err(|why| why.to_string())?;
            let mut folded = stream::refold(&name, &records)?;
            folded.pending.sort();
            let stored = self.ledger.stream(&name).map_err(|why| why.to_string())?;
            let stored = stored.ok_or("a stream is missing")?;
            if (stored.head.open, &stored.pending) != (folded.open, &folded.pending) {
                return Err(format!(
                    "the ledger has pending {:?}, but the events imply {:?}",
                    stored.pending, folded.pending
                ));
            }
            if stored.projection != folded.projection {
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

    fn load_for(&mut self, now: Moment, inputs: &[EngineInput]) -> Vec<Subject> {
        let mut loaded = Vec::new();
        for task in self.board.due_teams(now.mono_ms) {
            self.load_team(task, &mut loaded);
        }
        for input in inputs {
            match input {
                EngineInput::Observation(session, _) | EngineInput::Request { session, .. } => {
                    self.load_subject(Subject::Session(*session), &mut loaded);
                    self.load_teams_of_session(*session, &mut loaded);
                }
                EngineInput::TeamObservation(task, _) => self.load_team(*task, &mut loaded),
                EngineInput::TeamRequest(ask) => {
                    self.load_team(ask.task, &mut loaded);
                    if let Some(session) = ask.command.bound_session() {
                        self.load_subject(Subject::Session(session), &mut loaded);
                    }
                }
                EngineInput::RunObservation(run, _) | EngineInput::RunRequest { run, .. } => {
                    self.load_subject(Subject::Run(*run), &mut loaded);
                    // A run may resume sessions that it no longer uses.
                    let left =
                        self.board.run(*run).map(Run::resumable_sessions).unwrap_or_default();
                    for session in left {
                        self.load_subject(Subject::Session(session), &mut loaded);
                    }
                }
                EngineInput::Deadline => {
                    for session in self.board.due(now) {
                        self.load_teams_of_session(session, &mut loaded);
                    }
                }
            }
        }
        loaded
    }

    fn load_subject(&mut self, subject: Subject, loaded: &mut Vec<Subject>) {
        let held = match subject {
            Subject::Session(id) => self.board.session(id).is_some(),
            Subject::Run(id) => self.board.run(id).is_some(),
            Subject::Team(id) => self.board.team(id).is_some(),
        };
        if !held && self.load(subject).is_ok() {
            loaded.push(subject);
        }
    }

    fn load(&mut self, subject: Subject) -> Result<CommitChanges, BrokenLaw> {
        match subject {
            Subject::Session(id) => {
                let (session, version) =
                    self.folded::<Session>(&stream::session_stream_id(id), stream::fold_session)?;
                check_same_fold(self.shadow(id), &session)?;
                Ok(self.board.load_session(session, version))
            }
            Subject::Run(id) => {
                let (run, version) =
                    self.folded::<Run>(&stream::run_stream_id(id), stream::fold_run)?;
                check_same_fold(self.run(id), &run)?;
                Ok(self.board.load_run(run, version))
            }
            Subject::Team(id) => {
                let (task, version) =
                    self.folded::<team::Team>(&stream::team_stream_id(id), stream::fold_team)?;
                check_same_fold(self.team(id), &task)?;
                Ok(self.board.load_team(task, version))
            }
        }
    }

    fn folded<T: serde::de::DeserializeOwned>(
        &self,
        name: &StreamId,
        fold: SimFoldFn<T>,
    ) -> Result<(T, u64), BrokenLaw> {
        let snapshot = self.ledger.snapshot(name).map_err(|why| why.to_string())?;
        let after = stream::usable_snapshot_version::<T>(snapshot.as_ref());
        let records = self.ledger.read_stream(name, after).map_err(|why| why.to_string())?;
        let used = if after > 0 { snapshot } else { None };
        let folded = fold(name, used.as_ref(), &records).map_err(|e| e.to_string())?;
        Ok((folded, after + records.len() as u64))
    }

    fn dispatch_until(&mut self, changes: CommitChanges, crash: CrashPoint) -> CommitResult {
        match crash {
            CrashPoint::InDispatch(orders) => {
                self.dispatch(changes, orders);
                CommitResult::Crashed
            }
            CrashPoint::Nowhere | CrashPoint::BeforeAppend | CrashPoint::AfterAppend => {
                self.dispatch(changes, usize::MAX);
                CommitResult::Committed
            }
        }
    }

    fn dispatch(&mut self, changes: CommitChanges, orders: usize) {
        for (id, key) in changes.cancel_effects {
            // A follower runs until it has reported everything; other tasks stop.
            let follows = matches!(self.tasks.get(&(id, key.clone())), Some(EffectTask::Follow(_)));
            if !follows {
                self.tasks.remove(&(id, key));
            }
        }
        for (id, key) in changes.cancel_run_effects {
            let task = self.run_tasks.get(&(id, key.clone()));
            // A landing in progress is not interrupted.
            if task.is_some_and(|task| !task.lands) {
                self.run_tasks.remove(&(id, key));
            }
        }
        for (id, key) in changes.cancel_team_effects {
            self.team_effects.remove(&(id, key));
        }
        let left = orders.saturating_sub(changes.start_effects.len());
        let of_tasks = changes.start_team_effects.into_iter().take(left);
        self.team_effects.extend(of_tasks.map(|(id, effect)| ((id, effect.key()), effect)));
        for (id, effect) in changes.start_run_effects.into_iter().take(left) {
            if let Some(run) = self.board.run(id).cloned() {
                let key = (id, effect.key());
                self.run_tasks.insert(key, RunEffectTask { effect, run, lands: false });
            }
        }
        for (id, effect) in changes.start_effects.into_iter().take(orders) {
            let key = (id, effect.key());
            let session = self.board.session(id);
            #[expect(clippy::wildcard_enum_match_arm, reason = "all others run once")]
            let task = match effect {
                SessionEffect::Follow(launch) => match session.and_then(|s| s.launch(launch)) {
                    Some(launch) => EffectTask::Follow(LaunchFollower::new(launch)),
                    None => continue,
                },
                other => EffectTask::Other(other),
            };
            self.tasks.insert(key, task);
        }
    }

    /// Checks every stored event against the laws.
    fn check_commit(&mut self, committed: &CommittedBatch, now: Moment) -> Result<(), BrokenLaw> {
        let mut changed = Vec::new();
        for record in committed.records() {
            let subject =
                stream::parse_subject(record.stream.as_str()).map_err(|e| e.to_string())?;
            match subject {
                Subject::Session(id) => self.check_record(id, record, now)?,
                Subject::Run(id) => self.check_run_record(id, record, now)?,
                Subject::Team(id) => self.check_team_record(id, record, now)?,
            }
            self.events += 1;
            changed.push(subject);
        }
        self.check_settled_teams(&changed, now)?;
        for subject in changed {
            match subject {
                Subject::Session(id) => {
                    let shadow = &self.shadows[&id];
                    shadow.watch.check_settled(&shadow.session, now)?;
                }
                Subject::Run(_) | Subject::Team(_) => {}
            }
        }
        // A run depends on its sessions, so it is settled only when they are.
        let all: usize = self.runs().map(Run::agents_at_work).sum();
        for RunShadow { run, watch, .. } in self.run_shadows.values() {
            let most = run.spec.planning.machine_parallel as usize;
            if all > most {
                return Err(format!("{all} agents work for all runs, but the limit is {most}"));
            }
            watch.check_settled(run, now, all - run.agents_at_work(), |id| self.shadow(id))?;
        }
        Ok(())
    }

    fn check_record(
        &mut self,
        id: SessionId,
        record: &RecordedEvent,
        now: Moment,
    ) -> Result<(), BrokenLaw> {
        let event =
            Event::decode(&record.kind, record.v, &record.data).map_err(|why| why.to_string())?;
        self.note(|| format!("{:>8} {:>3} {event:?}", now.mono_ms, id.0.as_u64_pair().1));
        self.check_event(id, record.version, stream::to_core(record.at), &event)?;
        self.fresh_events.push((id, event));
        Ok(())
    }

    fn check_run_record(
        &mut self,
        id: RunId,
        record: &RecordedEvent,
        now: Moment,
    ) -> Result<(), BrokenLaw> {
        let event = run::Event::decode(&record.kind, record.v, &record.data)
            .map_err(|why| why.to_string())?;
        self.note(|| format!("{:>8} run {event:?}", now.mono_ms));
        self.coverage.visit_run(&event);
        let at = stream::to_core(record.at);
        if let run::Event::RunOpened(opened) = &event {
            let run = Run::open(id, at, opened);
            let watch = RunWatch::start(&run)?;
            self.run_shadows.insert(id, RunShadow { run, watch, version: record.version });
        } else {
            let shadow = self.run_shadows.get_mut(&id).ok_or("an event of an unknown run")?;
            if record.version != shadow.version + 1 {
                return Err(format!("event {} follows event {}", record.version, shadow.version));
            }
            let before = shadow.run.clone();
            shadow.run.evolve(at, &event);
            shadow.version = record.version;
            shadow.watch.check_event(&before, &event, &shadow.run)?;
        }
        self.fresh_run_events.push((id, event));
        Ok(())
    }

    fn check_event(
        &mut self,
        id: SessionId,
        version: u64,
        at: Moment,
        event: &Event,
    ) -> Result<(), BrokenLaw> {
        if let Event::SessionOpened(opened) = event {
            let session = Session::open(id, at, opened);
            let watch = SessionWatch::start(&session);
            self.coverage.visit(event, &session);
            self.shadows.insert(id, SessionShadow { session, watch, version });
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
        self.turns.check_event(&before, at, event)?;
        shadow.watch.check_event(&before, at, event, &shadow.session)
    }

    fn check_shadows(&self, changes: &CommitChanges) -> Result<(), BrokenLaw> {
        self.check_team_shadows()?;
        for (id, shadow) in &self.run_shadows {
            if self.board.run(*id).is_some_and(|held| *held != shadow.run) {
                return Err("the run on the board differs from the stored one".to_owned());
            }
        }
        for id in &changes.changed_sessions {
            if let (Some(held), Some(shadow)) = (self.board.session(*id), self.shadow(*id))
                && held != shadow
            {
                return Err("the session on the board differs from the stored one".to_owned());
            }
        }
        Ok(())
    }
}

type SimFoldFn<T> = fn(
    &StreamId,
    Option<&provost_ledger::StoredSnapshot>,
    &[RecordedEvent],
) -> Result<T, stream::Error>;

fn check_same_fold<T: PartialEq>(shadow: Option<&T>, folded: &T) -> Result<(), BrokenLaw> {
    if shadow == Some(folded) {
        Ok(())
    } else {
        Err("the fold after a restart differs from the fold before".to_owned())
    }
}

/// Whether a command would change anything. Used to choose actions, not to carry them out.
pub(crate) fn would_change(session: &Session, command: &SessionCommand, now: Moment) -> bool {
    !matches!(session.decide(command, now), Err(SessionRejection::NothingNew))
}
