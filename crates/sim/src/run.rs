//! One simulation: scheduling, crash points, and the conditions at the end.

mod crowd;
mod deeds;
mod ending;
mod misfortune;
mod of_runs;
mod of_standing;
mod of_tasks;
mod report;
mod shortages;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_core::{
    ids::{LaunchId, SessionId, StandingId},
    lifecycle::State,
    session::{
        Command, Effect, Event, HookEnd, LaunchPhase, Reporter, Session, Spec, StopStep, again,
    },
    time::Moment,
    verdict::{CheckEnd, Receipt},
};

pub use self::crowd::crowd;
pub use self::report::{Outcome, Report, RunOutcome};
use self::report::{outcome, run_outcome};
use crate::{
    engine::{CrashPoint, Engine, Input, Key, RunKey, Source, Task, TaskKey, Went},
    forge::{Forge, OutlivedGit},
    goal,
    laws::Broken,
    rng::Rng,
    script::{self, Deed},
    standing::{self, Pair, Taker, Waiter},
    world::{World, snapshot},
};

/// Maximum number of steps; a simulation that takes more does not end.
const MAX_STEPS: u64 = 60_000;

/// Maximum number of engine crashes in one simulation.
const MAX_CRASHES: u64 = 12;

/// The faults of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Agents avoid everything whose outcome depends on timing, so crashes must not change the outcome.
    pub calm: bool,
    /// The engine crashes between any two steps.
    pub crashes: bool,
    /// Appends to the ledger fail.
    pub unwritten: bool,
    /// Observations are reported twice.
    pub repeats: bool,
    /// Processes can't be observed for a while; time passes although there is something to do.
    pub blindness: bool,
    /// Holders are killed and the machine loses power.
    pub deaths: bool,
    /// Users cancel, stop, resolve, send, answer and report.
    pub people: bool,
    /// The machine runs out of a resource that effects need, and recovers later.
    pub shortages: bool,
}

impl Faults {
    /// All faults.
    pub const ALL: Faults = Faults {
        calm: false,
        crashes: true,
        unwritten: true,
        repeats: true,
        blindness: true,
        deaths: true,
        people: true,
        shortages: true,
    };

    /// A deterministic scenario without faults.
    pub const NONE: Faults = Faults {
        calm: true,
        crashes: false,
        unwritten: false,
        repeats: false,
        blindness: false,
        deaths: false,
        people: false,
        shortages: false,
    };

    /// The same scenario with an engine that crashes repeatedly.
    pub const CRASHES: Faults =
        Faults { crashes: true, unwritten: true, repeats: true, ..Faults::NONE };

    /// The same scenario on a machine with repeated shortages.
    pub const SHORTAGES: Faults = Faults { shortages: true, ..Faults::NONE };
}

/// Runs the scenario of a seed and checks it.
pub fn simulate(seed: u64, faults: Faults) -> Report {
    Sim::new(seed, faults, None).told()
}

/// Runs the scenario of a seed and records every event.
pub fn traced(seed: u64, faults: Faults) -> Report {
    Sim::new(seed, faults, Some(Vec::new())).told()
}

/// Runs a deterministic scenario in which the engine crashes once: at this point of this commit.
pub fn crashed_at(seed: u64, commit: u64, point: CrashPoint) -> Report {
    let mut sim = Sim::new(seed, Faults::NONE, None);
    sim.dies_at = Some((commit, point));
    sim.told()
}

struct Sim {
    /// The seed as passed in. Generated behaviour depends only on the number of the scenario.
    given: u64,
    seed: u64,
    has_run: bool,
    faults: Faults,
    rng: Rng,
    world: World,
    forge: Forge,
    engine: Engine,
    deeds: VecDeque<(u64, u64, Deed)>,
    /// Unanswered requests. Callers retry them with the same key.
    asked: VecDeque<Input>,
    /// The sessions that are opened at the beginning.
    specs: Vec<(SessionId, Spec)>,
    /// The number of actors between two scans for ready ones, and the maximum number of inputs per commit.
    at_once: usize,
    batch: u64,
    asks: u64,
    crashes: u64,
    commits: u64,
    dies_at: Option<(u64, CrashPoint)>,
    steps: u64,
    deaths: u64,
    /// The number of shortages so far.
    shortages: u64,
    /// The number of polls with new pull request state.
    looks: u32,
    /// Earlier observations of runs and teams, which may be reported once more, late.
    told_of_runs: Vec<Input>,
    /// Earlier receipts, which may be reported once more, late.
    receipts: Vec<(SessionId, Command)>,
    /// The initial teams.
    pairs: Vec<Pair>,
    takers: Vec<Taker>,
    waiters: Vec<Waiter>,
    /// Requests about teams whose callers wait for a later result.
    waited_asks: BTreeMap<String, StandingId>,
    /// The messages that consumers were confirmed to have handled.
    handled: BTreeSet<(StandingId, u32)>,
}

/// The next actor.
#[derive(Clone, Debug)]
enum Actor {
    Agent(LaunchId),
    Reporter(LaunchId),
    Follower(Key),
    Effect(Key),
    RunEffect(RunKey),
    TaskEffect(TaskKey),
    Taker(usize),
    Waiter(usize),
    /// A git that outlived its daemon.
    OutlivedGit,
    Owner,
    Person,
    Time,
}

impl Sim {
    fn new(given: u64, faults: Faults, trace: Option<Vec<String>>) -> Sim {
        let (seed, has_run) = (goal::story(given), goal::has_run(given));
        let mut sessions = 1 + Rng::named(seed, &[0]).below(4);
        if has_run {
            // The run's sessions suffice, with at most one beside them.
            sessions %= 2;
        }
        let kind = u64::from(faults.crashes) + 2 * u64::from(faults.people);
        let mut deeds = script::deeds(seed, sessions, &faults);
        if has_run {
            deeds.extend(goal::deeds(seed, &faults));
            deeds.sort_by_key(|(at, ..)| *at);
        }
        let specs = (0..sessions)
            .map(|no| (script::session_id(seed, no), script::spec(seed, no, &faults)))
            .collect();
        let mut pairs = Vec::new();
        if standing::has_task(given) {
            pairs = standing::pairs(seed, sessions, &faults);
            deeds.extend(standing::deeds(seed, &faults));
            deeds.sort_by_key(|(at, ..)| *at);
        }
        Sim {
            given,
            seed,
            has_run,
            faults,
            rng: Rng::named(seed, &[9, kind]),
            world: World::new(seed, faults),
            forge: Forge::new(seed, faults),
            engine: Engine::with_trace(trace),
            deeds: deeds.into(),
            asked: VecDeque::new(),
            specs,
            at_once: 1,
            batch: 3,
            asks: 0,
            crashes: 0,
            commits: 0,
            dies_at: None,
            steps: 0,
            deaths: 0,
            shortages: 0,
            looks: 0,
            told_of_runs: Vec::new(),
            receipts: Vec::new(),
            takers: pairs.iter().flat_map(|pair| pair.takers.clone()).collect(),
            pairs,
            waiters: Vec::new(),
            waited_asks: BTreeMap::new(),
            handled: BTreeSet::new(),
        }
    }

    fn told(self) -> Report {
        self.told_with(|_| Ok(()))
    }

    /// Does the same, with an additional condition for this scenario when the simulation is quiet.
    fn told_with(mut self, holds: impl FnOnce(&Sim) -> Result<(), Broken>) -> Report {
        let broken = self.tell(holds).err();
        let (seed, faults) = (self.given, self.faults);
        Report {
            seed,
            outcomes: self
                .engine
                .shadows()
                .filter(|one| !self.is_of_tasks(one))
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

    fn tell(&mut self, holds: impl FnOnce(&Sim) -> Result<(), Broken>) -> Result<(), Broken> {
        let specs = std::mem::take(&mut self.specs);
        let runs = if self.has_run { goal::runs(self.seed, &self.faults) } else { Vec::new() };
        self.engine.open(self.now(), specs, runs, &self.pairs)?;
        self.take_note()?;
        self.run_until_quiet()?;
        self.everyone_waits_for_someone()?;
        holds(self)?;
        self.cancel_the_rest();
        self.run_until_quiet()?;
        self.everything_has_ended()
    }

    fn run_until_quiet(&mut self) -> Result<(), Broken> {
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS * self.at_once as u64 {
                return Err("the simulation does not end".to_owned());
            }
            let actors = self.actors();
            let hurried = self.faults.blindness && self.rng.percent(6);
            if actors.is_empty() || hurried {
                match self.pass_time(actors.is_empty()) {
                    true => continue,
                    false if actors.is_empty() => return Ok(()),
                    false => {}
                }
            }
            for _ in 0..self.at_once {
                let actor = self.rng.pick(&actors);
                self.let_act(actor)?;
            }
            // Among thousands of actors the owner would hardly ever get its turn.
            let waits = !self.engine.told.is_empty() || !self.asked.is_empty();
            if self.at_once > 1 && waits {
                self.own()?;
            }
            self.misfortune()?;
        }
    }

    fn actors(&self) -> Vec<Actor> {
        let mut actors: Vec<Actor> = self.world.ready().into_iter().map(Actor::Agent).collect();
        let waiting = self.world.holders.values().filter(|holder| holder.report.is_some());
        actors.extend(waiting.map(|holder| Actor::Reporter(holder.launch)));
        for (key, task) in &self.engine.tasks {
            match task {
                Task::Follow(follower)
                    if follower.can_tell(&self.world)
                        || self.world.is_to_be_ended(follower.launch()) =>
                {
                    actors.push(Actor::Follower(key.clone()));
                }
                Task::Other(effect) if self.can_go_on(key, effect) => {
                    actors.push(Actor::Effect(key.clone()));
                }
                Task::Follow(_) | Task::Other(_) => {}
            }
        }
        let of_runs = self.engine.run_tasks.iter();
        let of_runs = of_runs.filter(|(key, task)| self.can_run_go_on(key, task));
        actors.extend(of_runs.map(|(key, _)| Actor::RunEffect(key.clone())));
        let of_tasks = self.engine.owed_by_tasks.keys().filter(|key| self.can_task_go_on(key));
        actors.extend(of_tasks.map(|key| Actor::TaskEffect(key.clone())));
        actors.extend(self.busy_takers().into_iter().map(Actor::Taker));
        actors.extend(self.busy_waiters().into_iter().map(Actor::Waiter));
        let ends = |git: &OutlivedGit| git.ends_ms <= self.world.now_ms;
        let ended = self.forge.outlived.as_ref().is_some_and(ends);
        actors.extend(ended.then_some(Actor::OutlivedGit));
        if !self.engine.told.is_empty() || !self.asked.is_empty() {
            actors.push(Actor::Owner);
        }
        if self.deeds.front().is_some_and(|(at, ..)| *at <= self.world.now_ms) {
            actors.push(Actor::Person);
        }
        let of_tasks = self.engine.board.due_tasks(self.world.now_ms);
        if !of_tasks.is_empty() || !self.engine.board.due(self.now()).is_empty() {
            actors.push(Actor::Time);
        }
        actors
    }

    /// Whether an effect can continue; some wait for something in the world.
    fn can_go_on(&self, key: &Key, effect: &Effect) -> bool {
        let Some(session) = self.engine.board.session(key.0) else { return false };
        match effect {
            Effect::StopLaunch(launch, step) => self.can_stop(session, *launch, *step),
            Effect::Deliver { launch, message } => {
                let holder = self.world.holders.get(launch);
                holder.is_some_and(|h| h.is_listening() && !h.inputs.contains(message))
            }
            Effect::PressAgain { launch, message } => {
                let holder = self.world.holders.get(launch);
                holder.is_some_and(|h| h.is_listening() && !h.inputs.contains(&again(message)))
            }
            Effect::RunCheck { .. } | Effect::RunHook(_) | Effect::RunSetup { .. } => {
                self.world.ran.get(key).is_none_or(|ran| ran.done_ms <= self.world.now_ms)
            }
            Effect::StartLaunch(launch) => !self.world.is_stuck(*launch),
            Effect::PrepareWork { .. } | Effect::TakeSnapshot { .. } => true,
            Effect::Follow(_) => false,
        }
    }

    fn can_stop(&self, session: &Session, launch: LaunchId, step: StopStep) -> bool {
        let owed = session.launch(launch).is_some_and(|l| l.phase == LaunchPhase::Owed);
        let key = stop_key(launch, step);
        if owed {
            return !self.world.is_stuck(launch);
        }
        !self.world.ran.contains_key(&(session.id, key))
    }

    fn let_act(&mut self, actor: Actor) -> Result<(), Broken> {
        match actor {
            Actor::Agent(launch) if !self.world.is_ready(launch) => {}
            Actor::Agent(launch) => self.world.act(launch),
            Actor::Reporter(launch) => self.report(launch),
            Actor::Follower(key) => self.follow(&key),
            Actor::Effect(key) => self.carry_out(&key)?,
            Actor::RunEffect(key) => self.carry_out_of_run(&key)?,
            Actor::TaskEffect(key) => self.carry_out_of_task(&key)?,
            Actor::Taker(at) => self.take(at),
            Actor::Waiter(at) => self.wait_on(at),
            Actor::OutlivedGit => self.end_outlived_git()?,
            Actor::Owner if self.engine.told.is_empty() && self.asked.is_empty() => {}
            Actor::Owner => self.own()?,
            Actor::Person => self.do_deed(),
            Actor::Time => self.commit(vec![Input::Due], Vec::new())?,
        }
        Ok(())
    }

    /// An agent's report is queued for the owner. The agent waits until it is recorded.
    fn report(&mut self, launch: LaunchId) {
        let Some(holder) = self.world.holders.get_mut(&launch) else { return };
        let Some(testimony) = holder.report.take() else { return };
        holder.reporting = true;
        self.ask(launch.session, Command::Report { from: Reporter::Launch(launch), testimony });
    }

    fn ask(&mut self, session: SessionId, command: Command) {
        self.asks += 1;
        self.asked.push_back(Input::Asked { key: format!("ask-{}", self.asks), session, command });
    }

    fn follow(&mut self, key: &Key) {
        let blind = self.faults.blindness && self.rng.percent(6);
        let until = self.world.now_ms + self.rng.below(3_000);
        let Some(Task::Follow(follower)) = self.engine.tasks.get_mut(key) else { return };
        let launch = follower.launch();
        if self.world.is_to_be_ended(launch) {
            self.world.end_by_force(launch);
        }
        let command = match blind && follower.blind_until.is_none() {
            true => {
                follower.blind_until = Some(until);
                Some(Command::ProcessUnknown { launch, why: "permission denied".to_owned() })
            }
            false => follower.next(&self.world),
        };
        if let Some(holder) = self.world.holders.get(&launch) {
            self.engine.heard.insert(launch, holder.heard_ms);
        }
        let done = matches!(self.engine.tasks.get(key), Some(Task::Follow(f)) if f.done);
        if done {
            self.engine.tasks.remove(key);
        }
        if let Some(command) = command {
            let told = Input::Told(launch.session, command);
            self.engine.told.entry(Source::Follower(launch)).or_default().push_back(told);
        }
    }

    /// Carries out an effect in the world. Its result is observed later, or never.
    fn carry_out(&mut self, key: &Key) -> Result<(), Broken> {
        let Some(Task::Other(effect)) = self.engine.tasks.get(key).cloned() else { return Ok(()) };
        let Some(session) = self.engine.board.session(key.0).cloned() else { return Ok(()) };
        if let Some(shortage) = self.short_for(key, &effect) {
            let (effect, tries) = (key.1.clone(), session.tries_of(&key.1));
            self.engine.tasks.remove(key);
            let told = Input::Told(key.0, Command::EffectShort { effect, tries, shortage });
            self.engine.told.entry(Source::Effect(key.clone())).or_default().push_back(told);
            return Ok(());
        }
        let result = match &effect {
            Effect::PrepareWork { .. } => Some(self.prepare(&session)),
            Effect::RunSetup { attempt } => self.set_up(key, *attempt)?,
            Effect::StartLaunch(launch) => Some(self.start(*launch)),
            Effect::StopLaunch(launch, step) => self.stop(&session, *launch, *step)?,
            Effect::Deliver { launch, message } => self.write(*launch, message)?,
            Effect::PressAgain { launch, message } => self.write(*launch, &again(message))?,
            Effect::TakeSnapshot { attempt, no } => Some(self.look(&session, *attempt, *no)),
            Effect::RunCheck { attempt, index, .. } => {
                self.check(key, &session, *attempt, *index)?
            }
            Effect::RunHook(hook) => {
                let owed = session.hooks.iter().find(|owed| owed.key == *hook);
                let what = owed.map_or(String::new(), |o| format!("{:?} {}", o.state, o.attempt));
                self.ran(key, &what)?.map(|uncertain| {
                    let end = match uncertain {
                        true => HookEnd::Uncertain("power".to_owned()),
                        false => HookEnd::Exit(0),
                    };
                    Command::HookFinished { key: *hook, end }
                })
            }
            Effect::Follow(_) => None,
        };
        if let Some(command) = result {
            self.engine.tasks.remove(key);
            let source = Source::Effect(key.clone());
            let told = Input::Told(key.0, command);
            self.engine.told.entry(source).or_default().push_back(told);
        }
        Ok(())
    }

    /// Writes to an agent. The result appears in its journal.
    fn write(&mut self, launch: LaunchId, key: &str) -> Result<Option<Command>, Broken> {
        if self.world.is_adopted(launch) {
            return Err(format!("{key} is sent to {launch}, which somebody else started"));
        }
        let text = self.text_of(launch.session, key);
        self.world.write(launch, key, &text);
        Ok(None)
    }

    /// Starts a command under its key, or returns its record once it has ended. `None` while it runs.
    fn ran(&mut self, key: &Key, what: &str) -> Result<Option<bool>, Broken> {
        let takes = Rng::named(self.seed, &[6, key.1.len() as u64]).below(400);
        let now = self.world.now_ms;
        let ran = self.world.run(key.0, &key.1, what, takes)?;
        Ok((ran.done_ms <= now).then_some(ran.uncertain))
    }

    fn prepare(&self, session: &Session) -> Command {
        let mut rng = Rng::named(self.seed, &[7, self.world.draws(session.id)]);
        match rng.percent(4) && !self.world.is_certain_plan() && !self.world.obedient {
            true => Command::WorkFailed { reason: "no such repository".to_owned() },
            false => Command::WorkPrepared {
                cwd: "/work".to_owned(),
                base: rng
                    .percent(if session.spec.run.is_some() { 100 } else { 90 })
                    .then(|| snapshot(&self.world.places[&session.id].base)),
            },
        }
    }

    fn set_up(&mut self, key: &Key, attempt: u32) -> Result<Option<Command>, Broken> {
        let no = self.world.draws(key.0);
        let fails = Rng::named(self.seed, &[8, no]).percent(15) && !self.world.is_certain_plan();
        Ok(self.ran(key, "setup")?.map(|uncertain| {
            let failure = (fails || uncertain).then(|| "it failed".to_owned());
            Command::SetupFinished { attempt, failure }
        }))
    }

    fn start(&mut self, launch: LaunchId) -> Command {
        if self.world.holders.get(&launch).is_some_and(|holder| holder.lapse.is_some()) {
            self.world.end_by_force(launch);
            let why = "its holder did not answer".to_owned();
            return Command::ProcessUnobserved { launch, why };
        }
        match self.world.start(launch) {
            Ok(child) if self.world.is_adopted(launch) => {
                Command::LaunchAdopted { launch, child: Some(child) }
            }
            Ok(child) => Command::LaunchStarted { launch, holder: child.clone(), child },
            Err(reason) => Command::LaunchFailed { launch, reason },
        }
    }

    /// Stops a launch. One that is not known to run is cancelled, or found running.
    fn stop(
        &mut self,
        session: &Session,
        launch: LaunchId,
        step: StopStep,
    ) -> Result<Option<Command>, Broken> {
        let owed = session.launch(launch).is_some_and(|l| l.phase == LaunchPhase::Owed);
        if owed {
            if !self.world.holders.contains_key(&launch) {
                self.world.barred.insert(launch);
            }
            return Ok(Some(self.start(launch)));
        }
        self.world.run(session.id, &stop_key(launch, step), "stop", 0)?;
        self.world.stop(launch, step);
        Ok(None)
    }

    fn look(&mut self, session: &Session, attempt: u32, no: u32) -> Command {
        let names = [10, crate::world::session_no(session.id), u64::from(no)];
        match !self.faults.calm && Rng::named(self.seed, &names).percent(2) {
            true => Command::SnapshotFailed { attempt, no, reason: "index.lock".to_owned() },
            false => Command::SnapshotTaken {
                attempt,
                no,
                snapshot: self.world.look(session.id),
                caveats: Default::default(),
            },
        }
    }

    fn check(
        &mut self,
        key: &Key,
        session: &Session,
        attempt: u32,
        index: u32,
    ) -> Result<Option<Command>, Broken> {
        let command = session.spec.checks[index as usize].clone();
        let Some(snapshot) = session.attempt().verifying.snapshot.clone() else {
            return Err("a check is owed for no tree".to_owned());
        };
        let tree = snapshot.tree.0.clone();
        let Some(uncertain) = self.ran(key, &format!("{command} on {tree}"))? else {
            return Ok(None);
        };
        self.world.check_ended(session.id, &tree);
        let end = match (uncertain, tree.starts_with("good")) {
            (true, _) => CheckEnd::Unfinished("power".to_owned()),
            (false, true) => CheckEnd::Exit(0),
            (false, false) => CheckEnd::Exit(1),
        };
        let receipt = Receipt {
            command,
            tree: snapshot.tree,
            end,
            duration_ms: 1,
            output_digest: String::new(),
            output: String::new(),
            tail: String::new(),
            warm: false,
            environment: None,
            overlay: None,
        };
        let told = Command::CheckFinished { attempt, receipt };
        self.receipts.push((session.id, told.clone()));
        Ok(Some(told))
    }

    /// The owner takes a few of its pending inputs, from any sources, in order per source.
    fn own(&mut self) -> Result<(), Broken> {
        let (mut inputs, mut taken) = (Vec::new(), Vec::new());
        for _ in 0..=self.rng.below(self.batch) {
            let any = self.engine.told.len() + usize::from(!self.asked.is_empty());
            if any == 0 {
                break;
            }
            let at = self.rng.index(any);
            match self.engine.told.keys().nth(at).cloned() {
                None => {
                    let asked = self.asked.pop_front();
                    inputs.extend(asked.clone());
                    taken.push((None, asked));
                }
                Some(source) => {
                    let told = self.take_told(&source);
                    if self.faults.repeats && self.rng.percent(4) {
                        inputs.push(told.clone());
                    }
                    inputs.push(told.clone());
                    taken.push((Some(source), Some(told)));
                }
            }
        }
        if self.faults.repeats && self.rng.percent(3) && !self.receipts.is_empty() {
            let (session, receipt) = self.rng.pick(&self.receipts);
            inputs.push(Input::Told(session, receipt));
        }
        if self.faults.repeats && !self.told_of_runs.is_empty() && self.rng.percent(15) {
            inputs.push(self.rng.pick(&self.told_of_runs));
        }
        inputs.extend(self.late_look());
        if self.faults.blindness && self.rng.percent(20) {
            inputs.push(Input::Due);
        }
        self.commit(inputs, taken)
    }

    fn take_told(&mut self, source: &Source) -> Input {
        let queue = self.engine.told.get_mut(source).expect("the source was just listed");
        let input = queue.pop_front().expect("an empty queue is removed");
        if queue.is_empty() {
            self.engine.told.remove(source);
        }
        input
    }

    fn commit(
        &mut self,
        inputs: Vec<Input>,
        taken: Vec<(Option<Source>, Option<Input>)>,
    ) -> Result<(), Broken> {
        if self.faults.unwritten && self.rng.permille(8) {
            self.engine.ledger.fail_next(1);
        }
        let point = self.crash_point();
        self.commits += 1;
        let went = self.engine.work(self.now(), &inputs, point)?;
        self.engine.ledger.fail_next(0);
        match went {
            Went::Well => self.let_reporters_go(&inputs),
            Went::Unwritten => self.put_back(taken, true),
            Went::Crashed => {
                self.put_back(taken, false);
                self.crash()?;
            }
        }
        self.take_note()
    }

    fn let_reporters_go(&mut self, inputs: &[Input]) {
        for input in inputs {
            if let Input::Asked { command: Command::Report { from, .. }, .. } = input
                && let Reporter::Launch(launch) = from
                && let Some(holder) = self.world.holders.get_mut(launch)
            {
                holder.reporting = false;
            }
        }
    }

    /// Inputs that could not be written are retried: requests by their callers, observations by the owner.
    fn put_back(&mut self, taken: Vec<(Option<Source>, Option<Input>)>, alive: bool) {
        for (source, input) in taken.into_iter().rev() {
            match (source, input) {
                (None, Some(asked)) => self.asked.push_front(asked),
                (Some(source), Some(told)) if alive => {
                    self.engine.told.entry(source).or_default().push_front(told);
                }
                (_, _) => {}
            }
        }
    }

    fn crash_point(&mut self) -> CrashPoint {
        if let Some((_, point)) = self.dies_at.filter(|(commit, _)| *commit == self.commits) {
            return point;
        }
        let may = self.faults.crashes && self.crashes < MAX_CRASHES;
        // A calm scenario is short, so crashes are more frequent in it.
        let often = if self.faults.calm { 100 } else { 25 };
        if !may || !self.rng.permille(often) {
            return CrashPoint::Nowhere;
        }
        match self.rng.below(4) {
            0 => CrashPoint::BeforeAppend,
            1 => CrashPoint::AfterAppend,
            _ => CrashPoint::InDispatch(self.rng.index(3)),
        }
    }

    /// The engine crashes, time passes, and it restarts. The world continues meanwhile.
    fn crash(&mut self) -> Result<(), Broken> {
        self.crashes += 1;
        self.leave_landing()?;
        self.engine.crash();
        let downtime = self.rng.pick(&[0, 3, 100, 5_000]);
        self.live_without_engine(self.world.now_ms + downtime);
        self.engine.restore()?;
        self.observe_first()
    }

    fn live_without_engine(&mut self, until: u64) {
        loop {
            while let Some(launch) = self.world.ready().first().copied() {
                self.world.act(launch);
            }
            match self.world.next_wake().filter(|wake| *wake <= until) {
                Some(wake) => self.world.now_ms = wake,
                None => break,
            }
        }
        self.world.now_ms = until;
    }

    /// After a restart, everything that happened meanwhile is read before deadlines are judged.
    fn observe_first(&mut self) -> Result<(), Broken> {
        let follows: Vec<Key> = self.engine.tasks.iter().filter_map(followed).collect();
        let mut seen = Vec::new();
        for key in follows {
            if let Some(Task::Follow(follower)) = self.engine.tasks.get(&key) {
                let launch = follower.launch();
                let input = Input::Told(launch.session, Command::LaunchFollowed { launch });
                self.observe(&mut seen, Some(input))?;
            }
            while let Some(Task::Follow(follower)) = self.engine.tasks.get_mut(&key) {
                let launch = follower.launch();
                let command = follower.next(&self.world);
                if follower.done {
                    self.engine.tasks.remove(&key);
                }
                let Some(command) = command else { break };
                self.observe(&mut seen, Some(Input::Told(launch.session, command)))?;
            }
        }
        self.observe(&mut seen, None)?;
        self.look_at_tasks_again()?;
        self.take_note()
    }

    /// Records observations: one by one, or many together in large scenarios.
    fn observe(&mut self, seen: &mut Vec<Input>, more: Option<Input>) -> Result<(), Broken> {
        let last = more.is_none();
        seen.extend(more);
        if seen.len() >= self.at_once || last {
            self.engine.work(self.now(), &std::mem::take(seen), CrashPoint::Nowhere)?;
        }
        Ok(())
    }

    /// Applies the newly committed events to the world.
    #[expect(clippy::wildcard_enum_match_arm, reason = "no other event matters to the world")]
    fn take_note(&mut self) -> Result<(), Broken> {
        for (id, event) in std::mem::take(&mut self.engine.fresh) {
            match event {
                Event::SessionOpened(opened) => self.world.add_place(id, &opened.spec),
                Event::TaskAssigned(assigned) => self.world.assign(id, &assigned.assignment),
                Event::LimitRaised(_) => {
                    let ours = self.world.holders.values_mut().filter(|h| h.launch.session == id);
                    ours.for_each(|holder| holder.at_limit = false);
                }
                Event::AttemptSealed(e) if e.sealed.judgement.state == State::Succeeded => {
                    self.success_is_true(id)?;
                }
                _ => {}
            }
        }
        for (id, event) in std::mem::take(&mut self.engine.fresh_of_runs) {
            self.note_run(id, &event)?;
        }
        self.hear_replies()
    }

    /// Checks in the world that the tree was good, and was snapshotted after the last check.
    fn success_is_true(&self, id: SessionId) -> Result<(), Broken> {
        let place = &self.world.places[&id];
        let (Some((looked, seen)), Some((checked, tree))) = (&place.looked, &place.checked) else {
            return Err("succeeded without a look or a check".to_owned());
        };
        if !tree.starts_with("good") {
            return Err(format!("succeeded on {tree}, which no check passes"));
        }
        match looked > checked && seen == tree {
            true => Ok(()),
            false => Err("succeeded though the tree was not looked at after the checks".to_owned()),
        }
    }

    /// Advances time to the next event that waits for it. Returns `false` if there is none.
    fn pass_time(&mut self, idle: bool) -> bool {
        let now = self.world.now_ms;
        let of_runs =
            self.engine.run_tasks.keys().map(|(run, key)| (SessionId(run.0), key.clone()));
        let keys = self.engine.tasks.keys().cloned().chain(of_runs);
        let of_tasks = self.engine.owed_by_tasks.keys().map(|(task, _)| SessionId(task.0));
        let of_tasks: BTreeSet<SessionId> = of_tasks.collect();
        let checks = self.world.ran.iter().filter(|((id, _), _)| of_tasks.contains(id));
        let runs =
            keys.filter_map(|key| self.world.ran.get(&key)).chain(checks.map(|(_, ran)| ran));
        let next = [
            self.world.next_wake(),
            self.engine.board.next_deadline().filter(|at| *at > now),
            self.deeds.front().map(|(at, ..)| *at).filter(|at| *at > now),
            runs.map(|ran| ran.done_ms).filter(|at| *at > now).min(),
            self.engine.tasks.values().filter_map(seen_again).filter(|at| *at > now).min(),
            self.next_taker(),
            self.forge.outlived.as_ref().map(|git| git.ends_ms).filter(|at| *at > now),
        ];
        let Some(next) = next.into_iter().flatten().min() else { return false };
        let ahead = next - now;
        self.world.now_ms += match idle {
            true => ahead,
            false => self.rng.below(ahead.min(3_000) + 1),
        };
        true
    }

    fn now(&self) -> Moment {
        let mono_ms = self.world.now_ms;
        Moment { wall_ms: 1_700_000_000_000 + mono_ms as i64, mono_ms }
    }
}

fn followed((key, task): (&Key, &Task)) -> Option<Key> {
    match task {
        Task::Follow(_) => Some(key.clone()),
        Task::Other(_) => None,
    }
}

fn seen_again(task: &Task) -> Option<u64> {
    match task {
        Task::Follow(follower) => follower.blind_until,
        Task::Other(_) => None,
    }
}

fn stop_key(launch: LaunchId, step: StopStep) -> String {
    format!("stop-{}-{step:?}", launch.no)
}
