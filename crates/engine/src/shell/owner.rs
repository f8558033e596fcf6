//! The owner: one thread that holds the board and writes to the ledger.
//!
//! All inputs that arrive during a commit are decided and committed together, so even many writers
//! cause only a few commits. No reply is sent and no effect starts before its events are durable.

mod dispatch;
mod loading;
mod requests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use provost_agent::Adapters;
use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    session::{Reporter, Session, SessionCommand, SessionEffect},
    shortage::Shortage,
    team,
};
use provost_ledger::{AppendError, Ledger, ReadLedger, SqliteLedger, WriteBatch};
use tokio::sync::{broadcast, mpsc};

use super::{
    catch_up::CatchUp,
    clock::Clock,
    engine_world::EngineWorld,
    executor::{EffectOrder, Executor},
    failpoint,
    handle::{
        ChangeResult, EngineHandle, EngineRequest, Observation, ObservationSender, OwnerInput,
        PendingRequest, PublishedEvents, Query,
    },
    home::Home,
    idempotency,
    refusals::{report_kept_error, too_large_error, write_error},
    secrets::Secrets,
    shortage::ShortageWaits,
    team_requests::PollCounts,
};
use crate::{
    board::{Board, BoardTransaction, CommitChanges, StagedDrafts},
    stream::{self, Subject},
};

/// The maximum number of inputs to decide and commit together.
const MAX_BATCH: usize = 512;

/// Callers often send their next request right after they receive a reply. If fewer inputs arrived during a commit than
/// the commit answered, the owner waits this long for further inputs, because one commit for all inputs costs less than
/// two commits.
const GATHER_TIME: Duration = Duration::from_micros(150);

/// The owner waits for more inputs only if the last commit answered at least this many requests.
const MIN_GATHER_REPLIES: usize = 8;

/// The maximum number of inputs in the owner's queue. If it is full, senders have to wait.
const MAX_WAITING: usize = 4096;

/// How many events a slow subscriber may fall behind before it has to read the ledger instead.
const MAX_SUBSCRIBER_LAG: usize = 1024;

/// How long to wait after a failed write before trying to write the observations again.
const WRITE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The maximum number of agents' reports to keep in memory while the ledger cannot be written.
const MAX_KEPT_REPORTS: usize = 1_000;

/// The maximum time that a new daemon waits for every launch to be observed before deadlines apply
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

/// The owner of the board and the ledger.
pub struct Owner {
    pub(super) board: Board,
    pub(super) ledger: SqliteLedger,
    pub(super) clock: Clock,
    inputs: mpsc::Receiver<OwnerInput>,
    orders: mpsc::Sender<EffectOrder>,
    events: broadcast::Sender<PublishedEvents>,
    heard: Arc<Mutex<HashMap<LaunchId, u64>>>,
    /// Observations that have not been written yet. They are never dropped.
    backlog: Vec<Observation>,
    pub(super) unreadable: BTreeMap<String, String>,
    secrets: Secrets,
    adapters: Adapters,
    catching_up: CatchUp,
    pub(super) polls: PollCounts,
    /// How to invoke Provost in commands shown to members, wherever those members run.
    pub(super) caller: team::ProvostInvocation,
    /// Answers to launches that have not been observed yet. If a launch turns out to be dead, its answers are refused.
    early_answers: Vec<PendingRequest>,
    /// The number of requests that the last commit answered.
    answered: usize,
    pub(super) home: Home,
    pub(super) waits: ShortageWaits,
    /// The shortage that caused the last write to fail. None if the write succeeded.
    pub(super) write_shortage: Option<Shortage>,
    /// When this daemon started, on the ledger's clock.
    pub(super) started_ms: u64,
    /// Sessions as they would be if the observations could be written. Empty while writing works.
    pub(super) preview: BTreeMap<SessionId, Session>,
    /// Reports from agents that have not been written yet.
    kept_reports: Vec<PendingRequest>,
}

/// A running engine.
pub struct RunningEngine {
    pub handle: EngineHandle,
    /// Finishes when the owner has stopped.
    pub owner: thread::JoinHandle<()>,
    /// Carries out pending effects. The code that starts the engine must await this future.
    pub executor: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Owner {
    /// Loads the open streams of the ledger and starts the owner.
    pub fn start(ledger: SqliteLedger, world: EngineWorld) -> Result<RunningEngine, StartError> {
        let last = last_moment(&ledger)?;
        let clock = Clock::after(last);
        let (sender, inputs) = mpsc::channel(MAX_WAITING);
        let (orders, dispatched) = mpsc::channel(MAX_WAITING);
        let events = broadcast::Sender::new(MAX_SUBSCRIBER_LAG);
        let heard = Arc::default();
        let observations = ObservationSender { inputs: sender.clone(), heard: Arc::clone(&heard) };
        let handle = EngineHandle { inputs: sender, events: events.clone() };
        let (secrets, adapters) = (world.secrets.clone(), world.adapters.clone());
        let (caller, home, waits) = (world.caller(), world.home.clone(), world.waits.clone());
        let executor = Executor::new(world, observations, handle.clone(), clock);
        let executor = Box::pin(executor.run(dispatched));
        let mut owner = Owner {
            board: Board::with_caller(caller.clone()),
            ledger,
            clock,
            inputs,
            orders,
            events,
            heard,
            backlog: Vec::new(),
            unreadable: BTreeMap::new(),
            secrets,
            adapters,
            catching_up: CatchUp::default(),
            polls: PollCounts::default(),
            caller,
            early_answers: Vec::new(),
            answered: 0,
            home,
            waits,
            write_shortage: None,
            started_ms: clock.now().mono_ms,
            preview: BTreeMap::new(),
            kept_reports: Vec::new(),
        };
        let changes = owner.restore()?;
        let launches: BTreeSet<LaunchId> = changes
            .sessions
            .start
            .iter()
            .filter_map(|(_, effect)| followed_launch(effect))
            .collect();
        // These are part of the first batch, before deadlines apply, so that waits for a daemon are
        // measured from now on.
        owner.backlog.extend(launches.iter().map(|launch| launch_followed(*launch)));
        owner.backlog.extend(owner.board.teams.iter().map(|team| reevaluate_team(team.id)));
        owner.catching_up =
            CatchUp { launches, from: last, until: clock.now().mono_ms + CATCH_UP_MS };
        let thread = thread::Builder::new().name("owner".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let runtime = runtime.expect("a runtime with a clock and nothing else can be made");
            runtime.block_on(owner.run(changes));
        })?;
        Ok(RunningEngine { handle, owner: thread, executor })
    }

    fn restore(&mut self) -> Result<CommitChanges, StartError> {
        let mut all = CommitChanges::default();
        if self.ledger.read_only().is_some() || self.ledger.loss().is_some() {
            // Nothing may be done that could not be recorded.
            return Ok(all);
        }
        for state in self.ledger.open_streams()? {
            let stream = state.head.stream;
            let subject = stream::parse_subject(stream.as_str()).map_err(|why| why.to_string());
            match subject.and_then(|subject| self.board.load(&self.ledger, subject)) {
                Ok(changes) => all.extend(changes),
                Err(why) => drop(self.unreadable.insert(stream.to_string(), why)),
            }
        }
        Ok(all)
    }

    async fn run(mut self, changes: CommitChanges) {
        self.dispatch(changes).await;
        loop {
            let Some(inputs) = self.receive().await else { return };
            let (mut stop, mut lost, mut queries) = (None, Vec::new(), Vec::new());
            let mut asked = std::mem::take(&mut self.early_answers);
            asked.append(&mut self.kept_reports);
            let mut observed = std::mem::take(&mut self.backlog);
            for input in inputs {
                match input {
                    OwnerInput::Request(one) => asked.push(*one),
                    OwnerInput::Query(query) => queries.push(query),
                    OwnerInput::Observed(observation) => observed.push(observation),
                    OwnerInput::CaughtUp(launch) => drop(self.catching_up.launches.remove(&launch)),
                    OwnerInput::EffectLost(subject, key) => lost.push((subject, key)),
                    OwnerInput::Stop(done) => stop = Some(done),
                }
            }
            let now = self.clock.now();
            let is_early = |one: &PendingRequest| self.catching_up.is_early(&one.request, now);
            let (early, asked) = asked.into_iter().partition(is_early);
            self.early_answers = early;
            self.answer_queries(queries, &observed);
            self.handle_batch(asked, observed).await;
            for (subject, key) in lost {
                self.redispatch(subject, &key).await;
            }
            if let Some(done) = stop {
                // The owner stops even if the caller is no longer waiting for it.
                done.send(()).ok();
                return;
            }
        }
    }

    /// Waits for inputs, and returns all that have arrived. `None` when all senders are gone.
    async fn receive(&mut self) -> Option<Vec<OwnerInput>> {
        let mut inputs = Vec::new();
        let wait = self.time_until_next();
        tokio::select! {
            biased;
            count = self.inputs.recv_many(&mut inputs, MAX_BATCH) => {
                if count == 0 {
                    return None;
                }
            }
            () = sleep(wait) => return Some(inputs),
        }
        if self.answered >= MIN_GATHER_REPLIES && inputs.len() < self.answered {
            self.wait_for_callers(&mut inputs);
        }
        Some(inputs)
    }

    /// Waits briefly for further inputs from the callers that were answered last.
    #[expect(
        clippy::disallowed_methods,
        reason = "the runtime's own clock is too coarse, and nothing else runs in this thread"
    )]
    fn wait_for_callers(&mut self, inputs: &mut Vec<OwnerInput>) {
        thread::sleep(GATHER_TIME);
        while inputs.len() < MAX_BATCH
            && let Ok(input) = self.inputs.try_recv()
        {
            inputs.push(input);
        }
    }

    fn time_until_next(&self) -> Option<Duration> {
        let now = self.clock.now();
        let catching_up = (!self.catching_up.is_over(now)).then_some(self.catching_up.until);
        let due = self.board.next_deadline().map(|at| {
            let at = catching_up.map_or(at, |until| at.max(until));
            Duration::from_millis(at.saturating_sub(now.mono_ms))
        });
        let kept = (!self.early_answers.is_empty()).then(|| {
            Duration::from_millis(self.catching_up.answers_from().saturating_sub(now.mono_ms))
        });
        let due = [due, kept].into_iter().flatten().min();
        let unwritten = !self.backlog.is_empty() || !self.kept_reports.is_empty();
        let again = unwritten.then_some(WRITE_RETRY_DELAY);
        match (due, again) {
            // While the ledger cannot be written, deadlines have no effect either.
            (_, Some(again)) => Some(again),
            (due, None) => due,
        }
    }

    /// Answers queries from durable state, before the observations that arrived with them.
    fn answer_queries(&mut self, queries: Vec<Query>, observed: &[Observation]) {
        if !queries.is_empty() {
            self.preview = self.preview_sessions(observed);
        }
        for query in queries {
            query(self);
        }
    }

    async fn handle_batch(&mut self, changes: Vec<PendingRequest>, observed: Vec<Observation>) {
        let loaded = self.load_needed(&changes, &observed);
        self.answered = changes.len();
        self.decide_and_commit(changes, observed).await;
        self.evict(&loaded);
    }

    /// Evicts subjects that were loaded for a single batch.
    pub(super) fn evict(&mut self, loaded: &[Subject]) {
        for subject in loaded {
            self.board.evict(*subject);
        }
    }

    /// Decides on all inputs and commits them together. A change that cannot be recorded is refused separately, so that
    /// an excessive change to one session never delays the events of other sessions.
    async fn decide_and_commit(
        &mut self,
        changes: Vec<PendingRequest>,
        observed: Vec<Observation>,
    ) {
        let decided = self.decide(&changes, &observed);
        match self.commit(decided.staged).await {
            Ok(()) => send_replies(changes, decided.replies),
            Err(AppendError::Invalid(_)) if changes.len() + observed.len() > 1 => {
                for one in observed {
                    self.decide_and_commit_one(Vec::new(), vec![one]).await;
                }
                for one in changes {
                    self.decide_and_commit_one(vec![one], Vec::new()).await;
                }
            }
            Err(why) => {
                let invalid = matches!(why, AppendError::Invalid(_));
                let failure = if invalid { too_large_error(&why) } else { write_error(&why) };
                for (one, reply) in changes.into_iter().zip(decided.replies) {
                    let keeps = reply.is_ok() && !invalid && self.may_keep_report(&one.request);
                    let failure = if keeps { report_kept_error(&why) } else { failure.clone() };
                    let PendingRequest { request: ask, actor, key, reply: asker } = one;
                    // The caller may be gone. In that case, no reply is needed.
                    drop(asker.send(reply.and(Err(failure))));
                    if keeps {
                        let unused = tokio::sync::oneshot::channel().0;
                        self.kept_reports.push(PendingRequest {
                            request: ask,
                            actor,
                            key,
                            reply: unused,
                        });
                    }
                }
                if !invalid {
                    self.backlog.extend(observed);
                }
            }
        }
    }

    /// Whether the request is an agent's report, which is kept until there is disk space because
    /// the agent may not send it again.
    fn may_keep_report(&self, ask: &EngineRequest) -> bool {
        let from_agent = matches!(
            ask,
            EngineRequest::Report { from: Reporter::Launch(_) | Reporter::DropBox(_), .. }
        );
        from_agent && self.kept_reports.len() < MAX_KEPT_REPORTS
    }

    async fn decide_and_commit_one(
        &mut self,
        changes: Vec<PendingRequest>,
        observed: Vec<Observation>,
    ) {
        Box::pin(self.decide_and_commit(changes, observed)).await;
    }

    /// Begins a transaction that applies deadlines only up to the time that has been observed.
    pub(super) fn begin_turn(&self) -> BoardTransaction<'_> {
        let now = self.clock.now();
        self.board.begin_observing(now, self.catching_up.reached(now))
    }

    /// Decides on all inputs against a single set of drafts.
    fn decide(&self, changes: &[PendingRequest], observed: &[Observation]) -> DecidedBatch {
        let mut turn = self.begin_turn();
        for observation in observed {
            apply_observation(&mut turn, observation);
        }
        for id in self.board.teams.due(turn.reached().mono_ms) {
            turn.advance_team(id);
        }
        for id in self.board.sessions.due(turn.reached().mono_ms) {
            turn.apply_deadline(id, |launch| self.last_heard(launch));
        }
        let mut replies = Vec::new();
        let mut keys: HashMap<String, String> = HashMap::new();
        for one in changes {
            let key = self.scoped_key(one);
            let known = key.as_ref().and_then(|key| self.find_reply(key, &keys));
            // One key identifies one message, regardless of its text. The team itself compares the texts.
            let known = known.filter(|reply| idempotency::is_answered_by(&one.request, reply));
            let reply = match known {
                Some(reply) => self.repeated_reply(&turn, &one.request, &reply),
                None => self.apply_request(&mut turn, &one.request, &one.actor).inspect(|reply| {
                    if let Some(key) = &key {
                        let kept = idempotency::encode_reply(&one.request, reply);
                        keys.insert(key.clone(), kept.clone());
                        turn.store_reply(key.clone(), kept);
                    }
                }),
            };
            replies.push(reply);
        }
        DecidedBatch { staged: turn.stage(), replies }
    }

    /// Qualifies a key with its team, because the same key may be used for another team.
    fn scoped_key(&self, one: &PendingRequest) -> Option<String> {
        let key = one.key.as_ref()?;
        let task = self.team_of_request(&one.request);
        Some(task.map_or_else(|| key.clone(), |task| format!("{key}/{task}")))
    }

    fn find_reply(&self, key: &str, now: &HashMap<String, String>) -> Option<String> {
        now.get(key).cloned().or_else(|| self.ledger.stored_reply(key).ok().flatten())
    }

    /// Returns when a launch last produced output, if that was since the daemon started.
    pub(super) fn last_heard(&self, launch: LaunchId) -> Option<u64> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).get(&launch).copied()
    }

    /// Makes the decisions durable, then applies, publishes and dispatches them.
    async fn commit(
        &mut self,
        staged: Option<(WriteBatch, StagedDrafts)>,
    ) -> Result<(), AppendError> {
        let Some((batch, staged)) = staged else { return Ok(()) };
        failpoint::pass("commit.before");
        let appended = self.ledger.append(batch);
        self.write_shortage = appended.as_ref().err().and_then(|why| self.shortage_of_write(why));
        let committed = appended?;
        failpoint::pass("commit.after");
        let changes = self.board.commit(staged, &committed);
        self.publish(committed, &changes.states);
        self.dispatch(changes).await;
        Ok(())
    }
}

struct DecidedBatch {
    staged: Option<(WriteBatch, StagedDrafts)>,
    replies: Vec<ChangeResult>,
}

/// Sends all replies. If a caller is gone, the decision on its request still holds.
fn send_replies(changes: Vec<PendingRequest>, replies: Vec<ChangeResult>) {
    for (one, answer) in changes.into_iter().zip(replies) {
        drop(one.reply.send(answer));
    }
}

fn launch_followed(launch: LaunchId) -> Observation {
    Observation::Session(launch.session, vec![SessionCommand::LaunchFollowed { launch }])
}

/// Makes a team reevaluate its members, because something may have happened while no daemon was running.
fn reevaluate_team(team: TeamId) -> Observation {
    Observation::Team(team, team::TeamCommand::Tick)
}

/// Decides on an observation. One that was already made, or that concerns a session that does not
/// exist, is ignored.
fn apply_observation(turn: &mut BoardTransaction<'_>, observation: &Observation) {
    match observation {
        Observation::Session(id, commands) => {
            for command in commands {
                drop(turn.command(*id, command, "provost"));
            }
        }
        Observation::Run(id, command) => drop(turn.command_run(*id, command, "provost")),
        Observation::Team(id, command) => {
            // Follow-up steps from the sessions still apply.
            drop(turn.command_team(*id, &team::TeamActor::Provost, command, "provost"));
            turn.advance_team(*id);
        }
    }
}

/// Returns the launch that an effect follows.
fn followed_launch(effect: &SessionEffect) -> Option<LaunchId> {
    match effect {
        SessionEffect::Follow(launch) => Some(*launch),
        SessionEffect::PrepareWork { .. }
        | SessionEffect::RunSetup { .. }
        | SessionEffect::StartLaunch(_)
        | SessionEffect::StopLaunch(..)
        | SessionEffect::Deliver { .. }
        | SessionEffect::PressAgain { .. }
        | SessionEffect::TakeSnapshot { .. }
        | SessionEffect::RunCheck { .. }
        | SessionEffect::RunHook(_) => None,
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
