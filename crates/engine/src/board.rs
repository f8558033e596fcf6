//! The board: every open session, run and team, held in memory by a single owner.
//!
//! A [`BoardTransaction`] collects decisions as drafts. [`BoardTransaction::stage`] returns the
//! batch for the ledger. [`Board::commit`] applies the drafts, which requires the ledger's
//! [`CommittedBatch`], and only then returns effects.

mod teams;
#[cfg(test)]
mod tests;
mod tool_calls;

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{LaunchId, RunId, SessionId, TeamId},
    lifecycle::State,
    run::{self, Run, RunAdvanceContext, RunOpened, RunSpec, RunStep, RunStopped, SessionOrder},
    session::{
        DeadlineKind, EffectKey, Event, ExternalAgent, LimitSlot, Session, SessionCommand,
        SessionEffect, SessionOpened, SessionRejection, SessionSpec,
    },
    team,
    time::Moment,
};
use provost_ledger::{CommittedBatch, IdempotentReply, StreamWrite, WriteBatch};

use self::teams::{BoardTeams, TeamDraft};
pub use self::tool_calls::CallResult;
use crate::{
    limit_queue::{LimitQueue, ResumeSlot},
    projection, search_terms, stream,
};

/// If one decision causes more follow-up events than this, the rules do not converge.
const MAX_FOLLOW_UPS: usize = 1024;

/// All open sessions, runs and teams.
#[derive(Debug, Default)]
pub struct Board {
    sessions: BTreeMap<SessionId, LoadedSession>,
    runs: BTreeMap<RunId, LoadedRun>,
    tasks: BoardTeams,
    deadlines: BTreeSet<(u64, SessionId)>,
    /// How to invoke Provost in commands that are shown to team members.
    caller: team::ProvostInvocation,
}

#[derive(Debug)]
struct LoadedSession {
    session: Session,
    version: u64,
    effects: BTreeMap<EffectKey, SessionEffect>,
    deadline: Option<(u64, DeadlineKind)>,
}

#[derive(Debug)]
struct LoadedRun {
    run: Run,
    version: u64,
    effects: BTreeMap<EffectKey, run::RunEffect>,
}

/// The effects that a commit starts and cancels.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CommitChanges {
    pub changed_sessions: Vec<SessionId>,
    pub start_effects: Vec<(SessionId, SessionEffect)>,
    pub cancel_effects: Vec<(SessionId, EffectKey)>,
    pub start_run_effects: Vec<(RunId, run::RunEffect)>,
    pub cancel_run_effects: Vec<(RunId, EffectKey)>,
    pub start_team_effects: Vec<(TeamId, team::TeamEffect)>,
    pub cancel_team_effects: Vec<(TeamId, EffectKey)>,
    /// The state of a session after each of its events, by session version.
    pub states: BTreeMap<(SessionId, u64), State>,
}

/// Decisions in progress. None of them takes effect before the commit.
#[derive(Debug)]
pub struct BoardTransaction<'b> {
    board: &'b Board,
    now: Moment,
    /// Deadlines are applied only up to this time, which is earlier than `now` while missed
    /// observations are still being read.
    reached: Moment,
    drafts: BTreeMap<SessionId, SessionDraft>,
    runs: BTreeMap<RunId, RunDraft>,
    tasks: BTreeMap<TeamId, TeamDraft>,
    replies: Vec<IdempotentReply>,
    /// How often the rules of teams read a session.
    #[cfg(test)]
    look_ups: std::cell::Cell<usize>,
}

#[derive(Debug)]
struct SessionDraft {
    session: Session,
    expected: u64,
    events: Vec<DraftedEvent>,
    /// Effects that reported a shortage while they were not pending.
    missed: BTreeSet<EffectKey>,
}

#[derive(Debug)]
struct RunDraft {
    run: Run,
    expected: u64,
    events: Vec<(run::Event, String)>,
}

/// An event, its actor, and the state after it.
#[derive(Debug)]
struct DraftedEvent {
    event: Event,
    actor: String,
    state: State,
}

/// Drafts that are waiting to be committed to the ledger.
#[derive(Debug)]
pub struct StagedDrafts {
    drafts: BTreeMap<SessionId, SessionDraft>,
    runs: BTreeMap<RunId, RunDraft>,
    tasks: BTreeMap<TeamId, TeamDraft>,
}

impl Board {
    /// Returns an empty board. Commands shown to members invoke Provost through `caller`.
    pub fn with_caller(caller: team::ProvostInvocation) -> Board {
        Board { caller, ..Board::default() }
    }

    /// Loads a session from the ledger. The returned changes contain its pending effects.
    pub fn load_session(&mut self, session: Session, version: u64) -> CommitChanges {
        let mut changes = CommitChanges::default();
        self.insert_session(session, version, true, &BTreeSet::new(), &mut changes);
        changes
    }

    /// Loads a run from the ledger. The returned changes contain its pending effects.
    pub fn load_run(&mut self, run: Run, version: u64) -> CommitChanges {
        let mut changes = CommitChanges::default();
        self.insert_run(run, version, true, &mut changes);
        changes
    }

    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id).map(|held| &held.run)
    }

    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(&id).map(|held| &held.session)
    }

    pub fn sessions(&self) -> impl DoubleEndedIterator<Item = &Session> {
        self.sessions.values().map(|held| &held.session)
    }

    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub fn begin(&self, now: Moment) -> BoardTransaction<'_> {
        self.begin_observing(now, now)
    }

    /// Begins a transaction that applies deadlines only up to `reached`, so that nothing ends
    /// because a deadline passed while the daemon was down.
    pub fn begin_observing(&self, now: Moment, reached: Moment) -> BoardTransaction<'_> {
        let (drafts, runs, tasks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        BoardTransaction {
            board: self,
            now,
            reached,
            drafts,
            runs,
            tasks,
            replies: Vec::new(),
            #[cfg(test)]
            look_ups: Default::default(),
        }
    }

    /// Returns the earliest deadline, in monotonic milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        let of_sessions = self.deadlines.first().map(|(at, _)| *at);
        of_sessions.into_iter().chain(self.next_team_deadline()).min()
    }

    /// Returns the sessions whose deadline has passed.
    pub fn due(&self, now: Moment) -> Vec<SessionId> {
        self.deadlines
            .iter()
            .take_while(|(at, _)| *at <= now.mono_ms)
            .map(|(_, session)| *session)
            .collect()
    }

    /// Applies committed drafts, and returns the effects to start and cancel.
    pub fn commit(&mut self, staged: StagedDrafts, _durable: &CommittedBatch) -> CommitChanges {
        let mut changes = CommitChanges::default();
        for (id, draft) in staged.drafts {
            let version = draft.expected + draft.events.len() as u64;
            let states = draft.events.iter().map(|one| one.state);
            changes.states.extend((draft.expected + 1..).map(|version| (id, version)).zip(states));
            let given_up = draft.abandoned_effects();
            self.insert_session(draft.session, version, false, &given_up, &mut changes);
            changes.changed_sessions.push(id);
        }
        for draft in staged.runs.into_values() {
            let version = draft.expected + draft.events.len() as u64;
            self.insert_run(draft.run, version, false, &mut changes);
        }
        for draft in staged.tasks.into_values() {
            self.commit_team(draft, &mut changes);
        }
        changes
    }

    /// Evicts a session if it is closed.
    pub fn evict_session(&mut self, id: SessionId) {
        if self.sessions.get(&id).is_some_and(|held| held.session.is_closed()) {
            self.sessions.remove(&id);
        }
    }

    /// Evicts a run if it is closed.
    pub fn evict_run(&mut self, id: RunId) {
        if self.runs.get(&id).is_some_and(|held| held.run.is_closed()) {
            self.runs.remove(&id);
        }
    }

    fn insert_run(
        &mut self,
        run: Run,
        version: u64,
        keep_closed: bool,
        changes: &mut CommitChanges,
    ) {
        let id = run.id;
        let effects = run.effects();
        let effects: BTreeMap<EffectKey, run::RunEffect> =
            effects.into_iter().map(|effect| (effect.key(), effect)).collect();
        let before = self.runs.remove(&id).map(|held| held.effects).unwrap_or_default();
        let started = effects.iter().filter(|(key, _)| !before.contains_key(*key));
        changes.start_run_effects.extend(started.map(|(_, effect)| (id, effect.clone())));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        changes.cancel_run_effects.extend(ended.map(|key| (id, key.clone())));
        if !run.is_closed() || keep_closed {
            self.runs.insert(id, LoadedRun { run, version, effects });
        }
    }

    /// Keeps a session, or evicts it once it is closed. If an effect was abandoned because of a
    /// shortage but is still pending, it is started again, because no worker is handling it
    /// anymore.
    fn insert_session(
        &mut self,
        session: Session,
        version: u64,
        keep_closed: bool,
        given_up: &BTreeSet<EffectKey>,
        changes: &mut CommitChanges,
    ) {
        let id = session.id;
        let effects = session.effects();
        let effects: BTreeMap<EffectKey, SessionEffect> =
            effects.into_iter().map(|effect| (effect.key(), effect)).collect();
        let before = self.sessions.remove(&id);
        if let Some((at, _)) = before.as_ref().and_then(|held| held.deadline) {
            self.deadlines.remove(&(at, id));
        }
        let before = before.map(|held| held.effects).unwrap_or_default();
        let under_way = |key: &EffectKey| before.contains_key(key) && !given_up.contains(key);
        let started = effects.iter().filter(|(key, _)| !under_way(key));
        changes.start_effects.extend(started.map(|(_, effect)| (id, effect.clone())));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        changes.cancel_effects.extend(ended.map(|key| (id, key.clone())));
        if session.is_closed() && !keep_closed {
            return;
        }
        let deadline = session.deadline();
        if let Some((at, _)) = deadline {
            self.deadlines.insert((at, id));
        }
        self.sessions.insert(id, LoadedSession { session, version, effects, deadline });
    }
}

impl BoardTransaction<'_> {
    /// Returns the time of the transaction.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Returns the time up to which deadlines are applied.
    pub fn reached(&self) -> Moment {
        self.reached
    }

    /// Returns the session that an adopted agent already belongs to. This includes sessions opened
    /// in this transaction.
    pub fn has_agent(&self, adopted: &ExternalAgent) -> Option<&Session> {
        let held = self.board.sessions().filter(|one| !self.drafts.contains_key(&one.id));
        let drafted = self.drafts.values().map(|draft| &draft.session);
        held.chain(drafted).find(|session| session.has_agent(adopted))
    }

    /// Opens a session.
    pub fn open(&mut self, id: SessionId, spec: SessionSpec, actor: &str) -> &Session {
        let opened = SessionOpened { spec: Box::new(spec) };
        let session = Session::open(id, self.now, &opened);
        let state = session.state();
        let events = vec![DraftedEvent { event: opened.into(), actor: actor.to_owned(), state }];
        let mut draft = SessionDraft { session, expected: 0, events, missed: BTreeSet::new() };
        draft.advance(self.now, self.reached, actor);
        &self.drafts.entry(id).or_insert(draft).session
    }

    /// Opens a run and applies its first follow-up steps.
    pub fn open_run(&mut self, id: RunId, spec: RunSpec, actor: &str) -> Option<&Run> {
        let opened = RunOpened { spec: Box::new(spec) };
        let run = Run::open(id, self.now, &opened);
        let events = vec![(opened.into(), actor.to_owned())];
        self.runs.entry(id).or_insert(RunDraft { run, expected: 0, events });
        self.advance_run(id, actor);
        self.run(id)
    }

    /// Decides on a command to a run on the board. Returns the run as it would be afterwards.
    pub fn command_run(
        &mut self,
        id: RunId,
        command: &run::RunCommand,
        actor: &str,
    ) -> Option<Result<&Run, run::RunRejection>> {
        let events = match self.run(id)?.decide(command) {
            Ok(events) => events,
            Err(why) => return Some(Err(why)),
        };
        for event in events {
            self.add_run_event(id, event, actor);
        }
        self.advance_run(id, actor);
        self.share_free_slot(id);
        self.run(id).map(Ok)
    }

    /// Counts the agents that are working for all other runs.
    fn agents_of_other_runs(&self, id: RunId) -> usize {
        let held = self.board.runs.keys().filter(|run| !self.runs.contains_key(run));
        let others = held.chain(self.runs.keys()).filter(|run| **run != id);
        others.filter_map(|run| self.run(*run)).map(Run::agents_at_work).sum()
    }

    /// Offers the slot freed by a finished agent to other runs, oldest first.
    fn share_free_slot(&mut self, id: RunId) {
        let at_work = |run: Option<&Run>| run.map_or(0, Run::agents_at_work);
        if at_work(self.run(id)) >= at_work(self.board.run(id)) {
            return;
        }
        let others: Vec<RunId> = self.board.runs.keys().copied().filter(|run| *run != id).collect();
        for other in others {
            self.advance_run(other, "provost");
        }
    }

    /// Returns a run as it would be after the decisions so far.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id).map(|draft| &draft.run).or_else(|| self.board.run(id))
    }

    /// Returns another run with this name that is not sealed yet, as it would be after the
    /// decisions so far.
    pub fn open_run_named(&self, name: &str, own: RunId) -> Option<&Run> {
        let held = self.board.runs.iter().filter(|(id, _)| !self.runs.contains_key(id));
        let held = held.map(|(_, held)| &held.run);
        let mut runs = held.chain(self.runs.values().map(|draft| &draft.run));
        runs.find(|run| run.id != own && !run.is_sealed() && run.spec.name == name)
    }

    fn add_run_event(&mut self, id: RunId, event: run::Event, actor: &str) {
        let now = self.now;
        if !self.runs.contains_key(&id) {
            let Some(held) = self.board.runs.get(&id) else { return };
            let (run, expected) = (held.run.clone(), held.version);
            self.runs.insert(id, RunDraft { run, expected, events: Vec::new() });
        }
        if let Some(draft) = self.runs.get_mut(&id) {
            draft.run.evolve(now, &event);
            draft.events.push((event, actor.to_owned()));
        }
    }

    /// Applies follow-up steps of a run and its sessions until none remain.
    fn advance_run(&mut self, id: RunId, actor: &str) {
        for _ in 0..MAX_FOLLOW_UPS {
            let step = self.run(id).and_then(|run| {
                let look = |session| self.session(session);
                let (now, elsewhere) = (self.reached, self.agents_of_other_runs(id));
                run.advance(&RunAdvanceContext { now, other_agents: elsewhere, session: &look })
            });
            match step {
                None => return,
                Some(RunStep::Event(event)) => self.add_run_event(id, event, actor),
                Some(RunStep::EventAndOrder(event, SessionOrder::Open(session, spec))) => {
                    self.add_run_event(id, event, actor);
                    self.open(session, *spec, actor);
                }
                Some(RunStep::EventAndOrder(event, SessionOrder::Command(session, command))) => {
                    match self.decide(session, &command, actor) {
                        Some(Ok(_)) => self.add_run_event(id, event, actor),
                        refused => {
                            self.add_run_event(id, stopped_by_refusal(refused).into(), actor)
                        }
                    }
                }
                Some(RunStep::Command(session, command)) => {
                    // If the session rejects the command now, it receives the command again once it
                    // has changed.
                    let Some(Ok(_)) = self.decide(session, &command, actor) else { return };
                }
            }
        }
        unreachable!("the rules of a run converge: {:?}", self.run(id));
    }

    /// Decides on a command to a session on the board. Returns the session as it would be afterwards.
    pub fn command(
        &mut self,
        id: SessionId,
        command: &SessionCommand,
        actor: &str,
    ) -> Option<Result<(&Session, Vec<Event>), SessionRejection>> {
        if let Some(run) = self.run_done_with_session(id, command) {
            return Some(Err(SessionRejection::BelongsToRun(run)));
        }
        let events = match self.decide(id, command, actor)? {
            Ok(events) => events,
            Err(why) => return Some(Err(why)),
        };
        self.answer_calls(id);
        if let Some(run) = self.session(id).and_then(|session| session.spec.run) {
            self.advance_run(run.run, "provost");
            self.share_free_slot(run.run);
        }
        self.advance_teams_of(id);
        self.session(id).map(|session| Ok((session, events)))
    }

    /// Returns the run that no longer needs the session, if the command would give the session an
    /// instruction. Only the run may resume such a session. Otherwise, a message that arrives as
    /// the session ends would start work outside the run that is not counted and cannot be
    /// cancelled.
    fn run_done_with_session(&self, id: SessionId, command: &SessionCommand) -> Option<RunId> {
        let ended = self.session(id).filter(|session| session.attempt().is_sealed())?;
        let of_run = ended.spec.run?;
        matches!(command, SessionCommand::Send { .. }).then_some(of_run.run)
    }

    /// Decides on a command and applies the follow-up events of the session itself.
    fn decide(
        &mut self,
        id: SessionId,
        command: &SessionCommand,
        actor: &str,
    ) -> Option<Result<Vec<Event>, SessionRejection>> {
        let (now, reached) = (self.now, self.reached);
        let session = self.session(id)?;
        let events = match session.decide(command, now) {
            Ok(events) => events,
            Err(why) => {
                self.note_missed(id, command);
                return Some(Err(why));
            }
        };
        let waited = session.limit_wait().cloned();
        let draft = self.draft(id)?;
        for event in &events {
            draft.add(now, event.clone(), actor);
        }
        let waits = draft.session.limit_wait().cloned();
        if waits.is_some() && waits != waited {
            self.update_slots(id, |queue| queue.slots_after_limit());
        }
        let draft = self.draft(id)?;
        let released = draft.session.released_ms;
        draft.advance(now, reached, actor);
        if draft.session.released_ms != released {
            self.update_slots(id, |queue| queue.slots_after_resume());
        }
        Some(Ok(events))
    }

    /// Moves the resume slots that are affected by a change to a session waiting for a limit.
    fn update_slots(
        &mut self,
        id: SessionId,
        changed: impl Fn(&LimitQueue<'_>) -> Vec<ResumeSlot>,
    ) {
        let all = self.board.sessions.keys().filter_map(|id| self.session(*id));
        let queue =
            self.session(id).and_then(|subject| LimitQueue::for_subject(subject, all, self.now));
        let slots = queue.map(|queue| changed(&queue)).unwrap_or_default();
        let now = self.now;
        for (id, at_ms) in slots {
            if let Some(draft) = self.draft(id) {
                draft.add(now, LimitSlot { at_ms }.into(), "provost");
            }
        }
    }

    /// Applies a deadline that has passed to a session. `heard` returns when a launch's stream last
    /// produced output.
    pub fn apply_deadline(&mut self, id: SessionId, heard: impl Fn(LaunchId) -> Option<u64>) {
        let Some((_, due)) = self.session(id).and_then(Session::deadline) else { return };
        let command = match due {
            DeadlineKind::Silence(launch) => {
                let recorded = self
                    .session(id)
                    .and_then(|session| session.launch(launch))
                    .map_or(0, |launch| launch.stream.last_heard.mono_ms);
                SessionCommand::Silence {
                    launch,
                    heard_ms: heard(launch).unwrap_or(0).max(recorded),
                }
            }
            DeadlineKind::TimeLimit
            | DeadlineKind::StreamSettle
            | DeadlineKind::Escalation
            | DeadlineKind::Seal
            | DeadlineKind::LimitLifted
            | DeadlineKind::Handshake
            | DeadlineKind::ApprovalExpiry
            | DeadlineKind::InputConfirmation
            | DeadlineKind::Reaction
            | DeadlineKind::Compaction
            | DeadlineKind::OwnTurn
            | DeadlineKind::Retry => SessionCommand::Tick,
        };
        // If a silence is rejected, the stream produced output in the meantime, so there is nothing
        // to record.
        drop(self.command(id, &command, "provost"));
    }

    /// Returns a session as it would be after the decisions so far.
    pub fn session(&self, id: SessionId) -> Option<&Session> {
        self.drafts.get(&id).map(|draft| &draft.session).or_else(|| self.board.session(id))
    }

    /// Returns the sessions that the decisions so far would change.
    pub fn changed(&self) -> impl Iterator<Item = &Session> {
        self.drafts.values().filter(|draft| !draft.events.is_empty()).map(|draft| &draft.session)
    }

    /// Stores a reply under the idempotency key of its command.
    pub fn store_reply(&mut self, key: String, reply: String) {
        self.replies.push(IdempotentReply { key, reply });
    }

    /// Ends the transaction. Returns the batch for the ledger and the drafts to commit with it, or
    /// `None` if nothing changed.
    pub fn stage(self) -> Option<(WriteBatch, StagedDrafts)> {
        let mut drafts = self.drafts;
        drafts.retain(|_, draft| !draft.events.is_empty());
        let mut runs = self.runs;
        runs.retain(|_, draft| !draft.events.is_empty());
        let mut tasks = self.tasks;
        tasks.retain(|_, draft| !draft.is_empty());
        let changed = !drafts.is_empty() || !runs.is_empty() || !tasks.is_empty();
        if !changed && self.replies.is_empty() {
            return None;
        }
        let of_runs = runs.values().map(RunDraft::write);
        let of_tasks = tasks.values().map(TeamDraft::write);
        let writes =
            drafts.values().map(SessionDraft::write).chain(of_runs).chain(of_tasks).collect();
        let at = stream::to_ledger(self.now);
        Some((
            WriteBatch { at, writes, idempotency: self.replies },
            StagedDrafts { drafts, runs, tasks },
        ))
    }

    /// Records that an effect encountered a shortage while it was not pending. If the effect
    /// becomes pending again in the same commit, nothing else would show that no task is handling
    /// it.
    fn note_missed(&mut self, id: SessionId, command: &SessionCommand) {
        if let (SessionCommand::EffectShortage { effect, .. }, Some(draft)) =
            (command, self.drafts.get_mut(&id))
            && !draft.session.effects().iter().any(|pending| pending.key() == *effect)
        {
            draft.missed.insert(effect.clone());
        }
    }

    fn draft(&mut self, id: SessionId) -> Option<&mut SessionDraft> {
        if !self.drafts.contains_key(&id) {
            let held = self.board.sessions.get(&id)?;
            let session = held.session.clone();
            let (expected, events, missed) = (held.version, Vec::new(), BTreeSet::new());
            self.drafts.insert(id, SessionDraft { session, expected, events, missed });
        }
        self.drafts.get_mut(&id)
    }
}

impl SessionDraft {
    fn add(&mut self, at: Moment, event: Event, actor: &str) {
        self.session.evolve(at, &event);
        let state = self.session.state();
        self.events.push(DraftedEvent { event, actor: actor.to_owned(), state });
    }

    /// Returns the effects that were abandoned because of a shortage.
    fn abandoned_effects(&self) -> BTreeSet<EffectKey> {
        let given_up = self.events.iter().filter_map(|one| {
            let Event::EffectShortage(short) = &one.event else { return None };
            Some(short.effect.clone())
        });
        given_up.chain(self.missed.iter().cloned()).collect()
    }

    /// Applies follow-up events until none remain.
    fn advance(&mut self, now: Moment, reached: Moment, actor: &str) {
        for _ in 0..MAX_FOLLOW_UPS {
            let Some(event) = self.session.advance(reached) else { return };
            self.add(now, event, actor);
        }
        unreachable!("the rules of a session converge: {:?}", self.events.last());
    }

    fn write(&self) -> StreamWrite {
        let after = self.expected + self.events.len() as u64;
        let due = self.expected / stream::SNAPSHOT_EVERY != after / stream::SNAPSHOT_EVERY;
        StreamWrite {
            stream: stream::session_stream_id(self.session.id),
            expected: self.expected,
            events: self
                .events
                .iter()
                .map(|one| stream::new_session_event(&one.event, &one.actor))
                .collect(),
            open: !self.session.is_closed(),
            pending: stream::pending_effects(&self.session),
            projection: Some(projection::session::to_json(&self.session)),
            search_terms: Some(search_terms::session_terms(&self.session)),
            snapshot: due.then(|| stream::session_snapshot(&self.session)),
        }
    }
}

impl RunDraft {
    fn write(&self) -> StreamWrite {
        let after = self.expected + self.events.len() as u64;
        let due = self.expected / stream::SNAPSHOT_EVERY != after / stream::SNAPSHOT_EVERY;
        let recorded = |(event, actor): &(run::Event, String)| stream::new_run_event(event, actor);
        StreamWrite {
            stream: stream::run_stream_id(self.run.id),
            expected: self.expected,
            events: self.events.iter().map(recorded).collect(),
            open: !self.run.is_closed(),
            pending: stream::pending_run_effects(&self.run),
            projection: Some(projection::run::to_json(&self.run)),
            search_terms: Some(search_terms::run_terms(&self.run)),
            snapshot: due.then(|| stream::run_snapshot(&self.run)),
        }
    }
}

/// Stops a run because one of its sessions rejected a command.
fn stopped_by_refusal(refused: Option<Result<Vec<Event>, SessionRejection>>) -> RunStopped {
    let detail = match refused {
        Some(Err(why)) => format!("could not resume its session: {why}"),
        Some(Ok(_)) | None => "could not resume its session".to_owned(),
    };
    RunStopped { cause: run::RunFailureCause::Work, detail }
}
