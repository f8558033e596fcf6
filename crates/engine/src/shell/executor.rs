//! Carries out pending effects, each once, and reports the results to the owner.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use provost_core::{
    ids::{LaunchId, RunId, SessionId, StandingId},
    run::{self, Run},
    session::{
        Command, Driver, Effect, EffectKey, Identity, LaunchPhase, MessageKind, Session, StopStep,
        WorkState, again,
    },
    shortage::{Shortage, retry_after_ms},
    task::{self, Task},
};
use provost_drivers::Saying;
use provost_git::Git;
use provost_holder::{
    End, ExitRecord, HoldSpec, Looked, OnLimit, StdinMode, Tty, client,
    tree::{self, Traces},
    wire::{self, Data, FaultCode, Op},
};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinSet},
};

use super::{
    census::Census,
    check::{CheckJob, CheckRunner, Slots},
    clock::Clock,
    codex, drop_box,
    effects::{EffectName, Effects, Ran},
    environment::{DaemonEnvironment, Place},
    follow::{self, Follower, Link},
    git_calls::GitCalls,
    handle::{Handle, Teller},
    held::{self, Finished, Holders, SURVIVOR_GRACE, chain},
    home::Home,
    hook::HookJob,
    panes::{Hub, Panes, Typing, Typist},
    run_effect::Carrier,
    saying::{said, typed},
    secrets::Secrets,
    shortage::{self, Waits},
    starting::{NotLaunched, Starting, adopt, not_launched, not_started, short},
    task_effect,
    watch::{Adopted, Moves, RolloutWatch, Wanted, WatchContext},
    work,
};
use crate::stream::Subject;

/// The size of a terminal until a user attaches to it.
pub(super) const TERMINAL_SIZE: Tty = Tty { columns: 120, rows: 40 };

/// The wait before a holder that could not be reached is tried again.
const TRY_AGAIN: Duration = Duration::from_millis(100);

/// How long a holder may take to confirm that it kills its tree.
const KILL_ANSWER: Duration = Duration::from_secs(2);

/// The wait before a holder that confirmed a kill is asked again.
const KILL_AGAIN: Duration = Duration::from_millis(500);

/// The engine's outside world: paths, programs and shared locks.
#[derive(Clone, Debug)]
pub struct World {
    pub home: Home,
    pub git: Git,
    pub holders: Holders,
    pub environment: DaemonEnvironment,
    /// The `provost` program, for agents to call.
    pub program: PathBuf,
    /// The key that tokens are derived from.
    pub key: [u8; 32],
    pub secrets: Secrets,
    /// The followed launches, and the last probe of each.
    pub census: Census,
    /// The launches that moved to another conversation.
    pub moves: Moves,
    /// Held while something lands.
    pub landing: Arc<tokio::sync::Mutex<()>>,
    /// Read-locked by everything that lands in a checkout of this machine. A daemon that is about
    /// to exit takes the write lock: it waits for landings in progress, and no new one starts.
    pub checkouts: Arc<tokio::sync::RwLock<()>>,
    /// The shortages that runs and teams wait for.
    pub waits: Waits,
}

impl World {
    /// Returns how Provost is called by a program without its environment variables.
    pub fn caller(&self) -> task::Caller {
        task::Caller {
            program: self.program.display().to_string(),
            home: Some(self.home.root().display().to_string()),
        }
    }

    /// Returns the token with which a launch identifies itself. It is derived, so it survives a
    /// crash without being stored.
    pub fn token(&self, launch: LaunchId) -> String {
        blake3::keyed_hash(&self.key, launch.to_string().as_bytes()).to_hex().to_string()
    }

    /// Returns the key under which a holder writes to a launch once. It is derived, so a restarted
    /// daemon has the same one, and keyed, so no other process can write under it first.
    pub(crate) fn write_key(&self, launch: LaunchId, key: &str) -> String {
        let named = format!("write {launch} {key}");
        let seal = blake3::keyed_hash(&self.key, named.as_bytes()).to_hex();
        wire::sealed_key(key, &seal)
    }
}

/// An order of the owner.
#[derive(Debug)]
pub(crate) enum Dispatch {
    Start {
        session: Arc<Session>,
        effect: Effect,
    },
    Cancel {
        session: SessionId,
        key: EffectKey,
    },
    StartRun {
        run: Arc<Run>,
        effect: run::Effect,
    },
    CancelRun {
        run: RunId,
        key: EffectKey,
    },
    /// With the session whose work is checked, if there is one.
    StartTask {
        task: Arc<Task>,
        worker: Option<Arc<Session>>,
        effect: task::Effect,
    },
    CancelTask {
        task: StandingId,
        key: EffectKey,
    },
}

type Key = (Subject, EffectKey);

/// Carries out effects, each in its own tokio task. One that panics is restarted.
pub struct Executor {
    context: Context,
    running: BTreeMap<Key, Running>,
    /// The effect of each tokio task.
    effects: HashMap<Id, Key>,
    /// How often each effect panicked since it became pending.
    panics: BTreeMap<Key, u32>,
    /// Taken when it runs.
    hub: Option<Hub>,
    tasks: JoinSet<()>,
}

/// A tokio task that carries out an effect.
struct Running {
    id: Id,
    cancel: watch::Sender<bool>,
}

/// The context of every tokio task.
#[derive(Clone)]
struct Context {
    world: World,
    teller: Teller,
    handle: Handle,
    clock: Clock,
    effects: Effects,
    git_calls: GitCalls,
    checks: CheckRunner,
    panes: Panes,
    /// The launches that are being started.
    starting: Starting,
    /// Effects that were pending before this moment were pending in an earlier daemon.
    since_ms: u64,
}

impl Executor {
    pub(crate) fn new(world: World, teller: Teller, handle: Handle, clock: Clock) -> Executor {
        let effects = Effects::new(&world.home, &world.key, &world.holders, &teller);
        let git_calls = GitCalls::new(&world, &effects);
        let checks = CheckRunner {
            home: world.home.clone(),
            git_calls: git_calls.clone(),
            effects: effects.clone(),
            environment: world.environment.clone(),
            key: world.key,
            slots: Slots::default(),
        };
        let since_ms = clock.now().mono_ms;
        let (panes, hub) = Panes::new();
        let starting = Starting::default();
        let context = Context {
            world,
            teller,
            handle,
            clock,
            effects,
            git_calls,
            checks,
            panes,
            starting,
            since_ms,
        };
        Executor {
            context,
            running: BTreeMap::new(),
            effects: HashMap::new(),
            panics: BTreeMap::new(),
            hub: Some(hub),
            tasks: JoinSet::new(),
        }
    }

    /// Carries out orders until the owner is gone.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<Dispatch>) {
        if let Some(hub) = self.hub.take() {
            self.tasks.spawn(hub.run());
        }
        let context = self.context.clone();
        self.tasks.spawn(async move {
            drop_box::empty(&context.world, &context.handle, None).await;
        });
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Dispatch::Start { session, effect }) => self.start(session, effect),
                    Some(Dispatch::Cancel { session, key }) => {
                        self.cancel(&(Subject::Session(session), key));
                    }
                    Some(Dispatch::StartRun { run, effect }) => self.start_run(run, effect),
                    Some(Dispatch::CancelRun { run, key }) => {
                        self.cancel(&(Subject::Run(run), key));
                    }
                    Some(Dispatch::StartTask { task, worker, effect }) => {
                        self.start_task(task, worker, effect);
                    }
                    Some(Dispatch::CancelTask { task, key }) => {
                        self.cancel(&(Subject::Task(task), key));
                    }
                    None => return,
                },
                Some(ended) = self.tasks.join_next_with_id() => match ended {
                    Ok((id, ())) => drop(self.ended(id)),
                    Err(why) => self.restart(why.id()),
                },
            }
        }
    }

    fn start(&mut self, session: Arc<Session>, effect: Effect) {
        let key = (Subject::Session(session.id), effect.key());
        if let Effect::RunCheck { .. } = effect {
            self.context.checks.claim_running(session.id, &key.1);
        }
        let context = self.context.clone();
        self.run_task(key, |cancel| async move {
            if let Effect::Follow(launch) = effect {
                Box::pin(context.follow(session, launch, cancel)).await;
            } else {
                Box::pin(context.carry_out(&session, effect, cancel)).await;
            }
        });
    }

    fn start_run(&mut self, run: Arc<Run>, effect: run::Effect) {
        let key = (Subject::Run(run.id), effect.key());
        let context = self.context.clone();
        self.run_task(key, |mut cancel| async move {
            let carrier = Carrier {
                world: &context.world,
                effects: &context.effects,
                git_calls: &context.git_calls,
            };
            let mut wait = context.world.waits.of(Subject::Run(run.id), effect.key());
            let told = loop {
                let told = carrier.carry_out(&run, effect.clone(), cancel.clone()).await;
                let Some(shortage) = shortage::in_run(&told) else { break told };
                if !wait.pause(context.refined(shortage), &mut cancel).await {
                    return;
                }
            };
            context.teller.tell_run(run.id, told).await;
        });
    }

    fn start_task(&mut self, task: Arc<Task>, worker: Option<Arc<Session>>, effect: task::Effect) {
        let key = (Subject::Task(task.id), effect.key());
        let context = self.context.clone();
        self.run_task(key, |mut cancel| async move {
            let git = context.git_calls.settled(Subject::Task(task.id)).await;
            let checks = &context.checks;
            let mut wait = context.world.waits.of(Subject::Task(task.id), effect.key());
            let told = loop {
                let (worker, wanted) = (worker.clone(), cancel.clone());
                let carried =
                    task_effect::carry_out(&git, checks, &task, worker, effect.clone(), wanted);
                let told = Box::pin(carried).await;
                let Some(shortage) = shortage::in_task(&told) else { break told };
                if !wait.pause(context.refined(shortage), &mut cancel).await {
                    return;
                }
            };
            context.teller.tell_task(task.id, told).await;
        });
    }

    fn run_task<F>(&mut self, key: Key, work: impl FnOnce(watch::Receiver<bool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, cancel) = watch::channel(false);
        let id = self.tasks.spawn(work(cancel)).id();
        self.effects.insert(id, key.clone());
        self.running.insert(key, Running { id, cancel: sender });
    }

    /// Forgets a tokio task that ended, and returns its effect.
    fn ended(&mut self, id: Id) -> Option<Key> {
        let key = self.effects.remove(&id)?;
        // The same effect may have been started again.
        if self.running.get(&key).is_some_and(|running| running.id == id) {
            self.running.remove(&key);
            self.panics.remove(&key);
        }
        Some(key)
    }

    /// Asks the owner to restart the effect of a task that panicked, if it is still pending. The
    /// panic itself is in the log.
    fn restart(&mut self, id: Id) {
        let known = self.effects.get(&id).and_then(|key| self.panics.get(key)).copied();
        let panics = known.unwrap_or(0).saturating_add(1);
        let Some((subject, effect)) = self.ended(id) else { return };
        self.panics.insert((subject, effect.clone()), panics);
        let teller = self.context.teller.clone();
        self.tasks.spawn(async move {
            held::pause(Duration::from_millis(retry_after_ms(panics))).await;
            teller.effect_lost(subject, effect).await;
        });
    }

    fn cancel(&mut self, key: &Key) {
        if let Some(running) = self.running.get(key) {
            running.cancel.send_replace(true);
        }
        self.panics.remove(key);
    }
}

impl Context {
    /// Distinguishes a lack of inodes from a lack of blocks.
    fn refined(&self, shortage: Shortage) -> Shortage {
        shortage::refined(shortage, self.world.home.root())
    }

    async fn carry_out(self, session: &Session, effect: Effect, cancel: watch::Receiver<bool>) {
        let told = match effect.clone() {
            Effect::PrepareWork { .. } => Some(self.prepare(session, effect.key()).await),
            Effect::RunSetup { attempt } => {
                Some(match self.set_up(session, &effect, cancel).await {
                    Ok(failure) => Command::SetupFinished { attempt, failure },
                    Err(shortage) => short(session, &effect, shortage),
                })
            }
            Effect::StartLaunch(launch) => {
                let _start = self.starting.begin(launch);
                if *cancel.borrow() {
                    return;
                }
                Some(self.launch(session, launch).await)
            }
            // Followed for long, and therefore handled apart: see `follow`.
            Effect::Follow(_) => None,
            Effect::StopLaunch(launch, step) => self.stop(session, launch, step, cancel).await,
            Effect::Deliver { launch, message } if session.spec.adopted.is_some() => {
                self.type_it(session, launch, &message, cancel).await;
                None
            }
            Effect::Deliver { launch, message } => {
                self.deliver(session, launch, &message, cancel).await
            }
            Effect::PressAgain { launch, message } if session.spec.adopted.is_some() => {
                let text =
                    session.messages.iter().find(|one| one.key == message).map(typed(session));
                if let (Some(typist), Some(text)) = (self.typist(session, launch), text) {
                    typist.press(&message, &text).await;
                }
                None
            }
            Effect::PressAgain { launch, message } => {
                let key = self.world.write_key(launch, &again(&message));
                let data = Data(provost_drivers::ENTER.to_vec());
                let op = Op::Write { key, data, secret: false };
                // An agent that takes no more input ends by itself, which its follower reports.
                write(&self.world.home.launch(launch), op, cancel).await;
                None
            }
            Effect::TakeSnapshot { attempt, no } => Some(self.snapshot(session, attempt, no).await),
            Effect::RunCheck { attempt, index, .. } => {
                let Some(job) = CheckJob::of(session, index, effect.key()) else { return };
                let receipt = self.checks.run(job, cancel).await;
                Some(Command::CheckFinished { attempt, receipt })
            }
            Effect::RunHook(key) => {
                let environment = &self.world.environment;
                let Some(job) = HookJob::of(session, key, effect.key(), environment) else {
                    return;
                };
                let end = job.run(&self.effects).await;
                Some(Command::HookFinished { key, end })
            }
        };
        if let Some(command) = told {
            let met = shortage::in_session(&command);
            let told = met.map_or(command, |met| short(session, &effect, self.refined(met)));
            self.teller.tell(session.id, told).await;
        }
    }

    /// Follows a launch, and drops the session meanwhile: hundreds may be followed.
    async fn follow(
        self,
        session: Arc<Session>,
        launch: LaunchId,
        mut cancel: watch::Receiver<bool>,
    ) {
        let _counted = self.world.census.count(launch);
        if session.spec.adopted.is_some() {
            let context = WatchContext {
                panes: &self.panes,
                moves: &self.world.moves,
                handle: self.handle.clone(),
                teller: self.teller.clone(),
                clock: self.clock,
                census: self.world.census.clone(),
            };
            let adopted = Adopted::new(&session, launch, context);
            drop(session);
            if let Some(adopted) = adopted {
                tokio::select! {
                    () = adopted.run() => {}
                    // It is an external agent: once its attempt is sealed, its end does not matter.
                    () = held::cancelled(&mut cancel) => {}
                }
                self.teller.forget(launch);
                self.panes.forget(launch);
                self.world.moves.forget(launch);
            }
            return;
        }
        let record = self.record(&session, launch);
        let link = Link {
            dir: self.world.home.launch(launch),
            world: self.world.clone(),
            teller: self.teller.clone(),
            handle: self.handle.clone(),
            clock: self.clock,
        };
        let follower = Follower::new(&session, launch, link);
        drop(session);
        if let Some(follower) = follower {
            tokio::select! {
                () = follower.run() => {}
                () = record => {}
            }
            codex::sweep(&self.world.home, launch);
            self.teller.forget(launch);
            self.world.moves.forget(launch);
            self.world.holders.reap();
        }
    }

    /// Follows the transcript of an agent on a terminal, as long as it is polled.
    fn record(&self, session: &Session, launch: LaunchId) -> impl Future<Output = ()> + use<> {
        let writes = session.spec.agent.driver == Driver::CodexTerminal;
        let watch = writes.then(|| {
            let [(_, home), _] = codex::environment(&self.world.home, session.id);
            let (handle, teller) = (self.handle.clone(), self.teller.clone());
            let (wanted, moves) = (Wanted::InHome(home), &self.world.moves);
            RolloutWatch::new(session, launch, wanted, moves, handle, teller, self.clock)
        });
        async move {
            match watch {
                Some(watch) => watch.run().await,
                None => std::future::pending().await,
            }
        }
    }

    async fn prepare(&self, session: &Session, key: EffectKey) -> Command {
        let (effect, session) = (EffectName::of_session(session.id, key), session.clone());
        match self.git_calls.write(effect, move |git| work::prepare(git, &session)).await {
            Ok(prepared) => Command::WorkPrepared { cwd: prepared.cwd, base: prepared.base },
            Err(reason) => Command::WorkFailed { reason },
        }
    }

    async fn set_up(
        &self,
        session: &Session,
        effect: &Effect,
        mut cancel: watch::Receiver<bool>,
    ) -> Result<Option<String>, Shortage> {
        let command = session.spec.setup.clone().unwrap_or_default();
        let argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), command.clone()];
        let spec = HoldSpec {
            env: self.world.environment.of_command(&session.spec),
            output_limit: session.spec.bounds.check_output,
            on_limit: OnLimit::End,
            time_limit_ms: Some(session.spec.bounds.check_time_ms),
            ..HoldSpec::new(String::new(), argv, cwd_of(session))
        };
        let effect = EffectName::of_session(session.id, effect.key());
        let ran = self.effects.run(&effect, spec, &mut cancel).await;
        let failure = match ran.map(|Ran { finished, .. }| finished) {
            Ok(Finished::Ended { exit: ExitRecord { end: End::Exited { code: 0 }, .. } }) => None,
            Ok(Finished::Ended { exit }) => Some(exit.to_string()),
            Ok(Finished::Uncertain(why)) => Some(why),
            Err(why) => Some(chain(&why)),
        };
        if let Some(shortage) = failure.as_deref().and_then(Shortage::from_text) {
            return Err(self.refined(shortage));
        }
        Ok(failure.map(|why| format!("the setup command `{command}` failed: {why}")))
    }

    async fn launch(&self, session: &Session, launch: LaunchId) -> Command {
        if let Some(adopted) = session.spec.adopted.as_deref() {
            return adopt(launch, adopted).await;
        }
        match self.launched(session, launch).await {
            Ok((holder, child)) => Command::LaunchStarted { launch, holder, child },
            Err(NotLaunched { shortage: Some(shortage), begun: false, .. }) => {
                short(session, &Effect::StartLaunch(launch), shortage)
            }
            Err(NotLaunched { reason, shortage, .. }) => {
                let dir = self.world.home.launch(launch);
                let traces = self.world.holders.traces(&dir);
                let none_left = loop {
                    // A failed start has not ended while any of its processes lives.
                    match held::none_left(&traces, SURVIVOR_GRACE).await {
                        Ok(none_left) => break none_left,
                        Err(_) => held::pause(TRY_AGAIN).await,
                    }
                };
                let shortage = if none_left.ran() { None } else { shortage };
                match shortage {
                    Some(shortage) => {
                        // The next attempt makes it anew. If it cannot be removed, that attempt
                        // reports it.
                        held::blocking(move || std::fs::remove_dir_all(&dir)).await.ok();
                        let shortage = self.refined(shortage);
                        short(session, &Effect::StartLaunch(launch), shortage)
                    }
                    None => not_launched(launch, reason, &none_left),
                }
            }
        }
    }

    /// Checks the resources that a launch needs.
    fn launch_needs(&self) -> Option<Shortage> {
        let home = &self.world.home;
        let directories = [home.launches(), home.starts()];
        shortage::of_disk(home.root())
            .or_else(shortage::of_descriptors)
            .or_else(|| directories.iter().find_map(|one| shortage::of_directory(one)))
    }

    /// Starts a launch, or finds it started, and returns its processes.
    async fn launched(
        &self,
        session: &Session,
        launch: LaunchId,
    ) -> Result<(Identity, Identity), NotLaunched> {
        let dir = self.world.home.launch(launch);
        self.effects.vet_launch(launch).await?;
        if matches!(held::looked(&dir).await, Ok(Looked::Absent)) {
            self.nothing_runs(session, launch, &dir).await?;
            let context = self.clone();
            if let Some(shortage) = held::blocking(move || context.launch_needs()).await {
                return Err(shortage.into());
            }
            work::is_of_home(session, self.world.home.root())?;
            let spec = self.launch_spec(session, launch).await?;
            self.effects.begin_launch(launch, &spec).await?;
            self.world.holders.start_at(&dir, spec).await?;
        }
        let held = match held::begun(&dir).await? {
            Looked::Absent => return Err("its launch directory was removed".to_owned().into()),
            Looked::Starting { holder, .. } => return Err(held::stuck(holder.is_some()).into()),
            Looked::Ended { held: None, exit, .. } => return Err(not_started(&exit).into()),
            Looked::HolderDied { held: None, .. } | Looked::OtherBoot { held: None, .. } => {
                let why = "its holder died before it reported that the agent runs";
                return Err(why.to_owned().into());
            }
            Looked::Alive { held }
            | Looked::Ended { held: Some(held), .. }
            | Looked::HolderDied { held: Some(held), .. }
            | Looked::OtherBoot { held: Some(held), .. } => held,
        };
        if !self.effects.is_of_launch(launch, &held).await {
            let why = "its launch directory has the record of another command";
            return Err(why.to_owned().into());
        }
        Ok((identity(held.holder), identity(held.child)))
    }

    /// Makes sure that no earlier daemon started a launch without a directory: its agent may have
    /// removed the directory, and must not run twice.
    async fn nothing_runs(
        &self,
        session: &Session,
        launch: LaunchId,
        dir: &Path,
    ) -> Result<(), String> {
        let owed = session.launch(launch).map_or(0, |launch| launch.owed_at.mono_ms);
        if owed > self.since_ms {
            return Ok(());
        }
        let traces = self.world.holders.traces(dir);
        let left = held::blocking(move || tree::left(&traces)).await;
        if left.map_err(|why| why.to_string())?.is_empty() {
            Ok(())
        } else {
            Err("it was started before, and its launch directory was removed".to_owned())
        }
    }

    async fn launch_spec(&self, session: &Session, launch: LaunchId) -> Result<HoldSpec, String> {
        let token = self.world.token(launch);
        let place = Place {
            home: self.world.home.root(),
            socket: &self.world.home.socket(),
            program: &self.world.program,
            token: &token,
        };
        let agent = &session.spec.agent;
        let tty = agent.driver.has_terminal().then_some(TERMINAL_SIZE);
        let mut spec = HoldSpec {
            env: self.world.environment.of_launch(session, launch, &place),
            stdin: if agent.listens() || tty.is_some() { StdinMode::Pipe } else { StdinMode::Null },
            output_limit: session.output_limit,
            on_limit: OnLimit::Block,
            grace_ms: session.spec.bounds.stop_grace_ms,
            settle_ms: session.spec.bounds.drain_ms,
            tty,
            ..HoldSpec::new(launch.to_string(), agent.argv.clone(), cwd_of(session))
        };
        let (world, session) = (self.world.clone(), session.clone());
        held::blocking(move || {
            codex::equip(&world.home, &world.program, &session, launch, &mut spec).map(|()| spec)
        })
        .await
    }

    /// Takes one step of a stop. The launch's follower reports the result.
    async fn stop(
        &self,
        session: &Session,
        launch: LaunchId,
        step: StopStep,
        mut cancel: watch::Receiver<bool>,
    ) -> Option<Command> {
        let dir = self.world.home.launch(launch);
        let owed = session.launch(launch).is_some_and(|l| l.phase == LaunchPhase::Owed);
        let by_force = matches!(step, StopStep::Kill | StopStep::GivenUp);
        if owed && (forbid_the_start(&dir) || by_force) {
            return self.call_off(launch, &dir, cancel).await;
        }
        if owed {
            // A start was in progress: it is completed, and then stopped like any other.
            tokio::select! {
                () = self.starting.wait_for(launch) => {}
                () = held::cancelled(&mut cancel) => return None,
            }
            let started = tokio::select! {
                started = self.launch(session, launch) => started,
                () = held::cancelled(&mut cancel) => return None,
            };
            if let Command::EffectShort { .. } = started {
                // It waited for a resource, and is not retried.
                return self.call_off(launch, &dir, cancel).await;
            }
            self.teller.tell(session.id, started).await;
        }
        if by_force {
            self.kill(session, launch, &dir, cancel).await;
            return None;
        }
        let key = format!("interrupt-{}", session.attempt().no);
        let op = if step == StopStep::Interrupt {
            let turn = session.launch(launch).and_then(|launch| launch.turn());
            let thread = session.thread.as_deref();
            let interrupt = Saying::Interrupt { key: &key, thread, turn };
            let data = provost_drivers::say(session.spec.agent.driver, &interrupt)?;
            let key = self.world.write_key(launch, &key);
            Op::Write { key, data: Data(data), secret: false }
        } else {
            Op::Stop { grace_ms: session.spec.bounds.stop_grace_ms }
        };
        let traces = recorded(session, launch, &dir);
        while !*cancel.borrow() {
            // The agent may have stopped its holder, which then takes no request.
            if let Some(holder) = &traces.holder {
                tree::wake(holder).ok();
            }
            match held::request(&dir, op.clone()).await {
                Ok(()) | Err(client::Error::Fault(_)) => return None,
                // The holder is exiting, or dead: then the launch's follower ends the survivors.
                Err(_) => held::pause(TRY_AGAIN).await,
            }
        }
        None
    }

    /// Asks the holder to kill its tree as long as it answers. One that does not answer is ended
    /// with its tree.
    async fn kill(
        &self,
        session: &Session,
        launch: LaunchId,
        dir: &Path,
        cancel: watch::Receiver<bool>,
    ) {
        let op = Op::Stop { grace_ms: 0 };
        let traces = recorded(session, launch, dir);
        while held::request_within(dir, op.clone(), KILL_ANSWER).await.is_ok() {
            held::pause(KILL_AGAIN).await;
            if *cancel.borrow() {
                return;
            }
        }
        let has_left = matches!(
            held::looked(dir).await,
            Ok(Looked::Ended { gone: Some(_), .. } | Looked::HolderDied { .. })
        );
        if !has_left {
            // The launch's follower finds the remains and tries again.
            held::none_left(&traces, Duration::ZERO).await.ok();
        }
    }

    /// Cancels a launch that is not known to run. If it runs nevertheless, it is ended.
    async fn call_off(
        &self,
        launch: LaunchId,
        dir: &Path,
        cancel: watch::Receiver<bool>,
    ) -> Option<Command> {
        let traces = self.world.holders.traces(dir);
        while !*cancel.borrow() {
            match held::none_left(&traces, Duration::ZERO).await {
                Ok(none_left) => {
                    let reason = "it was stopped before it started".to_owned();
                    return Some(not_launched(launch, reason, &none_left));
                }
                Err(_) => held::pause(TRY_AGAIN).await,
            }
        }
        None
    }

    /// Writes a message to the agent's input. The journal shows when it has arrived.
    async fn deliver(
        &self,
        session: &Session,
        launch: LaunchId,
        key: &str,
        cancel: watch::Receiver<bool>,
    ) -> Option<Command> {
        let message = session.written(key)?;
        let lost = |reason: String| Some(Command::MessageLost { key: message.key.clone(), reason });
        let dir = self.world.home.launch(launch);
        let secret = session.is_secret(message);
        let kept = self.world.secrets.get(session.id, key);
        let reply = match (secret, &kept) {
            (false, _) => message.reply.as_ref(),
            (true, Some(reply)) => Some(reply),
            (true, None) if follow::was_written(&dir, key).await => return None,
            (true, None) => return lost("the daemon that had the secret ended first".to_owned()),
        };
        let Some(bytes) = said(session, launch, message, reply) else {
            return lost(format!("{} cannot receive this", session.spec.agent.name));
        };
        let write_key = self.world.write_key(launch, key);
        let op = Op::Write { key: write_key, data: Data(bytes), secret };
        while secret && !*cancel.borrow() && !self.masked(session.id, &dir).await {
            held::pause(TRY_AGAIN).await;
        }
        match write(&dir, op, cancel).await? {
            Ok(()) => {
                self.world.secrets.forget(session.id, key);
                None
            }
            // The turn that an interrupt names depends on when it is written; one of them was
            // written.
            Err(fault)
                if fault.code == FaultCode::Conflict && message.kind == MessageKind::Interrupt =>
            {
                None
            }
            Err(fault) => lost(fault.message),
        }
    }

    fn typist(&self, session: &Session, launch: LaunchId) -> Option<Typist> {
        let (handle, teller) = (self.handle.clone(), self.teller.clone());
        Typist::new(session, launch, self.panes.clone(), handle, teller)
    }

    /// Types a message into the pane of an external agent. The transcript shows when it was
    /// received.
    async fn type_it(
        &self,
        session: &Session,
        launch: LaunchId,
        key: &str,
        cancel: watch::Receiver<bool>,
    ) {
        let message = session.messages.iter().find(|message| message.key == key);
        let (Some(message), Some(typist)) = (message, self.typist(session, launch)) else { return };
        let is_key = message.request.is_some() || message.kind == MessageKind::Interrupt;
        let what = if is_key {
            said(session, launch, message, message.reply.as_ref()).map(Typing::Keys)
        } else {
            Some(Typing::Text(typed(session)(message)))
        };
        match what {
            Some(what) => typist.deliver(message, what, cancel).await,
            None => {
                let why = format!("{} cannot receive this in a pane", session.spec.agent.name);
                typist.lose(key, why).await;
            }
        }
    }

    /// Asks the holder to mask the secrets it is about to write, and returns whether it answered. A
    /// refusal means that it cannot mask them: it is too old, or has too many masks already.
    async fn masked(&self, session: SessionId, dir: &Path) -> bool {
        let forms = self.world.secrets.hidden(session).into_iter().map(Data).collect();
        match held::request(dir, Op::Mask { forms }).await {
            Ok(()) | Err(client::Error::Fault(_)) => true,
            Err(_) => false,
        }
    }

    async fn snapshot(&self, session: &Session, attempt: u32, no: u32) -> Command {
        let git = self.git_calls.settled(Subject::Session(session.id)).await;
        let session = session.clone();
        match held::blocking(move || work::snapshot(&git, &session, no)).await {
            Ok((snapshot, caveats)) => Command::SnapshotTaken { attempt, no, snapshot, caveats },
            Err(reason) => Command::SnapshotFailed { attempt, no, reason },
        }
    }
}

/// Has a holder write to its command, however long that takes. `None` if it was cancelled first.
async fn write(
    dir: &Path,
    op: Op,
    cancel: watch::Receiver<bool>,
) -> Option<Result<(), wire::Fault>> {
    while !*cancel.borrow() {
        match held::request(dir, op.clone()).await {
            Ok(()) => return Some(Ok(())),
            Err(client::Error::Fault(fault)) if fault.code != FaultCode::Busy => {
                return Some(Err(fault));
            }
            Err(_) => held::pause(TRY_AGAIN).await,
        }
    }
    None
}

/// Takes the directory of a launch that has not started, so that no start in progress can have it
/// any more.
fn forbid_the_start(dir: &Path) -> bool {
    std::fs::create_dir(dir).is_ok()
}

fn recorded(session: &Session, launch: LaunchId, dir: &Path) -> Traces {
    session.launch(launch).map_or_else(|| Traces::of(&held::mark(dir)), |l| follow::traces(l, dir))
}

fn identity(found: provost_holder::Identity) -> Identity {
    let pid = i32::try_from(found.pid).unwrap_or(0);
    Identity { pid, start_time: found.start_time, boot_id: found.boot_id }
}

pub(super) fn cwd_of(session: &Session) -> &str {
    match &session.work {
        WorkState::Ready { cwd, .. } => cwd,
        WorkState::Owed | WorkState::Failed { .. } | WorkState::Removed => &session.spec.cwd,
    }
}
