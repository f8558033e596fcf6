//! Carries out pending effects, each once, and reports the results to the owner.

mod launch_stop;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use provost_agent::Adapters;
use provost_core::{
    ids::{LaunchId, RunId, SessionId, TeamId},
    run::{self, Run},
    session::{
        AgentMessageKind, EffectKey, ProcessIdentity, Session, SessionCommand, SessionEffect,
        WorkState, enter_retry_key,
    },
    shortage::{Shortage, retry_after_ms},
    team::{self, Team},
};
use provost_git::Git;
use provost_holder::{
    ExitRecord, HoldSpec, LaunchState, OnLimit, ProcessEnd, StdinMode, Tty, client, tree,
    wire::{self, HolderFaultCode, HolderOp, WireBytes},
};
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinSet},
};

use provost_sys::error_chain;

use super::{
    agent_launch,
    census::Census,
    check::{CheckJob, CheckRunner, CheckoutSlots},
    clock::Clock,
    drop_box,
    effect_gate::EffectGate,
    effects::{EffectName, EffectOwner, Effects, FinishedEffect},
    encode_message::{encode_message, typed_text},
    environment::{DaemonEnvironment, ProvostPaths},
    follow::{self, Follower, FollowerLink},
    git_calls::GitCalls,
    handle::{EngineHandle, ObservationSender},
    home::Home,
    hook::HookJob,
    launch_start::{
        LaunchError, StartingLaunches, adopt_launch, describe_not_started, effect_short,
        failed_launch_command,
    },
    panes::{PaneInput, PaneRegistry, Typist, WriteDispatcher},
    run_effect::{self, RunEffects},
    secrets::Secrets,
    shortage::{self, ShortageWaits},
    supervised_command::{self, CommandEnd, Holders, SURVIVOR_GRACE},
    team_effect,
    watch::{
        ExternalAgentWatch, ThreadSwitches, TranscriptContext, TranscriptSource, TranscriptWatcher,
        WatchContext,
    },
    worktree,
};
use crate::stream::Subject;

/// The size of a terminal before a user attaches to it.
pub(super) const TERMINAL_SIZE: Tty = Tty { columns: 120, rows: 40 };

/// How long to wait before retrying a holder that could not be reached.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// The engine's environment: paths, programs and shared locks.
#[derive(Clone, Debug)]
pub struct EngineWorld {
    pub home: Home,
    pub git: Git,
    pub holders: Holders,
    pub adapters: Adapters,
    /// Grants the permits of effects that others can see.
    pub gate: EffectGate,
    pub environment: DaemonEnvironment,
    /// The `provost` program that agents call.
    pub program: PathBuf,
    /// The key from which tokens are derived.
    pub key: [u8; 32],
    pub secrets: Secrets,
    /// The launches that are being followed, and the last probe of each.
    pub census: Census,
    /// The launches that switched to another conversation.
    pub moves: ThreadSwitches,
    /// Locked while work is landing.
    pub landing: Arc<tokio::sync::Mutex<()>>,
    /// Every landing in a checkout on this machine, and every removal of a worktree, holds a read
    /// lock. A daemon that is about to exit takes the write lock, which waits for those in progress
    /// and prevents new ones from starting.
    pub checkouts: Arc<tokio::sync::RwLock<()>>,
    /// The shortages that runs and teams are waiting for.
    pub waits: ShortageWaits,
}

impl EngineWorld {
    /// Returns how a program without Provost's environment variables can invoke Provost.
    pub fn caller(&self) -> team::ProvostInvocation {
        team::ProvostInvocation {
            program: self.program.display().to_string(),
            home: Some(self.home.root().display().to_string()),
        }
    }

    /// Returns the token that a launch uses to identify itself. The token is derived, so it
    /// survives a crash without being stored.
    pub fn token(&self, launch: LaunchId) -> String {
        blake3::keyed_hash(&self.key, launch.to_string().as_bytes()).to_hex().to_string()
    }

    /// Returns the idempotency key for a write to a launch. The key is derived, so a restarted
    /// daemon uses the same one, and it depends on a secret, so no other process can write under it
    /// first.
    pub(crate) fn write_key(&self, launch: LaunchId, key: &str) -> String {
        let named = format!("write {launch} {key}");
        let seal = blake3::keyed_hash(&self.key, named.as_bytes()).to_hex();
        wire::sealed_key(key, &seal)
    }
}

/// An order from the owner.
#[derive(Debug)]
pub(crate) enum EffectOrder {
    Start {
        session: Arc<Session>,
        effect: SessionEffect,
    },
    Cancel {
        session: SessionId,
        key: EffectKey,
    },
    StartRun {
        run: Arc<Run>,
        effect: run::RunEffect,
    },
    CancelRun {
        run: RunId,
        key: EffectKey,
    },
    /// Includes the session whose work is checked, if there is one.
    StartTeam {
        task: Arc<Team>,
        worker: Option<Arc<Session>>,
        effect: team::TeamEffect,
    },
    CancelTeam {
        task: TeamId,
        key: EffectKey,
    },
}

type SubjectEffect = (Subject, EffectKey);

/// Carries out effects, each in its own tokio task. An effect whose task panics is restarted.
pub struct Executor {
    context: EffectContext,
    running: BTreeMap<SubjectEffect, RunningEffect>,
    /// The effect of each tokio task.
    effects: HashMap<Id, SubjectEffect>,
    /// How many times each effect has panicked since it became pending.
    panics: BTreeMap<SubjectEffect, u32>,
    /// Taken out when the executor starts to run.
    hub: Option<WriteDispatcher>,
    tasks: JoinSet<()>,
}

/// A tokio task that carries out an effect.
struct RunningEffect {
    id: Id,
    cancel: watch::Sender<bool>,
}

/// What every tokio task has access to.
#[derive(Clone)]
struct EffectContext {
    world: EngineWorld,
    observations: ObservationSender,
    handle: EngineHandle,
    clock: Clock,
    effects: Effects,
    git_calls: GitCalls,
    checks: CheckRunner,
    panes: PaneRegistry,
    /// The launches that are currently being started.
    starting: StartingLaunches,
    /// Effects that became pending before this time were already pending in an earlier daemon.
    since_ms: u64,
}

impl Executor {
    pub(crate) fn new(
        world: EngineWorld,
        observations: ObservationSender,
        handle: EngineHandle,
        clock: Clock,
    ) -> Executor {
        let effects = Effects::new(&world.home, &world.key, &world.holders, &observations);
        let git_calls = GitCalls::new(&world, &effects);
        let checks = CheckRunner {
            home: world.home.clone(),
            git_calls: git_calls.clone(),
            effects: effects.clone(),
            environment: world.environment.clone(),
            key: world.key,
            slots: CheckoutSlots::default(),
        };
        let since_ms = clock.now().mono_ms;
        let (panes, hub) = PaneRegistry::new();
        let starting = StartingLaunches::default();
        let context = EffectContext {
            world,
            observations,
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

    /// Carries out orders until the owner has stopped.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<EffectOrder>) {
        if let Some(hub) = self.hub.take() {
            self.tasks.spawn(hub.run());
        }
        let context = self.context.clone();
        self.tasks.spawn(async move {
            drop_box::collect_reports(&context.world, &context.handle, None).await;
        });
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(EffectOrder::Start { session, effect }) => self.start(session, effect),
                    Some(EffectOrder::Cancel { session, key }) => {
                        self.cancel(&(Subject::Session(session), key));
                    }
                    Some(EffectOrder::StartRun { run, effect }) => self.start_run(run, effect),
                    Some(EffectOrder::CancelRun { run, key }) => {
                        self.cancel(&(Subject::Run(run), key));
                    }
                    Some(EffectOrder::StartTeam { task, worker, effect }) => {
                        self.start_team(task, worker, effect);
                    }
                    Some(EffectOrder::CancelTeam { task, key }) => {
                        self.cancel(&(Subject::Team(task), key));
                    }
                    None => return,
                },
                Some(ended) = self.tasks.join_next_with_id() => match ended {
                    Ok((id, ())) => drop(self.forget_task(id)),
                    Err(why) => self.restart(why.id()),
                },
            }
        }
    }

    fn start(&mut self, session: Arc<Session>, effect: SessionEffect) {
        let key = (Subject::Session(session.id), effect.key());
        if let Some(job) = check_job(&session, &effect) {
            self.context.checks.claim_running(&job);
        }
        let context = self.context.clone();
        self.spawn_effect(key, |cancel| async move {
            if let SessionEffect::Follow(launch) = effect {
                Box::pin(context.follow(session, launch, cancel)).await;
            } else {
                Box::pin(context.carry_out(&session, effect, cancel)).await;
            }
        });
    }

    fn start_run(&mut self, run: Arc<Run>, effect: run::RunEffect) {
        let key = (Subject::Run(run.id), effect.key());
        if let Some(job) = run_effect::check_job(&run, &effect) {
            self.context.checks.claim_running(&job);
        }
        let context = self.context.clone();
        self.spawn_effect(key, |mut cancel| async move {
            let carrier = RunEffects {
                world: &context.world,
                effects: &context.effects,
                git_calls: &context.git_calls,
                checks: &context.checks,
            };
            let mut wait = context.world.waits.begin(Subject::Run(run.id), effect.key());
            let result = loop {
                let result = carrier.carry_out(&run, effect.clone(), cancel.clone()).await;
                let Some(shortage) = shortage::shortage_in_run(&result) else { break result };
                if !wait.pause(context.refine_shortage(shortage), &mut cancel).await {
                    return;
                }
            };
            context.observations.send_run(run.id, result).await;
        });
    }

    fn start_team(
        &mut self,
        task: Arc<Team>,
        worker: Option<Arc<Session>>,
        effect: team::TeamEffect,
    ) {
        let key = (Subject::Team(task.id), effect.key());
        let context = self.context.clone();
        self.spawn_effect(key, |mut cancel| async move {
            let git = context.git_calls.settled_git(Subject::Team(task.id)).await;
            let checks = &context.checks;
            let mut wait = context.world.waits.begin(Subject::Team(task.id), effect.key());
            let result = loop {
                let (worker, wanted) = (worker.clone(), cancel.clone());
                let carried =
                    team_effect::run_effect(&git, checks, &task, worker, effect.clone(), wanted);
                let result = Box::pin(carried).await;
                let Some(shortage) = shortage::shortage_in_team(&result) else { break result };
                if !wait.pause(context.refine_shortage(shortage), &mut cancel).await {
                    return;
                }
            };
            context.observations.send_team(task.id, result).await;
        });
    }

    fn spawn_effect<F>(&mut self, key: SubjectEffect, work: impl FnOnce(watch::Receiver<bool>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, cancel) = watch::channel(false);
        let id = self.tasks.spawn(work(cancel)).id();
        self.effects.insert(id, key.clone());
        self.running.insert(key, RunningEffect { id, cancel: sender });
    }

    /// Forgets a tokio task that has finished, and returns its effect.
    fn forget_task(&mut self, id: Id) -> Option<SubjectEffect> {
        let key = self.effects.remove(&id)?;
        // The same effect may already have been started again.
        if self.running.get(&key).is_some_and(|running| running.id == id) {
            self.running.remove(&key);
            self.panics.remove(&key);
        }
        Some(key)
    }

    /// Asks the owner to restart the effect of a task that panicked, if the effect is still
    /// pending. The panic itself is logged.
    fn restart(&mut self, id: Id) {
        let known = self.effects.get(&id).and_then(|key| self.panics.get(key)).copied();
        let panics = known.unwrap_or(0).saturating_add(1);
        let Some((subject, effect)) = self.forget_task(id) else { return };
        self.panics.insert((subject, effect.clone()), panics);
        let observations = self.context.observations.clone();
        self.tasks.spawn(async move {
            supervised_command::sleep(Duration::from_millis(retry_after_ms(panics))).await;
            observations.effect_lost(subject, effect).await;
        });
    }

    fn cancel(&mut self, key: &SubjectEffect) {
        if let Some(running) = self.running.get(key) {
            running.cancel.send_replace(true);
        }
        self.panics.remove(key);
    }
}

impl EffectContext {
    /// Distinguishes a shortage of inodes from a shortage of blocks.
    fn refine_shortage(&self, shortage: Shortage) -> Shortage {
        shortage::refine(shortage, self.world.home.root())
    }

    async fn carry_out(
        self,
        session: &Session,
        effect: SessionEffect,
        cancel: watch::Receiver<bool>,
    ) {
        let result = match effect.clone() {
            SessionEffect::PrepareWork { .. } => Some(self.prepare(session, effect.key()).await),
            SessionEffect::RunSetup { attempt } => {
                Some(match self.run_setup(session, &effect, cancel).await {
                    Ok(failure) => SessionCommand::SetupFinished { attempt, failure },
                    Err(shortage) => effect_short(session, &effect, shortage),
                })
            }
            SessionEffect::StartLaunch(launch) => {
                let _start = self.starting.begin(launch);
                if *cancel.borrow() {
                    return;
                }
                Some(self.launch(session, launch).await)
            }
            // Following takes a long time and is therefore handled separately; see `follow`.
            SessionEffect::Follow(_) => None,
            SessionEffect::StopLaunch(launch, step) => {
                self.stop(session, launch, step, cancel).await
            }
            SessionEffect::Deliver { launch, message } if session.spec.adopted.is_some() => {
                self.type_message(session, launch, &message, cancel).await;
                None
            }
            SessionEffect::Deliver { launch, message } => {
                self.deliver(session, launch, &message, cancel).await
            }
            SessionEffect::PressAgain { launch, message } if session.spec.adopted.is_some() => {
                let text =
                    session.messages.iter().find(|one| one.key == message).map(typed_text(session));
                if let (Some(typist), Some(text)) = (self.typist(session, launch), text) {
                    typist.press_enter_again(&message, &text).await;
                }
                None
            }
            SessionEffect::PressAgain { launch, message } => {
                let key = self.world.write_key(launch, &enter_retry_key(&message));
                let data = WireBytes(provost_agent::ENTER.to_vec());
                let op = HolderOp::Write { key, data, secret: false };
                // An agent that accepts no more input exits on its own, which its follower reports.
                write(&self.world.home.launch(launch), op, cancel).await;
                None
            }
            SessionEffect::TakeSnapshot { attempt, no } => {
                Some(self.take_snapshot(session, attempt, no).await)
            }
            SessionEffect::RunCheck { attempt, .. } => {
                let Some(job) = check_job(session, &effect) else { return };
                let receipt = self.checks.run(job, cancel).await.pop();
                receipt.map(|receipt| SessionCommand::CheckFinished { attempt, receipt })
            }
            SessionEffect::RunHook(key) => {
                let environment = &self.world.environment;
                let Some(job) = HookJob::from_session(session, key, environment) else { return };
                let name = EffectName::for_session(session.id, effect.key());
                let end = job.run(self.world.gate.permit(name), &self.effects).await;
                Some(SessionCommand::HookFinished { key, end })
            }
        };
        if let Some(command) = result {
            let met = shortage::shortage_in_session(&command);
            let command = met
                .map_or(command, |met| effect_short(session, &effect, self.refine_shortage(met)));
            self.observations.send(session.id, command).await;
        }
    }

    /// Follows a launch. Drops the session in the meantime, because hundreds of launches may be followed.
    async fn follow(
        self,
        session: Arc<Session>,
        launch: LaunchId,
        mut cancel: watch::Receiver<bool>,
    ) {
        let _counted = self.world.census.register(launch);
        if session.spec.adopted.is_some() {
            let context = WatchContext {
                adapters: &self.world.adapters,
                panes: &self.panes,
                moves: &self.world.moves,
                handle: self.handle.clone(),
                observations: self.observations.clone(),
                clock: self.clock,
                census: self.world.census.clone(),
            };
            let adopted = ExternalAgentWatch::new(&session, launch, context);
            drop(session);
            if let Some(adopted) = adopted {
                tokio::select! {
                    () = adopted.run() => {}
                    // The agent is external, so its end no longer matters once its attempt is sealed.
                    () = supervised_command::wait_for_cancel(&mut cancel) => {}
                }
                self.observations.forget(launch);
                self.panes.forget(launch);
                self.world.moves.forget(launch);
            }
            return;
        }
        let record = self.follow_transcript(&session, launch);
        let link = FollowerLink {
            dir: self.world.home.launch(launch),
            world: self.world.clone(),
            observations: self.observations.clone(),
            handle: self.handle.clone(),
            clock: self.clock,
        };
        let follower = Follower::new(&session, launch, link);
        let adapter = self.world.adapters.get(&session.spec.agent.interface).ok().cloned();
        drop(session);
        if let Some(follower) = follower {
            tokio::select! {
                () = follower.run() => {}
                () = record => {}
            }
            agent_launch::remove_remains(&self.world, adapter.as_deref(), launch);
            self.observations.forget(launch);
            self.world.moves.forget(launch);
            self.world.holders.reap();
        }
    }

    /// Follows the transcript of an agent in a terminal, for as long as the returned future is polled.
    fn follow_transcript(
        &self,
        session: &Session,
        launch: LaunchId,
    ) -> impl Future<Output = ()> + use<> {
        let interface = &session.spec.agent.interface;
        let store = if interface.has_transcript() {
            self.world.adapters.get(interface).ok().and_then(|adapter| adapter.transcripts())
        } else {
            None
        };
        let watch = store.map(|store| {
            let source = TranscriptSource::InHome(store.home(&self.world.home.agent(session.id)));
            let (handle, observations) = (self.handle.clone(), self.observations.clone());
            let context = TranscriptContext {
                store,
                moves: &self.world.moves,
                handle,
                observations,
                clock: self.clock,
            };
            TranscriptWatcher::new(session, launch, source, context)
        });
        async move {
            match watch {
                Some(watch) => watch.run().await,
                None => std::future::pending().await,
            }
        }
    }

    async fn prepare(&self, session: &Session, key: EffectKey) -> SessionCommand {
        let (effect, session) = (EffectName::for_session(session.id, key), session.clone());
        match self.git_calls.write(effect, move |git| worktree::prepare_work(git, &session)).await {
            Ok(prepared) => SessionCommand::WorkPrepared { cwd: prepared.cwd, base: prepared.base },
            Err(reason) => SessionCommand::WorkFailed { reason },
        }
    }

    async fn run_setup(
        &self,
        session: &Session,
        effect: &SessionEffect,
        mut cancel: watch::Receiver<bool>,
    ) -> Result<Option<String>, Shortage> {
        let command = session.spec.setup.clone().unwrap_or_default();
        let argv = vec!["/bin/sh".to_owned(), "-c".to_owned(), command.clone()];
        let spec = HoldSpec {
            env: self.world.environment.for_command(&session.spec),
            output_limit: session.spec.bounds.check_output,
            on_limit: OnLimit::End,
            time_limit_ms: Some(session.spec.bounds.check_time_ms),
            ..HoldSpec::new(String::new(), argv, cwd_of(session))
        };
        let effect = EffectName::for_session(session.id, effect.key());
        let ran = self.effects.run(&effect, spec, &mut cancel).await;
        let failure = match ran.map(|FinishedEffect { finished, .. }| finished) {
            Ok(CommandEnd::Ended {
                exit: ExitRecord { end: ProcessEnd::Exited { code: 0 }, .. },
            }) => None,
            Ok(CommandEnd::Ended { exit }) => Some(exit.to_string()),
            Ok(CommandEnd::Uncertain(why)) => Some(why),
            Err(why) => Some(error_chain(&why)),
        };
        if let Some(shortage) = failure.as_deref().and_then(Shortage::from_text) {
            return Err(self.refine_shortage(shortage));
        }
        Ok(failure.map(|why| format!("the setup command `{command}` failed: {why}")))
    }

    async fn launch(&self, session: &Session, launch: LaunchId) -> SessionCommand {
        if let Some(adopted) = session.spec.adopted.as_deref() {
            return adopt_launch(launch, adopted).await;
        }
        match self.start_or_find(session, launch).await {
            Ok((holder, child)) => SessionCommand::LaunchStarted { launch, holder, child },
            Err(LaunchError { shortage: Some(shortage), may_have_started: false, .. }) => {
                effect_short(session, &SessionEffect::StartLaunch(launch), shortage)
            }
            Err(LaunchError { reason, shortage, .. }) => {
                let dir = self.world.home.launch(launch);
                let traces = self.world.holders.traces(&dir);
                let none_left = loop {
                    // A failed start is not over while any of its processes is still running.
                    match supervised_command::end_all_processes(&traces, SURVIVOR_GRACE).await {
                        Ok(none_left) => break none_left,
                        Err(_) => supervised_command::sleep(RETRY_DELAY).await,
                    }
                };
                let shortage = if none_left.found_processes() { None } else { shortage };
                match shortage {
                    Some(shortage) => {
                        // The next attempt creates the directory again, and reports an error if it
                        // still exists.
                        supervised_command::blocking(move || std::fs::remove_dir_all(&dir))
                            .await
                            .ok();
                        let shortage = self.refine_shortage(shortage);
                        effect_short(session, &SessionEffect::StartLaunch(launch), shortage)
                    }
                    None => failed_launch_command(launch, reason, &none_left),
                }
            }
        }
    }

    /// Returns a resource that a launch needs but that is currently short.
    fn missing_resource(&self) -> Option<Shortage> {
        let home = &self.world.home;
        let directories = [home.launches(), home.starts()];
        shortage::disk_shortage(home.root())
            .or_else(shortage::descriptor_shortage)
            .or_else(|| directories.iter().find_map(|one| shortage::directory_shortage(one)))
    }

    /// Starts a launch, or finds out that it was already started, and returns its processes.
    async fn start_or_find(
        &self,
        session: &Session,
        launch: LaunchId,
    ) -> Result<(ProcessIdentity, ProcessIdentity), LaunchError> {
        let dir = self.world.home.launch(launch);
        self.effects.verify_launch(launch).await?;
        let found = supervised_command::read_launch(&dir).await;
        // A shortage does not reveal whether the launch is absent or running.
        let unread = found.as_ref().err().and_then(|why| Shortage::from_text(&error_chain(why)));
        if let Some(shortage) = unread {
            return Err(shortage.into());
        }
        if matches!(found, Ok(LaunchState::Absent)) {
            self.ensure_not_running(session, launch, &dir).await?;
            let context = self.clone();
            if let Some(shortage) =
                supervised_command::blocking(move || context.missing_resource()).await
            {
                return Err(shortage.into());
            }
            worktree::check_home(session, self.world.home.root())?;
            let spec = self.launch_spec(session, launch).await?;
            self.effects.begin_launch(launch, &spec).await?;
            self.world.holders.start_at(&dir, spec).await?;
        }
        let held = match supervised_command::wait_until_started(&dir).await? {
            LaunchState::Absent => {
                return Err("its launch directory was removed".to_owned().into());
            }
            LaunchState::Starting { holder, .. } => {
                return Err(supervised_command::describe_stuck_start(holder.is_some()).into());
            }
            LaunchState::Ended { held: None, exit, .. } => {
                return Err(describe_not_started(&exit).into());
            }
            LaunchState::HolderDied { held: None, .. }
            | LaunchState::OtherBoot { held: None, .. } => {
                let why = "its holder died before it reported that the agent runs";
                return Err(why.to_owned().into());
            }
            LaunchState::Alive { held }
            | LaunchState::Ended { held: Some(held), .. }
            | LaunchState::HolderDied { held: Some(held), .. }
            | LaunchState::OtherBoot { held: Some(held), .. } => held,
        };
        if !self.effects.matches_launch(launch, &held).await {
            let why = "its launch directory has the record of another command";
            return Err(why.to_owned().into());
        }
        Ok((identity(held.holder), identity(held.child)))
    }

    /// Makes sure that an earlier daemon did not start a launch whose directory is missing. The
    /// agent itself may have removed the directory, and must not run twice.
    async fn ensure_not_running(
        &self,
        session: &Session,
        launch: LaunchId,
        dir: &Path,
    ) -> Result<(), String> {
        let requested = session.launch(launch).map_or(0, |launch| launch.requested_at.mono_ms);
        if requested > self.since_ms {
            return Ok(());
        }
        let traces = self.world.holders.traces(dir);
        let left = supervised_command::blocking(move || tree::remaining(&traces)).await;
        if left.map_err(|why| why.to_string())?.is_empty() {
            Ok(())
        } else {
            Err("it was started before, and its launch directory was removed".to_owned())
        }
    }

    async fn launch_spec(&self, session: &Session, launch: LaunchId) -> Result<HoldSpec, String> {
        let token = self.world.token(launch);
        let place = ProvostPaths {
            home: self.world.home.root(),
            socket: &self.world.home.socket(),
            program: &self.world.program,
            token: &token,
        };
        let agent = &session.spec.agent;
        let tty = agent.interface.has_terminal().then_some(TERMINAL_SIZE);
        let mut spec = HoldSpec {
            env: self.world.environment.for_launch(session, launch, &place),
            stdin: if agent.accepts_input() || tty.is_some() {
                StdinMode::Pipe
            } else {
                StdinMode::Null
            },
            output_limit: session.output_limit,
            on_limit: OnLimit::Block,
            grace_ms: session.spec.bounds.stop_grace_ms,
            settle_ms: session.spec.bounds.drain_ms,
            tty,
            ..HoldSpec::new(launch.to_string(), agent.argv.clone(), cwd_of(session))
        };
        let (world, session) = (self.world.clone(), session.clone());
        supervised_command::blocking(move || {
            agent_launch::prepare(&world, &session, launch, &mut spec).map(|()| spec)
        })
        .await
    }

    /// Writes a message to the agent's input. The journal shows when the message has arrived.
    async fn deliver(
        &self,
        session: &Session,
        launch: LaunchId,
        key: &str,
        cancel: watch::Receiver<bool>,
    ) -> Option<SessionCommand> {
        let message = session.message_by_write_key(key)?;
        let lost =
            |reason: String| Some(SessionCommand::MessageLost { key: message.key.clone(), reason });
        // The message stays pending for a build that knows the adapter.
        self.world.adapters.get(&session.spec.agent.interface).ok()?;
        let dir = self.world.home.launch(launch);
        let secret = session.is_secret(message);
        let kept = self.world.secrets.get(session.id, key);
        let reply = match (secret, &kept) {
            (false, _) => message.reply.as_ref(),
            (true, Some(reply)) => Some(reply),
            (true, None) if follow::was_written(&dir, key).await => return None,
            (true, None) => return lost("the daemon that had the secret ended first".to_owned()),
        };
        let Some(bytes) = encode_message(&self.world.adapters, session, launch, message, reply)
        else {
            return lost(format!("{} cannot receive this", session.spec.agent.name));
        };
        let write_key = self.world.write_key(launch, key);
        let op = HolderOp::Write { key: write_key, data: WireBytes(bytes), secret };
        while secret && !*cancel.borrow() && !self.mask_secrets(session.id, &dir).await {
            supervised_command::sleep(RETRY_DELAY).await;
        }
        match write(&dir, op, cancel).await? {
            Ok(()) => {
                self.world.secrets.forget(session.id, key);
                None
            }
            // The holder already wrote an interrupt with this key. Its bytes differ because the
            // turn that it refers to depends on when it was written.
            Err(fault)
                if fault.code == HolderFaultCode::Conflict
                    && message.kind == AgentMessageKind::Interrupt =>
            {
                None
            }
            Err(fault) => lost(fault.message),
        }
    }

    fn typist(&self, session: &Session, launch: LaunchId) -> Option<Typist> {
        let (handle, observations) = (self.handle.clone(), self.observations.clone());
        Typist::new(session, launch, &self.world.adapters, self.panes.clone(), handle, observations)
    }

    /// Types a message into the pane of an external agent. The transcript shows when the agent received it.
    async fn type_message(
        &self,
        session: &Session,
        launch: LaunchId,
        key: &str,
        cancel: watch::Receiver<bool>,
    ) {
        let message = session.messages.iter().find(|message| message.key == key);
        let (Some(message), Some(typist)) = (message, self.typist(session, launch)) else { return };
        let is_key = message.request.is_some() || message.kind == AgentMessageKind::Interrupt;
        let what = if is_key {
            encode_message(&self.world.adapters, session, launch, message, message.reply.as_ref())
                .map(PaneInput::Keys)
        } else {
            Some(PaneInput::Text(typed_text(session)(message)))
        };
        match what {
            Some(what) => typist.deliver(message, what, cancel).await,
            None => {
                let why = format!("{} cannot receive this in a pane", session.spec.agent.name);
                typist.report_lost(key, why).await;
            }
        }
    }

    /// Asks the holder to mask the secrets that it is about to write, and returns whether it
    /// responded. If the holder refuses, it cannot mask them, because it is too old or already has
    /// too many masks.
    async fn mask_secrets(&self, session: SessionId, dir: &Path) -> bool {
        let forms = self.world.secrets.masks(session).into_iter().map(WireBytes).collect();
        match supervised_command::request(dir, HolderOp::Mask { forms }).await {
            Ok(()) | Err(client::Error::Fault(_)) => true,
            Err(_) => false,
        }
    }

    async fn take_snapshot(&self, session: &Session, attempt: u32, no: u32) -> SessionCommand {
        let git = self.git_calls.settled_git(Subject::Session(session.id)).await;
        let session = session.clone();
        match supervised_command::blocking(move || worktree::commit_work(&git, &session, no)).await
        {
            Ok((snapshot, caveats)) => {
                SessionCommand::SnapshotTaken { attempt, no, snapshot, caveats }
            }
            Err(reason) => SessionCommand::SnapshotFailed { attempt, no, reason },
        }
    }
}

/// Returns the verification that an effect requests, if it runs a check.
fn check_job(session: &Session, effect: &SessionEffect) -> Option<CheckJob> {
    let SessionEffect::RunCheck { index, .. } = effect else { return None };
    let verification = session.check_request(*index)?;
    Some(CheckJob { owner: EffectOwner::Session(session.id), key: effect.key(), verification })
}

/// Asks a holder to write to its command, however long that takes. `None` if this was cancelled first.
async fn write(
    dir: &Path,
    op: HolderOp,
    cancel: watch::Receiver<bool>,
) -> Option<Result<(), wire::HolderFault>> {
    while !*cancel.borrow() {
        match supervised_command::request(dir, op.clone()).await {
            Ok(()) => return Some(Ok(())),
            Err(client::Error::Fault(fault)) if fault.code != HolderFaultCode::Busy => {
                return Some(Err(fault));
            }
            Err(_) => supervised_command::sleep(RETRY_DELAY).await,
        }
    }
    None
}

fn identity(found: provost_holder::ProcessInstance) -> ProcessIdentity {
    let pid = i32::try_from(found.pid).unwrap_or(0);
    ProcessIdentity { pid, start_time: found.start_time, boot_id: found.boot_id }
}

pub(super) fn cwd_of(session: &Session) -> &str {
    match &session.work {
        WorkState::Ready { cwd, .. } => cwd,
        WorkState::Pending | WorkState::Failed { .. } | WorkState::Removed => &session.spec.cwd,
    }
}
