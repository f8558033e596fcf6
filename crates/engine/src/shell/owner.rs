//! The owner: one thread that holds the board and writes to the ledger.
//!
//! All inputs that arrive during a commit are decided and committed together, so even many writers
//! cause only a few commits. No reply is sent and no effect starts before its events are durable.

mod loading;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use provost_agent::Adapters;
use provost_api::{ApiError, CallReply, ErrorCode, EventRow, Hint, OpenSessionReply};
use provost_core::{
    ids::{LaunchId, SessionId, TeamId},
    lifecycle::State,
    run::Run,
    session::{
        AgentInterface, AgentMessage, Reporter, Session, SessionCommand, SessionEffect,
        SessionRejection, report_status_of,
    },
    shortage::Shortage,
    team::{self, Team},
};
use provost_ledger::{
    AppendError, CommittedBatch, Ledger, ReadLedger, RecordedEvent, SqliteLedger, StoredSnapshot,
    StreamId, WriteBatch,
};
use serde::de::DeserializeOwned;
use tokio::sync::{broadcast, mpsc};

use super::{
    catch_up::CatchUp,
    clock::Clock,
    executor::{EffectOrder, EngineWorld, Executor},
    failpoint,
    handle::{
        ChangeResult, EngineHandle, EngineReply, EngineRequest, ObservationSender, OwnerInput,
        PendingRequest, PublishedEvents, Query, RunObservation, SessionObservation,
        TeamObservation, event_row,
    },
    home::Home,
    idempotency,
    replies::{
        already_adopted, loss_error, refused_change, refused_for_external, report_kept_error,
        report_reply, run_changed, run_name_taken, run_refused, session_changed, too_large_error,
        write_error,
    },
    secrets::Secrets,
    shortage::ShortageWaits,
    team_requests::PollCounts,
};
use crate::{
    board::{Board, BoardTransaction, CallResult, CommitChanges, StagedDrafts},
    projection,
    stream::{self, Subject},
};

/// The maximum number of inputs to decide and commit together.
const MAX_BATCH: usize = 512;

/// Callers often send their next request right after they receive a reply. If fewer inputs arrived
/// during a commit than it answered, the owner waits this long for the others, because one commit
/// for all of them costs less than two.
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

/// Folds a stream from a snapshot and the records that follow it.
type StreamFold<T> =
    fn(&StreamId, Option<&StoredSnapshot>, &[RecordedEvent]) -> Result<T, stream::Error>;

/// Observations about sessions, and results of the effects of runs and teams.
#[derive(Default)]
struct ObservationBatch {
    sessions: Vec<SessionObservation>,
    runs: Vec<RunObservation>,
    tasks: Vec<TeamObservation>,
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
    backlog: ObservationBatch,
    pub(super) unreadable: BTreeMap<String, String>,
    secrets: Secrets,
    adapters: Adapters,
    catching_up: CatchUp,
    pub(super) polls: PollCounts,
    /// How to invoke Provost in commands shown to members, wherever those members run.
    pub(super) caller: team::ProvostInvocation,
    /// Answers to launches that have not been observed yet. If the launch is dead, it cannot use them.
    early_answers: Vec<PendingRequest>,
    /// The number of requests that the last commit answered.
    answered: usize,
    pub(super) home: Home,
    pub(super) waits: ShortageWaits,
    /// The shortage that caused the last write to fail, if it failed.
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
            backlog: ObservationBatch::default(),
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
            .start_effects
            .iter()
            .filter_map(|(_, effect)| followed_launch(effect))
            .collect();
        // These are part of the first batch, before deadlines apply, so that waits for a daemon are
        // measured from now on.
        owner.backlog.sessions = launches.iter().map(|launch| launch_followed(*launch)).collect();
        owner.backlog.tasks = owner.board.teams().map(|task| reevaluate_team(task.id)).collect();
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
            match self.load(&stream) {
                Ok(changes) => {
                    all.start_effects.extend(changes.start_effects);
                    all.start_run_effects.extend(changes.start_run_effects);
                    all.start_team_effects.extend(changes.start_team_effects);
                }
                Err(why) => drop(self.unreadable.insert(stream.to_string(), why)),
            }
        }
        Ok(all)
    }

    /// Loads a session, a run or a team from the ledger onto the board.
    pub(super) fn load(&mut self, stream: &StreamId) -> Result<CommitChanges, String> {
        match stream::parse_subject(stream.as_str()).map_err(|why| why.to_string())? {
            Subject::Session(_) => {
                let (mut session, version) =
                    self.fold_stream::<Session>(stream, stream::fold_session)?;
                session.imported = self.is_imported(stream)?;
                Ok(self.board.load_session(session, version))
            }
            Subject::Run(_) => {
                let (mut run, version) = self.fold_stream::<Run>(stream, stream::fold_run)?;
                run.imported = self.is_imported(stream)?;
                Ok(self.board.load_run(run, version))
            }
            Subject::Team(_) => {
                let (task, version) = self.fold_stream::<Team>(stream, stream::fold_team)?;
                Ok(self.board.load_team(task, version))
            }
        }
    }

    fn is_imported(&self, stream: &StreamId) -> Result<bool, String> {
        self.ledger.is_imported(stream).map_err(|why| why.to_string())
    }

    fn fold_stream<T: DeserializeOwned>(
        &self,
        stream: &StreamId,
        fold: StreamFold<T>,
    ) -> Result<(T, u64), String> {
        let describe = |why: provost_ledger::Error| why.to_string();
        let snapshot = self.ledger.snapshot(stream).map_err(describe)?;
        let after = stream::usable_snapshot_version::<T>(snapshot.as_ref());
        let records = self.ledger.read_stream(stream, after).map_err(describe)?;
        let used = if after > 0 { snapshot } else { None };
        let folded = fold(stream, used.as_ref(), &records).map_err(|why| why.to_string())?;
        Ok((folded, after + records.len() as u64))
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
                    OwnerInput::Session(one) => observed.sessions.push(one),
                    OwnerInput::Run(one) => observed.runs.push(one),
                    OwnerInput::Team(one) => observed.tasks.push(one),
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
    fn answer_queries(&mut self, queries: Vec<Query>, observed: &ObservationBatch) {
        if !queries.is_empty() {
            self.preview = self.preview_sessions(&observed.sessions);
        }
        for query in queries {
            query(self);
        }
    }

    async fn handle_batch(&mut self, changes: Vec<PendingRequest>, observed: ObservationBatch) {
        let loaded = self.load_needed(&changes, &observed);
        self.answered = changes.len();
        self.decide_and_commit(changes, observed).await;
        self.evict(&loaded);
    }

    /// Evicts subjects that were loaded for a single batch.
    pub(super) fn evict(&mut self, loaded: &[Subject]) {
        for subject in loaded {
            match subject {
                Subject::Session(id) => self.board.evict_session(*id),
                Subject::Run(id) => self.board.evict_run(*id),
                Subject::Team(id) => self.board.evict_team(*id),
            }
        }
    }

    /// Decides on all inputs and commits them together. A change that cannot be recorded is
    /// isolated and refused on its own, so that one session's excess never delays another session's
    /// events.
    async fn decide_and_commit(
        &mut self,
        changes: Vec<PendingRequest>,
        observed: ObservationBatch,
    ) {
        let decided = self.decide(&changes, &observed);
        match self.commit(decided.staged).await {
            Ok(()) => send_replies(changes, decided.replies),
            Err(AppendError::Invalid(_)) if changes.len() + observed.len() > 1 => {
                for one in observed.split() {
                    self.decide_and_commit_one(Vec::new(), one).await;
                }
                for one in changes {
                    self.decide_and_commit_one(vec![one], ObservationBatch::default()).await;
                }
            }
            Err(why) => {
                let invalid = matches!(why, AppendError::Invalid(_));
                let failure = if invalid { too_large_error(&why) } else { write_error(&why) };
                for (one, reply) in changes.into_iter().zip(decided.replies) {
                    let keeps = reply.is_ok() && !invalid && self.may_keep_report(&one.request);
                    let failure = if keeps { report_kept_error(&why) } else { failure.clone() };
                    let PendingRequest { request: ask, actor, key, reply: asker } = one;
                    // The caller may be gone, in which case it needs no reply.
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
        observed: ObservationBatch,
    ) {
        Box::pin(self.decide_and_commit(changes, observed)).await;
    }

    /// Begins a transaction that applies deadlines only up to the time that has been observed.
    pub(super) fn begin_turn(&self) -> BoardTransaction<'_> {
        let now = self.clock.now();
        self.board.begin_observing(now, self.catching_up.reached(now))
    }

    /// Decides on all inputs against a single set of drafts.
    fn decide(&self, changes: &[PendingRequest], batch: &ObservationBatch) -> DecidedBatch {
        let mut turn = self.begin_turn();
        let observed = batch.sessions.iter();
        for (one, command) in observed.flat_map(|one| one.commands.iter().map(move |c| (one, c))) {
            // Ignore an observation that was already made, or that concerns a session that does not exist.
            drop(turn.command(one.session, command, "provost"));
        }
        for one in &batch.runs {
            drop(turn.command_run(one.run, &one.command, "provost"));
        }
        for one in &batch.tasks {
            // A result that was already recorded is ignored, but follow-up steps from the sessions
            // still apply.
            drop(turn.command_team(one.task, &team::TeamActor::Provost, &one.command, "provost"));
            turn.advance_team(one.task);
        }
        for id in self.board.due_teams(turn.reached().mono_ms) {
            turn.advance_team(id);
        }
        for id in self.board.due(turn.reached()) {
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

    fn apply_request(
        &self,
        turn: &mut BoardTransaction<'_>,
        ask: &EngineRequest,
        actor: &str,
    ) -> ChangeResult {
        if let Some(loss) = self.ledger.loss() {
            return Err(loss_error(&loss));
        }
        if let Some(why) = self.ledger.read_only() {
            return Err(
                ApiError::new(ErrorCode::ReadOnly, why.to_string()).next(Hint::ExportLedger)
            );
        }
        match ask {
            EngineRequest::Open { id, spec, warnings } => {
                self.check_adapters(spec.interfaces())?;
                let adopted = spec.adopted.as_deref();
                if let Some(other) = adopted.and_then(|adopted| turn.has_agent(adopted)) {
                    return Err(already_adopted(other));
                }
                let session = turn.open(*id, (**spec).clone(), actor);
                let row = projection::session::row(session);
                Ok(EngineReply::SessionOpened(Box::new(OpenSessionReply {
                    ok: true,
                    id: row.id.clone(),
                    session: row,
                    warnings: warnings.clone(),
                })))
            }
            EngineRequest::SessionCommand { session, command } => {
                let id = self.resolve(session)?;
                match turn.command(id, command, actor) {
                    None => Err(self.not_loaded(id)),
                    Some(Err(SessionRejection::NothingNew)) => {
                        self.session_row_reply(turn, id, session)
                    }
                    Some(Err(why)) => Err(refused_for_external(&why, turn.session(id), id)),
                    Some(Ok((session, _))) => {
                        self.keep_secret(session, command);
                        Ok(session_changed(session))
                    }
                }
            }
            EngineRequest::Report { session, from, testimony } => {
                let id = match (session, from) {
                    (None, Reporter::Launch(launch) | Reporter::DropBox(launch)) => launch.session,
                    (Some(session), Reporter::Launch(launch) | Reporter::DropBox(launch)) => {
                        self.check_own_session(session, launch)?
                    }
                    (Some(session), Reporter::Operator) => self.resolve(session)?,
                    (None, Reporter::Operator) => {
                        return Err(ApiError::new(ErrorCode::BadRequest, "no session was given")
                            .next(Hint::ReportCompletedFor));
                    }
                };
                let testimony = self.secrets.mask_testimony(id, testimony);
                let command = SessionCommand::Report { from: *from, testimony };
                match turn.command(id, &command, actor) {
                    None => Err(self.not_loaded(id)),
                    Some(Err(SessionRejection::NothingNew)) => turn
                        .session(id)
                        .map(|session| report_reply(session, "recorded"))
                        .ok_or_else(|| self.no_session(&id.to_string())),
                    Some(Err(why @ SessionRejection::ReportBudget { launch })) => {
                        // Record this, so that the session shows that reports are missing.
                        drop(turn.command(id, &SessionCommand::ReportRefused { launch }, actor));
                        Err(refused_change(&why, turn.session(id), id))
                    }
                    Some(Err(why)) => Err(refused_change(&why, turn.session(id), id)),
                    Some(Ok((session, events))) => {
                        let status = report_status_of(&events).map_or("recorded", |s| s.as_str());
                        Ok(report_reply(session, status))
                    }
                }
            }
            EngineRequest::ToolCall { launch, native, call } => {
                let id = launch.session;
                match turn.call(*launch, native, call, actor) {
                    None => Err(self.not_loaded(id)),
                    Some(Err(SessionRejection::NothingNew)) => {
                        let message = "the calling process has ended, or the call was already made";
                        Err(ApiError::new(ErrorCode::Refused, message).next(Hint::StatusOfAll))
                    }
                    Some(Err(why @ SessionRejection::ReportBudget { launch })) => {
                        drop(turn.command(id, &SessionCommand::ReportRefused { launch }, actor));
                        Err(refused_change(&why, turn.session(id), id))
                    }
                    Some(Err(why)) => Err(refused_change(&why, turn.session(id), id)),
                    Some(Ok(CallResult { ok, text })) => {
                        let (id, answer) = (id.to_string(), text);
                        let reply = CallReply { ok: true, id, accepted: ok, answer };
                        Ok(EngineReply::Call(Box::new(reply)))
                    }
                }
            }
            EngineRequest::OpenRun { id, spec } => {
                self.check_adapters([&spec.agent.interface])?;
                // The names of issues are unique only within their tracker.
                if spec.origin.is_none()
                    && let Some(other) = turn.open_run_named(&spec.name, *id)
                {
                    return Err(run_name_taken(other));
                }
                let run = turn.open_run(*id, (**spec).clone(), actor);
                run.map(run_changed).ok_or_else(|| self.no_run(&id.to_string()))
            }
            EngineRequest::RunCommand { run, command } => {
                let id = self.resolve_run(run)?;
                match turn.command_run(id, command, actor) {
                    None => Err(self.no_run(run)),
                    Some(Err(why)) => Err(run_refused(&why, &id.short())),
                    Some(Ok(run)) => Ok(run_changed(run)),
                }
            }
            EngineRequest::Team(ask) => self.change_team(turn, ask, actor),
        }
    }

    /// Checks that this build knows the adapters of all agents.
    pub(super) fn check_adapters<'a>(
        &self,
        interfaces: impl IntoIterator<Item = &'a AgentInterface>,
    ) -> Result<(), ApiError> {
        for interface in interfaces {
            self.adapters
                .get(interface)
                .map_err(|why| ApiError::new(ErrorCode::BadRequest, why.to_string()))?;
        }
        Ok(())
    }

    /// Checks that a launch which specifies a session specifies its own.
    fn check_own_session(&self, named: &str, launch: &LaunchId) -> Result<SessionId, ApiError> {
        if self.resolve(named)? == launch.session {
            return Ok(launch.session);
        }
        let message =
            format!("an agent may only report about itself; it belongs to launch {launch}");
        Err(ApiError::new(ErrorCode::Forbidden, message).next(Hint::ReportCompleted))
    }

    /// Keeps a secret answer in memory until it is delivered, because the ledger does not contain it.
    fn keep_secret(&self, session: &Session, command: &SessionCommand) {
        let SessionCommand::Answer { request, reply, .. } = command else { return };
        let answers = |message: &&AgentMessage| message.request == Some(*request);
        let asked = session.requests.iter().find(|asked| asked.id == *request);
        if let Some(message) = session.messages.iter().rev().find(answers)
            && let Some(asked) = asked.map(|request| &request.asked)
            && asked.is_secret()
        {
            let masks = self.adapters.secret_masks(&session.spec.agent.interface, asked, reply);
            self.secrets.keep(session.id, &message.key, reply, masks);
        }
    }

    /// Returns when a launch last produced output, if that was since the daemon started.
    pub(super) fn last_heard(&self, launch: LaunchId) -> Option<u64> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).get(&launch).copied()
    }

    fn session_row_reply(
        &self,
        turn: &BoardTransaction<'_>,
        id: SessionId,
        named: &str,
    ) -> ChangeResult {
        turn.session(id).map(session_changed).ok_or_else(|| self.no_session(named))
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

    async fn dispatch(&self, changes: CommitChanges) {
        for (session, key) in changes.cancel_effects {
            self.order(EffectOrder::Cancel { session, key }).await;
        }
        for (run, key) in changes.cancel_run_effects {
            self.order(EffectOrder::CancelRun { run, key }).await;
        }
        for (id, effect) in changes.start_run_effects {
            let Some(held) = self.board.run(id) else { continue };
            self.order(EffectOrder::StartRun { run: Arc::new(held.clone()), effect }).await;
        }
        for (task, key) in changes.cancel_team_effects {
            self.order(EffectOrder::CancelTeam { task, key }).await;
        }
        for (id, effect) in changes.start_team_effects {
            let Some(held) = self.board.team(id) else { continue };
            let (task, worker) = (Arc::new(held.clone()), self.worker_of(held, &effect));
            self.order(EffectOrder::StartTeam { task, worker, effect }).await;
        }
        let mut shared: HashMap<SessionId, Arc<Session>> = HashMap::new();
        for (id, effect) in changes.start_effects {
            let Some(held) = self.board.session(id) else { continue };
            let session = shared.entry(id).or_insert_with(|| Arc::new(held.clone())).clone();
            self.order(EffectOrder::Start { session, effect }).await;
        }
    }

    /// Restarts an effect that is still pending but that no task is carrying out anymore.
    async fn redispatch(&self, subject: Subject, key: &str) {
        match subject {
            Subject::Session(id) => {
                let Some(session) = self.board.session(id) else { return };
                let pending = session.effects().into_iter().find(|effect| effect.key() == key);
                if let Some(effect) = pending {
                    let session = Arc::new(session.clone());
                    self.order(EffectOrder::Start { session, effect }).await;
                }
            }
            Subject::Run(id) => {
                let Some(run) = self.board.run(id) else { return };
                let pending = run.effects().into_iter().find(|effect| effect.key() == key);
                if let Some(effect) = pending {
                    let run = Arc::new(run.clone());
                    self.order(EffectOrder::StartRun { run, effect }).await;
                }
            }
            Subject::Team(id) => {
                let Some(task) = self.board.team(id) else { return };
                let pending = task.effects().into_iter().find(|effect| effect.key() == key);
                if let Some(effect) = pending {
                    let (task, worker) = (Arc::new(task.clone()), self.worker_of(task, &effect));
                    self.order(EffectOrder::StartTeam { task, worker, effect }).await;
                }
            }
        }
    }

    /// Returns the session whose work a team's effect concerns, even if the session is closed.
    fn worker_of(&self, task: &Team, effect: &team::TeamEffect) -> Option<Arc<Session>> {
        let team::TeamEffect::RunCheck(check) = effect;
        let id = task.member(&check.worker)?.session?;
        let held = self.board.session(id).cloned();
        let stored = || {
            self.fold_stream::<Session>(&stream::session_stream_id(id), stream::fold_session).ok()
        };
        held.or_else(|| stored().map(|(session, _)| session)).map(Arc::new)
    }

    async fn order(&self, order: EffectOrder) {
        // The executor stops only together with the daemon. Effects that are pending then will be
        // pending again after the next start.
        drop(self.orders.send(order).await);
    }

    fn publish(&self, committed: CommittedBatch, states: &BTreeMap<(SessionId, u64), State>) {
        if self.events.receiver_count() == 0 {
            return;
        }
        let mut rows: Vec<EventRow> = committed.into_records().iter().map(event_row).collect();
        for row in &mut rows {
            let id = row.session.parse().ok();
            let state = id.and_then(|id| states.get(&(id, row.version)));
            row.state = state.map(|state| (*state).into());
        }
        // Sending fails without subscribers, which is fine.
        drop(self.events.send(Arc::new(rows)));
    }
}

impl ObservationBatch {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.sessions.len() + self.runs.len() + self.tasks.len()
    }

    fn extend(&mut self, more: ObservationBatch) {
        self.sessions.extend(more.sessions);
        self.runs.extend(more.runs);
        self.tasks.extend(more.tasks);
    }

    /// Splits the batch into batches with a single observation each.
    fn split(self) -> impl Iterator<Item = ObservationBatch> {
        let sessions = self.sessions.into_iter();
        let sessions = sessions
            .map(|one| ObservationBatch { sessions: vec![one], ..ObservationBatch::default() });
        let runs = self
            .runs
            .into_iter()
            .map(|one| ObservationBatch { runs: vec![one], ..ObservationBatch::default() });
        let tasks = self
            .tasks
            .into_iter()
            .map(|one| ObservationBatch { tasks: vec![one], ..ObservationBatch::default() });
        sessions.chain(runs).chain(tasks)
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

fn launch_followed(launch: LaunchId) -> SessionObservation {
    SessionObservation {
        session: launch.session,
        commands: vec![SessionCommand::LaunchFollowed { launch }],
    }
}

/// Makes a team reevaluate its members, because something may have happened while no daemon was running.
fn reevaluate_team(task: TeamId) -> TeamObservation {
    TeamObservation { task, command: team::TeamCommand::Tick }
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
