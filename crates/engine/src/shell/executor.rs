//! Carries out pending effects, each once, and reports the results to the owner.

mod input;
mod launch;
mod launch_stop;
mod retried_effects;
mod session_effects;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use provost_core::{
    run::Run,
    session::{EffectKey, Session},
    shortage::{Shortage, retry_after_ms},
    team::Team,
};
use provost_holder::Tty;
use tokio::{
    sync::{mpsc, watch},
    task::{Id, JoinSet},
};

pub(super) use self::launch::cwd_of;
use super::{
    check::{CheckJob, CheckRunner, CheckoutSlots},
    clock::Clock,
    drop_box,
    effects::Effects,
    engine_world::EngineWorld,
    git_calls::GitCalls,
    handle::{EngineHandle, ObservationSender},
    launch_start::StartingLaunches,
    panes::{PaneRegistry, WriteDispatcher},
    shortage, supervised_command,
};
use crate::{stored_aggregate::StoredAggregate, stream::Subject};

/// The size of a terminal before a user attaches to it.
pub(super) const TERMINAL_SIZE: Tty = Tty { columns: 120, rows: 40 };

/// How long to wait before retrying a holder that could not be reached.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// An order from the owner.
#[derive(Debug)]
pub(crate) enum EffectOrder {
    Session(EffectStart<Session>),
    Run(EffectStart<Run>),
    Team(EffectStart<Team>),
    Cancel(Subject, EffectKey),
}

/// An effect to carry out.
#[derive(Debug)]
pub(crate) struct EffectStart<A: StoredAggregate> {
    /// The state of the aggregate when the effect was dispatched.
    pub(super) aggregate: Arc<A>,
    pub(super) effect: A::Effect,
    /// The session whose work the effect concerns, apart from the aggregate itself.
    pub(super) session: Option<Arc<Session>>,
}

/// An aggregate whose effects the executor carries out.
pub(super) trait ExecutableAggregate: StoredAggregate {
    fn order(start: EffectStart<Self>) -> EffectOrder;

    /// Returns the verification that an effect requests, if it runs checks.
    fn check_job(&self, _effect: &Self::Effect) -> Option<CheckJob> {
        None
    }

    /// Carries out an effect, and reports its result to the owner.
    fn carry_out(
        context: EffectContext,
        start: EffectStart<Self>,
        cancel: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send;
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
pub(super) struct EffectContext {
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
                    Some(EffectOrder::Session(start)) => self.start(start),
                    Some(EffectOrder::Run(start)) => self.start(start),
                    Some(EffectOrder::Team(start)) => self.start(start),
                    Some(EffectOrder::Cancel(subject, key)) => self.cancel(&(subject, key)),
                    None => return,
                },
                Some(ended) = self.tasks.join_next_with_id() => match ended {
                    Ok((id, ())) => drop(self.forget_task(id)),
                    Err(why) => self.restart(why.id()),
                },
            }
        }
    }

    fn start<A: ExecutableAggregate>(&mut self, start: EffectStart<A>) {
        let key = (start.aggregate.id().into(), A::effect_key(&start.effect));
        if let Some(job) = start.aggregate.check_job(&start.effect) {
            self.context.checks.claim_running(&job);
        }
        let context = self.context.clone();
        self.spawn_effect(key, |cancel| A::carry_out(context, start, cancel));
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
}
