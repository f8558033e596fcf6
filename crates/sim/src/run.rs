//! One simulation: scheduling, crash points, and the conditions at the end.

mod commits;
mod crashes;
mod fault_injection;
mod final_checks;
mod graph_effects;
mod load;
mod report;
mod run_actions;
mod session_effects;
mod shortages;
mod team_actions;
mod user_actions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_core::{
    ids::{LaunchId, SessionId, TeamId, TreeId},
    run::RunEffect,
    session::{
        LaunchPhase, Reporter, Session, SessionCommand, SessionEffect, SessionSpec, StopStep,
        enter_retry_key,
    },
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

use self::{
    report::{outcome, run_outcome},
    session_effects::stop_key,
};
use crate::{
    engine::{
        CrashPoint, EffectTask, EngineInput, RunEffectKey, SessionEffectKey, SimEngine,
        TeamEffectKey,
    },
    forge::{OutlivedGit, SimForge},
    goal, rare,
    rng::Rng,
    script::{self, UserAction},
    session_laws::BrokenLaw,
    team::{self, Consumer, SimTeam, TeamWaiter},
    world::SimWorld,
};

pub use self::load::crowd;
pub use self::report::{SimReport, SimRunOutcome, SimSessionOutcome};

/// Maximum number of steps. A simulation that takes more steps is considered endless.
const MAX_STEPS: u64 = 60_000;

/// Maximum number of engine crashes in one simulation.
const MAX_CRASHES: u64 = 12;

/// The faults of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Whether agents do nothing that depends on timing, so that crashes must not change the
    /// outcome.
    pub calm: bool,
    /// Whether the engine may crash between any two steps.
    pub crashes: bool,
    /// Whether appends to the ledger may fail.
    pub append_failures: bool,
    /// Whether observations may be reported twice.
    pub repeats: bool,
    /// Whether processes may be unobservable for a while, and time may pass although there is
    /// something to do.
    pub unobservable: bool,
    /// Whether holders may be killed and the machine may lose power.
    pub deaths: bool,
    /// Whether users cancel, stop, resolve, send, answer and report.
    pub users: bool,
    /// Whether the machine may run out of a resource that effects need, and recover later.
    pub shortages: bool,
}

impl Faults {
    /// All faults.
    pub const ALL: Faults = Faults {
        calm: false,
        crashes: true,
        append_failures: true,
        repeats: true,
        unobservable: true,
        deaths: true,
        users: true,
        shortages: true,
    };

    /// A deterministic scenario without faults.
    pub const NONE: Faults = Faults {
        calm: true,
        crashes: false,
        append_failures: false,
        repeats: false,
        unobservable: false,
        deaths: false,
        users: false,
        shortages: false,
    };

    /// A deterministic scenario with an engine that crashes repeatedly.
    pub const CRASHES: Faults =
        Faults { crashes: true, append_failures: true, repeats: true, ..Faults::NONE };

    /// A deterministic scenario on a machine with repeated shortages.
    pub const SHORTAGES: Faults = Faults { shortages: true, ..Faults::NONE };
}

/// Runs the scenario of a seed and checks it.
pub fn simulate(seed: u64, faults: Faults) -> SimReport {
    Sim::new(seed, faults, None).into_report()
}

/// Runs the scenario of a seed and records every event.
pub fn traced(seed: u64, faults: Faults) -> SimReport {
    Sim::new(seed, faults, Some(Vec::new())).into_report()
}

/// Runs a deterministic scenario in which the engine crashes once, at the given point of the given
/// commit.
pub fn crashed_at(seed: u64, commit: u64, point: CrashPoint) -> SimReport {
    let mut sim = Sim::new(seed, Faults::NONE, None);
    sim.crash_at = Some((commit, point));
    sim.into_report()
}

struct Sim {
    /// The seed that the caller passed. Generated behavior depends only on the number of the
    /// scenario.
    given_seed: u64,
    seed: u64,
    has_run: bool,
    faults: Faults,
    rng: Rng,
    world: SimWorld,
    forge: SimForge,
    engine: SimEngine,
    user_actions: VecDeque<(u64, u64, UserAction)>,
    /// Unanswered requests. Callers retry them with the same key.
    requests: VecDeque<EngineInput>,
    /// The sessions that are opened at the beginning.
    specs: Vec<(SessionId, SessionSpec)>,
    /// The number of actors that take a step between two scans for ready actors, and the maximum number of inputs in a
    /// commit.
    at_once: usize,
    batch: u64,
    request_count: u64,
    crashes: u64,
    commits: u64,
    crash_at: Option<(u64, CrashPoint)>,
    steps: u64,
    deaths: u64,
    /// The number of shortages so far.
    shortages: u64,
    /// The number of polls with new pull request state.
    polls: u32,
    /// Earlier observations of runs and teams, which may be reported again later.
    past_observations: Vec<EngineInput>,
    /// Earlier receipts, which may be reported again later.
    receipts: Vec<(SessionId, SessionCommand)>,
    /// The initial teams.
    teams: Vec<SimTeam>,
    consumers: Vec<Consumer>,
    waiters: Vec<TeamWaiter>,
    /// Requests about teams whose callers wait for a later result.
    awaited_requests: BTreeMap<String, TeamId>,
    /// The messages that consumers were confirmed to have handled.
    handled: BTreeSet<(TeamId, u32)>,
}

/// The next actor.
#[derive(Clone, Debug)]
enum SimActor {
    Agent(LaunchId),
    Reporter(LaunchId),
    Follower(SessionEffectKey),
    Effect(SessionEffectKey),
    RunEffect(RunEffectKey),
    TeamEffect(TeamEffectKey),
    Consumer(usize),
    Waiter(usize),
    /// A git process that outlived its daemon.
    OutlivedGit,
    Owner,
    User,
    Time,
}

impl Sim {
    fn new(given: u64, faults: Faults, trace: Option<Vec<String>>) -> Sim {
        let (seed, has_run) = (goal::scenario_number(given), goal::has_run(given));
        let mut sessions = 1 + Rng::from_names(seed, &[0]).below(4);
        if has_run {
            // The run has its own sessions, so at most one other session is needed.
            sessions %= 2;
        }
        let kind = u64::from(faults.crashes) + 2 * u64::from(faults.users);
        let mut actions = script::user_actions(seed, sessions, &faults);
        if has_run {
            actions.extend(goal::run_actions(seed, &faults));
            actions.sort_by_key(|(at, ..)| *at);
        }
        let mut pairs = Vec::new();
        if team::has_team(given) {
            pairs = team::teams(seed, sessions, &faults);
            actions.extend(team::team_actions(seed, &faults));
            actions.sort_by_key(|(at, ..)| *at);
        }
        let specs = (0..sessions).map(|no| {
            let mut spec = script::spec(seed, no, &faults);
            rare::open_for_team(&mut spec, seed, no, &pairs);
            (script::session_id(seed, no), spec)
        });
        let specs = specs.collect();
        Sim {
            given_seed: given,
            seed,
            has_run,
            faults,
            rng: Rng::from_names(seed, &[9, kind]),
            world: SimWorld::new(seed, faults),
            forge: SimForge::new(seed, faults),
            engine: SimEngine::with_trace(trace),
            user_actions: actions.into(),
            requests: VecDeque::new(),
            specs,
            at_once: 1,
            batch: 3,
            request_count: 0,
            crashes: 0,
            commits: 0,
            crash_at: None,
            steps: 0,
            deaths: 0,
            shortages: 0,
            polls: 0,
            past_observations: Vec::new(),
            receipts: Vec::new(),
            consumers: pairs.iter().flat_map(|pair| pair.consumers.clone()).collect(),
            teams: pairs,
            waiters: Vec::new(),
            awaited_requests: BTreeMap::new(),
            handled: BTreeSet::new(),
        }
    }

    fn into_report(self) -> SimReport {
        self.into_report_with(|_| Ok(()))
    }

    /// Like `into_report`, but also checks a condition of this scenario when the simulation is
    /// quiet.
    fn into_report_with(mut self, holds: impl FnOnce(&Sim) -> Result<(), BrokenLaw>) -> SimReport {
        let broken = self.play(holds).err();
        let (seed, faults) = (self.given_seed, self.faults);
        SimReport {
            seed,
            outcomes: self
                .engine
                .shadows()
                .filter(|one| !self.belongs_to_graph(one))
                .map(outcome)
                .collect(),
            runs: self.engine.runs().map(run_outcome).collect(),
            coverage: std::mem::take(&mut self.engine.coverage),
            events: self.engine.events,
            steps: self.steps,
            crashes: self.crashes,
            commits: self.commits,
            broken: broken.map(|why| format!("seed {seed} with {faults:?}: {why}")),
            trace: self.engine.trace.unwrap_or_default(),
        }
    }

    fn play(&mut self, holds: impl FnOnce(&Sim) -> Result<(), BrokenLaw>) -> Result<(), BrokenLaw> {
        let specs = std::mem::take(&mut self.specs);
        let runs = if self.has_run { goal::runs(self.seed, &self.faults) } else { Vec::new() };
        self.engine.open(self.now(), specs, runs, &self.teams)?;
        self.apply_committed()?;
        self.run_until_quiet()?;
        self.everyone_waits_for_someone()?;
        holds(self)?;
        self.cancel_the_rest();
        self.run_until_quiet()?;
        self.everything_has_ended()
    }

    fn run_until_quiet(&mut self) -> Result<(), BrokenLaw> {
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS * self.at_once as u64 {
                return Err("the simulation does not end".to_owned());
            }
            let actors = self.actors();
            let hurried = self.faults.unobservable && self.rng.percent(6);
            if actors.is_empty() || hurried {
                if self.pass_time(actors.is_empty()) {
                    continue;
                }
                if actors.is_empty() {
                    return Ok(());
                }
            }
            for _ in 0..self.at_once {
                let actor = self.rng.pick(&actors);
                self.act(actor)?;
            }
            // Among thousands of actors, the owner would hardly ever be picked.
            let waits = !self.engine.observations.is_empty() || !self.requests.is_empty();
            if self.at_once > 1 && waits {
                self.commit_pending()?;
            }
            self.inject_fault()?;
        }
    }

    fn actors(&self) -> Vec<SimActor> {
        let mut actors: Vec<SimActor> =
            self.world.ready().into_iter().map(SimActor::Agent).collect();
        let waiting = self.world.holders.values().filter(|holder| holder.report.is_some());
        actors.extend(waiting.map(|holder| SimActor::Reporter(holder.launch)));
        for (key, task) in &self.engine.tasks {
            match task {
                EffectTask::Follow(follower)
                    if follower.has_observation(&self.world)
                        || self.world.must_be_killed(follower.launch()) =>
                {
                    actors.push(SimActor::Follower(key.clone()));
                }
                EffectTask::Other(effect) if self.can_continue(key, effect) => {
                    actors.push(SimActor::Effect(key.clone()));
                }
                EffectTask::Follow(_) | EffectTask::Other(_) => {}
            }
        }
        let of_runs = self.engine.run_tasks.iter();
        let of_runs = of_runs.filter(|(key, task)| self.can_run_effect_continue(key, task));
        actors.extend(of_runs.map(|(key, _)| SimActor::RunEffect(key.clone())));
        let of_tasks =
            self.engine.team_effects.keys().filter(|key| self.can_team_effect_continue(key));
        actors.extend(of_tasks.map(|key| SimActor::TeamEffect(key.clone())));
        actors.extend(self.ready_consumers().into_iter().map(SimActor::Consumer));
        actors.extend(self.ready_waiters().into_iter().map(SimActor::Waiter));
        let ends = |git: &OutlivedGit| git.ends_ms <= self.world.now_ms;
        let ended = self.forge.outlived.as_ref().is_some_and(ends);
        actors.extend(ended.then_some(SimActor::OutlivedGit));
        if !self.engine.observations.is_empty() || !self.requests.is_empty() {
            actors.push(SimActor::Owner);
        }
        if self.user_actions.front().is_some_and(|(at, ..)| *at <= self.world.now_ms) {
            actors.push(SimActor::User);
        }
        let of_tasks = self.engine.board.teams.due(self.world.now_ms);
        if !of_tasks.is_empty() || !self.engine.board.sessions.due(self.world.now_ms).is_empty() {
            actors.push(SimActor::Time);
        }
        actors
    }

    /// Whether an effect can continue. Some effects wait for a condition in the world.
    fn can_continue(&self, key: &SessionEffectKey, effect: &SessionEffect) -> bool {
        let Some(session) = self.engine.board.session(key.0) else { return false };
        match effect {
            SessionEffect::StopLaunch(launch, step) => self.can_stop(session, *launch, *step),
            SessionEffect::Deliver { launch, message } => {
                let holder = self.world.holders.get(launch);
                holder.is_some_and(|h| h.is_listening() && !h.inputs.contains(message))
            }
            SessionEffect::PressAgain { launch, message } => {
                let holder = self.world.holders.get(launch);
                holder.is_some_and(|h| {
                    h.is_listening() && !h.inputs.contains(&enter_retry_key(message))
                })
            }
            SessionEffect::RunCheck { .. }
            | SessionEffect::RunHook(_)
            | SessionEffect::RunSetup { .. } => {
                self.world.commands.get(key).is_none_or(|ran| ran.done_ms <= self.world.now_ms)
            }
            SessionEffect::StartLaunch(launch) => !self.world.is_stuck(*launch),
            SessionEffect::PrepareWork { .. } | SessionEffect::TakeSnapshot { .. } => true,
            SessionEffect::Follow(_) => false,
        }
    }

    fn can_stop(&self, session: &Session, launch: LaunchId, step: StopStep) -> bool {
        let pending = session.launch(launch).is_some_and(|l| l.phase == LaunchPhase::Pending);
        let key = stop_key(launch, step);
        if pending {
            return !self.world.is_stuck(launch);
        }
        !self.world.commands.contains_key(&(session.id, key))
    }

    fn act(&mut self, actor: SimActor) -> Result<(), BrokenLaw> {
        match actor {
            SimActor::Agent(launch) if !self.world.is_ready(launch) => {}
            SimActor::Agent(launch) => self.world.act(launch),
            SimActor::Reporter(launch) => self.report(launch),
            SimActor::Follower(key) => self.follow(&key),
            SimActor::Effect(key) => self.execute_effect(&key)?,
            SimActor::RunEffect(key) => self.execute_run_effect(&key)?,
            SimActor::TeamEffect(key) => self.execute_team_effect(&key)?,
            SimActor::Consumer(at) => self.step_consumer(at),
            SimActor::Waiter(at) => self.step_waiter(at),
            SimActor::OutlivedGit => self.end_outlived_git()?,
            SimActor::Owner if self.engine.observations.is_empty() && self.requests.is_empty() => {}
            SimActor::Owner => self.commit_pending()?,
            SimActor::User => self.do_user_action(),
            SimActor::Time => self.commit(vec![EngineInput::Deadline], Vec::new())?,
        }
        Ok(())
    }

    /// Queues an agent's report for the owner. The agent waits until the report is recorded.
    fn report(&mut self, launch: LaunchId) {
        let Some(holder) = self.world.holders.get_mut(&launch) else { return };
        let Some(testimony) = holder.report.take() else { return };
        holder.reporting = true;
        self.ask(
            launch.session,
            SessionCommand::Report { from: Reporter::Launch(launch), testimony },
        );
    }

    fn ask(&mut self, session: SessionId, command: SessionCommand) {
        self.request_count += 1;
        self.requests.push_back(EngineInput::Request {
            key: format!("ask-{}", self.request_count),
            session,
            command,
        });
    }

    /// Advances time to the next scheduled event. Returns `false` if no event is scheduled.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all others run one command at most")]
    fn pass_time(&mut self, idle: bool) -> bool {
        let now = self.world.now_ms;
        let of_runs = self.engine.run_tasks.iter().flat_map(|(key, task)| match task.effect {
            RunEffect::Verify { no } => graph_effects::verification_keys(key, &task.run, no),
            _ => vec![(SessionId(key.0.0), key.1.clone())],
        });
        let verifies =
            self.engine.run_tasks.values().any(|t| matches!(t.effect, RunEffect::Verify { .. }));
        let keys = self.engine.tasks.keys().cloned().chain(of_runs);
        let of_tasks = self.engine.team_effects.keys().map(|(task, _)| SessionId(task.0));
        let of_tasks: BTreeSet<SessionId> = of_tasks.collect();
        let checks = self.world.commands.iter().filter(|((id, _), _)| of_tasks.contains(id));
        let runs =
            keys.filter_map(|key| self.world.commands.get(&key)).chain(checks.map(|(_, ran)| ran));
        let next = [
            self.world.next_wake(),
            self.engine.board.next_deadline().filter(|at| *at > now),
            self.user_actions.front().map(|(at, ..)| *at).filter(|at| *at > now),
            runs.map(|ran| ran.done_ms).filter(|at| *at > now).min(),
            self.engine.tasks.values().filter_map(visible_at).filter(|at| *at > now).min(),
            self.next_consumer_ms(),
            self.forge.outlived.as_ref().map(|git| git.ends_ms).filter(|at| *at > now),
            verifies.then_some(self.world.short_until).filter(|at| *at > now),
        ];
        let Some(next) = next.into_iter().flatten().min() else { return false };
        let ahead = next - now;
        self.world.now_ms += if idle { ahead } else { self.rng.below(ahead.min(3_000) + 1) };
        true
    }

    fn now(&self) -> Moment {
        let mono_ms = self.world.now_ms;
        Moment { wall_ms: 1_700_000_000_000 + mono_ms as i64, mono_ms }
    }
}

fn receipt(command: &str, tree: &TreeId, end: CheckEnd) -> Receipt {
    Receipt {
        command: command.to_owned(),
        tree: tree.clone(),
        end,
        duration_ms: 1,
        output_digest: String::new(),
        output: String::new(),
        tail: String::new(),
        warm: false,
        environment: None,
        overlay: None,
    }
}

fn visible_at(task: &EffectTask) -> Option<u64> {
    match task {
        EffectTask::Follow(follower) => follower.blind_until,
        EffectTask::Other(_) => None,
    }
}
