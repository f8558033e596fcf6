//! The simulated daemon: the real board over an in-memory ledger, plus the state that a daemon keeps only in memory.
//!
//! A crash drops all of this state except the ledger. The laws judge each commit against a shadow that is folded from
//! the stored form of every event.

mod shadow;
mod team_requests;

use std::collections::{BTreeMap, VecDeque};

use provost_core::{
    ids::{LaunchId, RunId, SessionId, TeamId},
    run::{self, Run, RunSpec},
    session::{
        EffectKey, Event, Session, SessionCommand, SessionEffect, SessionRejection, SessionSpec,
    },
    team::{self, Team},
    time::Moment,
};
use provost_engine::{
    board::{Board, CommitChanges},
    stream::{self, Subject},
};
use provost_ledger::{CommittedBatch, Ledger, MemLedger, ReadLedger, RecordedEvent};

use self::shadow::{Shadow, Shadows};
pub(crate) use self::team_requests::{SimTeamReply, SimTeamRequest, TeamEffectKey, sessions};
use crate::{
    account_spacing::AccountSpacing, coverage::Coverage, launch_follower::LaunchFollower,
    session_laws::BrokenLaw, team::SimTeam,
};

pub(crate) type SessionEffectKey = (SessionId, EffectKey);
pub(crate) type RunEffectKey = (RunId, EffectKey);

/// The source of an observation. Observations of one source stay in order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ObservationSource {
    Follower(LaunchId),
    Effect(Subject, EffectKey),
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
    sessions: Shadows<Session>,
    runs: Shadows<Run>,
    teams: Shadows<Team>,
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
        for id in self.board.teams.due(now.mono_ms) {
            turn.advance_team(id);
        }
        for input in inputs {
            match input {
                EngineInput::Observation(session, command) => {
                    // An observation is rejected if it was already known.
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
                    for id in self.board.sessions.due(now.mono_ms) {
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
            self.board.evict(subject);
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
        self.sessions.iter()
    }

    pub(crate) fn shadow(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id)
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    pub(crate) fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(id)
    }

    /// Compares everything that the ledger stores besides its events with a fresh fold of the
    /// events.
    pub(crate) fn verify(&self) -> Result<(), BrokenLaw> {
        let runs_and_teams = self.runs.stream_ids().chain(self.teams.stream_ids());
        for name in self.sessions.stream_ids().chain(runs_and_teams) {
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
        for task in self.board.teams.due(now.mono_ms) {
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
                    // A run may resume some of its earlier sessions.
                    let left =
                        self.board.run(*run).map(Run::resumable_sessions).unwrap_or_default();
                    for session in left {
                        self.load_subject(Subject::Session(session), &mut loaded);
                    }
                }
                EngineInput::Deadline => {
                    for session in self.board.sessions.due(now.mono_ms) {
                        self.load_teams_of_session(session, &mut loaded);
                    }
                }
            }
        }
        loaded
    }

    fn load_subject(&mut self, subject: Subject, loaded: &mut Vec<Subject>) {
        if !self.board.contains(subject) && self.load(subject).is_ok() {
            loaded.push(subject);
        }
    }

    fn load(&mut self, subject: Subject) -> Result<CommitChanges, BrokenLaw> {
        let changes = self.board.load(&self.ledger, subject)?;
        match subject {
            Subject::Session(id) => self.sessions.check_fold(&self.board.sessions, id)?,
            Subject::Run(id) => self.runs.check_fold(&self.board.runs, id)?,
            Subject::Team(id) => self.teams.check_fold(&self.board.teams, id)?,
        }
        Ok(changes)
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
        for (id, key) in changes.sessions.cancel {
            // A follower runs until it has reported everything; other tasks stop.
            let follows = matches!(self.tasks.get(&(id, key.clone())), Some(EffectTask::Follow(_)));
            if !follows {
                self.tasks.remove(&(id, key));
            }
        }
        for (id, key) in changes.runs.cancel {
            let task = self.run_tasks.get(&(id, key.clone()));
            // A landing in progress is not interrupted.
            if task.is_some_and(|task| !task.lands) {
                self.run_tasks.remove(&(id, key));
            }
        }
        for (id, key) in changes.teams.cancel {
            self.team_effects.remove(&(id, key));
        }
        let left = orders.saturating_sub(changes.sessions.start.len());
        let of_tasks = changes.teams.start.into_iter().take(left);
        self.team_effects.extend(of_tasks.map(|(id, effect)| ((id, effect.key()), effect)));
        for (id, effect) in changes.runs.start.into_iter().take(left) {
            if let Some(run) = self.board.run(id).cloned() {
                let key = (id, effect.key());
                self.run_tasks.insert(key, RunEffectTask { effect, run, lands: false });
            }
        }
        for (id, effect) in changes.sessions.start.into_iter().take(orders) {
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
                Subject::Session(id) => self.check_session_record(id, record, now)?,
                Subject::Run(id) => self.check_run_record(id, record, now)?,
                Subject::Team(id) => self.check_team_record(id, record, now)?,
            }
            self.events += 1;
            changed.push(subject);
        }
        self.check_settled_teams(&changed, now)?;
        for subject in changed {
            if let Subject::Session(id) = subject
                && let Some(shadow) = self.sessions.shadow(id)
            {
                shadow.watch.check_settled(&shadow.state, now)?;
            }
        }
        // A run depends on its sessions, so it is settled only when its sessions are settled.
        let all: usize = self.runs().map(Run::agents_at_work).sum();
        for Shadow { state: run, watch, .. } in self.runs.shadows() {
            let most = run.spec.planning.machine_parallel as usize;
            if all > most {
                return Err(format!("{all} agents work for all runs, but the limit is {most}"));
            }
            watch.check_settled(run, now, all - run.agents_at_work(), |id| self.shadow(id))?;
        }
        Ok(())
    }

    fn check_session_record(
        &mut self,
        id: SessionId,
        record: &RecordedEvent,
        now: Moment,
    ) -> Result<(), BrokenLaw> {
        let event = Shadows::<Session>::decode(record)?;
        self.note(|| format!("{:>8} {:>3} {event:?}", now.mono_ms, id.0.as_u64_pair().1));
        if let Some(before) = self.sessions.get(id) {
            self.turns.check_event(before, stream::to_core(record.at), &event)?;
        }
        self.sessions.apply(id, record, &event, &|_| None)?;
        if let Some(after) = self.sessions.get(id) {
            self.coverage.visit(&event, after);
        }
        self.fresh_events.push((id, event));
        Ok(())
    }

    fn check_run_record(
        &mut self,
        id: RunId,
        record: &RecordedEvent,
        now: Moment,
    ) -> Result<(), BrokenLaw> {
        let event = Shadows::<Run>::decode(record)?;
        self.note(|| format!("{:>8} run {event:?}", now.mono_ms));
        self.coverage.visit_run(&event);
        self.runs.apply(id, record, &event, &|_| None)?;
        self.fresh_run_events.push((id, event));
        Ok(())
    }

    fn check_team_record(
        &mut self,
        id: TeamId,
        record: &RecordedEvent,
        now: Moment,
    ) -> Result<(), BrokenLaw> {
        let event = Shadows::<Team>::decode(record)?;
        self.note(|| format!("{:>8} team {event:?}", now.mono_ms));
        self.coverage.visit_team(&event);
        self.team_events.push((record.seq, id));
        let sessions = &self.sessions;
        self.teams.apply(id, record, &event, &|id| sessions.get(id))
    }

    /// Checks that the board matches the stored events.
    fn check_shadows(&self, changes: &CommitChanges) -> Result<(), BrokenLaw> {
        let Board { sessions, runs, teams, .. } = &self.board;
        self.teams.check_board(teams, self.teams.ids())?;
        self.runs.check_board(runs, self.runs.ids())?;
        self.sessions.check_board(sessions, changes.changed_sessions.iter().copied())
    }
}

/// Whether a command would change anything. Used to choose actions, not to carry them out.
pub(crate) fn would_change(session: &Session, command: &SessionCommand, now: Moment) -> bool {
    !matches!(session.decide(command, now), Err(SessionRejection::NothingNew))
}
