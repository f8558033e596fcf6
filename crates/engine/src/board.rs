//! The board: every open session, run and team, in memory, with one owner.
//!
//! A [`Turn`] collects decisions against drafts. [`Turn::stage`] returns the batch for the ledger.
//! Only with the ledger's [`Committed`] can [`Board::commit`] apply the drafts, and only then are
//! there effects.

mod calls;
mod tasks;

use std::collections::{BTreeMap, BTreeSet};

use provost_core::{
    ids::{LaunchId, RunId, SessionId, StandingId},
    lifecycle::State,
    run::{self, Around, Order, Run, RunOpened, RunSpec, RunStopped, Step},
    session::{
        Adopted, Command, Due, Effect, EffectKey, Event, LimitSlot, Rejected, Session,
        SessionOpened, Spec,
    },
    task,
    time::Moment,
};
use provost_ledger::{Batch, Committed, Idempotency, StreamWrite};

pub use self::calls::Outcome;
use self::tasks::{TaskDraft, Tasks};
use crate::{
    account::{Queue, Slot},
    card, run_card, stream, words,
};

/// More follow-up events than this in one decision mean that the rules do not converge.
const MAX_FOLLOW_UPS: usize = 1024;

/// All open sessions, runs and teams.
#[derive(Debug, Default)]
pub struct Board {
    sessions: BTreeMap<SessionId, Held>,
    runs: BTreeMap<RunId, HeldRun>,
    tasks: Tasks,
    deadlines: BTreeSet<(u64, SessionId)>,
    /// How Provost is called in commands that are shown to team members.
    caller: task::Caller,
}

#[derive(Debug)]
struct Held {
    session: Session,
    version: u64,
    effects: BTreeMap<EffectKey, Effect>,
    deadline: Option<(u64, Due)>,
}

#[derive(Debug)]
struct HeldRun {
    run: Run,
    version: u64,
    effects: BTreeMap<EffectKey, run::Effect>,
}

/// The effects that a commit starts and cancels.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub changed: Vec<SessionId>,
    pub start: Vec<(SessionId, Effect)>,
    pub cancel: Vec<(SessionId, EffectKey)>,
    pub start_of_runs: Vec<(RunId, run::Effect)>,
    pub cancel_of_runs: Vec<(RunId, EffectKey)>,
    pub start_of_tasks: Vec<(StandingId, task::Effect)>,
    pub cancel_of_tasks: Vec<(StandingId, EffectKey)>,
    /// The state of a session after each of its events, by its version.
    pub states: BTreeMap<(SessionId, u64), State>,
}

/// Decisions in progress. None of them applies before the commit.
#[derive(Debug)]
pub struct Turn<'b> {
    board: &'b Board,
    now: Moment,
    /// The moment up to which deadlines count: behind `now` while missed observations are still
    /// being read.
    reached: Moment,
    drafts: BTreeMap<SessionId, Draft>,
    runs: BTreeMap<RunId, RunDraft>,
    tasks: BTreeMap<StandingId, TaskDraft>,
    replies: Vec<Idempotency>,
}

#[derive(Debug)]
struct Draft {
    session: Session,
    expected: u64,
    events: Vec<Drafted>,
    /// The effects that met a shortage while they were not owed.
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
struct Drafted {
    event: Event,
    actor: String,
    state: State,
}

/// Drafts that wait for the ledger.
#[derive(Debug)]
pub struct Staged {
    drafts: BTreeMap<SessionId, Draft>,
    runs: BTreeMap<RunId, RunDraft>,
    tasks: BTreeMap<StandingId, TaskDraft>,
}

impl Board {
    /// Returns an empty board whose members call Provost like this.
    pub fn called_by(caller: task::Caller) -> Board {
        Board { caller, ..Board::default() }
    }

    /// Loads a session from the ledger. Its pending effects are in the changes.
    pub fn load(&mut self, session: Session, version: u64) -> Changes {
        let mut changes = Changes::default();
        self.hold(session, version, true, &BTreeSet::new(), &mut changes);
        changes
    }

    /// Loads a run from the ledger. Its pending effects are in the changes.
    pub fn load_run(&mut self, run: Run, version: u64) -> Changes {
        let mut changes = Changes::default();
        self.hold_run(run, version, true, &mut changes);
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

    pub fn begin(&self, now: Moment) -> Turn<'_> {
        self.begin_observing(now, now)
    }

    /// Begins a turn in which deadlines count only up to `reached`: nothing ends because a deadline
    /// passed while the daemon was down.
    pub fn begin_observing(&self, now: Moment, reached: Moment) -> Turn<'_> {
        let (drafts, runs, tasks) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Turn { board: self, now, reached, drafts, runs, tasks, replies: Vec::new() }
    }

    /// Returns the earliest deadline, in monotonic milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        let of_sessions = self.deadlines.first().map(|(at, _)| *at);
        of_sessions.into_iter().chain(self.next_task_deadline()).min()
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
    pub fn commit(&mut self, staged: Staged, _durable: &Committed) -> Changes {
        let mut changes = Changes::default();
        for (id, draft) in staged.drafts {
            let version = draft.expected + draft.events.len() as u64;
            let states = draft.events.iter().map(|one| one.state);
            changes.states.extend((draft.expected + 1..).map(|version| (id, version)).zip(states));
            let given_up = draft.given_up();
            self.hold(draft.session, version, false, &given_up, &mut changes);
            changes.changed.push(id);
        }
        for draft in staged.runs.into_values() {
            let version = draft.expected + draft.events.len() as u64;
            self.hold_run(draft.run, version, false, &mut changes);
        }
        for draft in staged.tasks.into_values() {
            self.commit_task(draft, &mut changes);
        }
        changes
    }

    /// Evicts a session that is closed.
    pub fn let_go(&mut self, id: SessionId) {
        if self.sessions.get(&id).is_some_and(|held| held.session.is_closed()) {
            self.sessions.remove(&id);
        }
    }

    /// Evicts a run that is closed.
    pub fn let_run_go(&mut self, id: RunId) {
        if self.runs.get(&id).is_some_and(|held| held.run.is_closed()) {
            self.runs.remove(&id);
        }
    }

    fn hold_run(&mut self, run: Run, version: u64, keep_closed: bool, changes: &mut Changes) {
        let id = run.id;
        let owed = run.effects();
        let effects: BTreeMap<EffectKey, run::Effect> =
            owed.into_iter().map(|effect| (effect.key(), effect)).collect();
        let before = self.runs.remove(&id).map(|held| held.effects).unwrap_or_default();
        let started = effects.iter().filter(|(key, _)| !before.contains_key(*key));
        changes.start_of_runs.extend(started.map(|(_, effect)| (id, effect.clone())));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        changes.cancel_of_runs.extend(ended.map(|key| (id, key.clone())));
        if !run.is_closed() || keep_closed {
            self.runs.insert(id, HeldRun { run, version, effects });
        }
    }

    /// Keeps a session, or evicts it once it is closed. An effect that was given up for lack of a
    /// resource and is still pending is started again, because no worker has it any more.
    fn hold(
        &mut self,
        session: Session,
        version: u64,
        keep_closed: bool,
        given_up: &BTreeSet<EffectKey>,
        changes: &mut Changes,
    ) {
        let id = session.id;
        let owed = session.effects();
        let effects: BTreeMap<EffectKey, Effect> =
            owed.into_iter().map(|effect| (effect.key(), effect)).collect();
        let before = self.sessions.remove(&id);
        if let Some((at, _)) = before.as_ref().and_then(|held| held.deadline) {
            self.deadlines.remove(&(at, id));
        }
        let before = before.map(|held| held.effects).unwrap_or_default();
        let under_way = |key: &EffectKey| before.contains_key(key) && !given_up.contains(key);
        let started = effects.iter().filter(|(key, _)| !under_way(key));
        changes.start.extend(started.map(|(_, effect)| (id, effect.clone())));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        changes.cancel.extend(ended.map(|key| (id, key.clone())));
        if session.is_closed() && !keep_closed {
            return;
        }
        let deadline = session.deadline();
        if let Some((at, _)) = deadline {
            self.deadlines.insert((at, id));
        }
        self.sessions.insert(id, Held { session, version, effects, deadline });
    }
}

impl Turn<'_> {
    /// Returns the moment up to which deadlines count.
    pub fn reached(&self) -> Moment {
        self.reached
    }

    /// Returns the session that already has an adopted agent, including sessions that this turn
    /// opens.
    pub fn has_agent(&self, adopted: &Adopted) -> Option<&Session> {
        let held = self.board.sessions().filter(|one| !self.drafts.contains_key(&one.id));
        let drafted = self.drafts.values().map(|draft| &draft.session);
        held.chain(drafted).find(|session| session.has_agent(adopted))
    }

    /// Opens a session.
    pub fn open(&mut self, id: SessionId, spec: Spec, actor: &str) -> &Session {
        let opened = SessionOpened { spec: Box::new(spec) };
        let session = Session::open(id, self.now, &opened);
        let state = session.state();
        let events = vec![Drafted { event: opened.into(), actor: actor.to_owned(), state }];
        let mut draft = Draft { session, expected: 0, events, missed: BTreeSet::new() };
        draft.follow_up(self.now, self.reached, actor);
        &self.drafts.entry(id).or_insert(draft).session
    }

    /// Opens a run and applies its first follow-ups.
    pub fn open_run(&mut self, id: RunId, spec: RunSpec, actor: &str) -> Option<&Run> {
        let opened = RunOpened { spec: Box::new(spec) };
        let run = Run::open(id, self.now, &opened);
        let events = vec![(opened.into(), actor.to_owned())];
        self.runs.entry(id).or_insert(RunDraft { run, expected: 0, events });
        self.follow_run(id, actor);
        self.run(id)
    }

    /// Decides a command about a run on the board. Returns the run as it would be.
    pub fn command_run(
        &mut self,
        id: RunId,
        command: &run::Command,
        actor: &str,
    ) -> Option<Result<&Run, run::Rejected>> {
        let events = match self.run(id)?.decide(command) {
            Ok(events) => events,
            Err(why) => return Some(Err(why)),
        };
        for event in events {
            self.add_to_run(id, event, actor);
        }
        self.follow_run(id, actor);
        self.give_room(id);
        self.run(id).map(Ok)
    }

    /// Counts the agents that work for all other runs.
    fn agents_elsewhere(&self, id: RunId) -> usize {
        let held = self.board.runs.keys().filter(|run| !self.runs.contains_key(run));
        let others = held.chain(self.runs.keys()).filter(|run| **run != id);
        others.filter_map(|run| self.run(*run)).map(Run::agents_at_work).sum()
    }

    /// Lets another run use the slot of an agent that ended. Runs that opened first are asked
    /// first.
    fn give_room(&mut self, id: RunId) {
        let at_work = |run: Option<&Run>| run.map_or(0, Run::agents_at_work);
        if at_work(self.run(id)) >= at_work(self.board.run(id)) {
            return;
        }
        let others: Vec<RunId> = self.board.runs.keys().copied().filter(|run| *run != id).collect();
        for other in others {
            self.follow_run(other, "provost");
        }
    }

    /// Returns a run as it would be after the decisions so far.
    pub fn run(&self, id: RunId) -> Option<&Run> {
        self.runs.get(&id).map(|draft| &draft.run).or_else(|| self.board.run(id))
    }

    fn add_to_run(&mut self, id: RunId, event: run::Event, actor: &str) {
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

    /// Applies the follow-ups of a run and its sessions until there are none.
    fn follow_run(&mut self, id: RunId, actor: &str) {
        for _ in 0..MAX_FOLLOW_UPS {
            let step = self.run(id).and_then(|run| {
                let look = |session| self.session(session);
                let (now, elsewhere) = (self.reached, self.agents_elsewhere(id));
                run.advance(&Around { now, elsewhere, look: &look })
            });
            match step {
                None => return,
                Some(Step::Event(event)) => self.add_to_run(id, event, actor),
                Some(Step::With(event, Order::Open(session, spec))) => {
                    self.add_to_run(id, event, actor);
                    self.open(session, *spec, actor);
                }
                Some(Step::With(event, Order::Tell(session, command))) => {
                    match self.decide(session, &command, actor) {
                        Some(Ok(_)) => self.add_to_run(id, event, actor),
                        refused => self.add_to_run(id, not_taken(refused).into(), actor),
                    }
                }
                Some(Step::Tell(session, command)) => {
                    // A session that refuses now gets the command again once it has changed.
                    let Some(Ok(_)) = self.decide(session, &command, actor) else { return };
                }
            }
        }
        unreachable!("the rules of a run converge: {:?}", self.run(id));
    }

    /// Decides a command about a session on the board. Returns the session as it would be.
    pub fn command(
        &mut self,
        id: SessionId,
        command: &Command,
        actor: &str,
    ) -> Option<Result<(&Session, Vec<Event>), Rejected>> {
        if let Some(run) = self.done_with(id, command) {
            return Some(Err(Rejected::OfRun(run)));
        }
        let events = match self.decide(id, command, actor)? {
            Ok(events) => events,
            Err(why) => return Some(Err(why)),
        };
        self.answer_calls(id);
        if let Some(run) = self.session(id).and_then(|session| session.spec.run) {
            self.follow_run(run.run, "provost");
            self.give_room(run.run);
        }
        self.follow_tasks_of(id);
        self.session(id).map(|session| Ok((session, events)))
    }

    /// Returns the run that no longer needs a session which is to get an instruction. Only the run
    /// may resume such a session. A message may cross the session's end; without this rule it would
    /// be worked on beside the run, uncounted and uncancelled.
    fn done_with(&self, id: SessionId, command: &Command) -> Option<RunId> {
        let ended = self.session(id).filter(|session| session.attempt().is_sealed())?;
        let of_run = ended.spec.run?;
        matches!(command, Command::Send { .. }).then_some(of_run.run)
    }

    /// Decides a command and applies the follow-ups of the session itself.
    fn decide(
        &mut self,
        id: SessionId,
        command: &Command,
        actor: &str,
    ) -> Option<Result<Vec<Event>, Rejected>> {
        let (now, reached) = (self.now, self.reached);
        let session = self.session(id)?;
        let events = match session.decide(command, now) {
            Ok(events) => events,
            Err(why) => {
                self.note_missed(id, command);
                return Some(Err(why));
            }
        };
        let waited = session.wait().cloned();
        let draft = self.draft(id)?;
        for event in &events {
            draft.add(now, event.clone(), actor);
        }
        let told = draft.session.wait().cloned();
        if told.is_some() && told != waited {
            self.set_slots(id, |queue| queue.told());
        }
        let draft = self.draft(id)?;
        let released = draft.session.released_ms;
        draft.follow_up(now, reached, actor);
        if draft.session.released_ms != released {
            self.set_slots(id, |queue| queue.went_on());
        }
        Some(Ok(events))
    }

    /// Moves the slots that change because a session that waits for a limit changed.
    fn set_slots(&mut self, id: SessionId, changed: impl Fn(&Queue<'_>) -> Vec<Slot>) {
        let all = self.board.sessions.keys().filter_map(|id| self.session(*id));
        let queue = self.session(id).and_then(|subject| Queue::of(subject, all, self.now));
        let slots = queue.map(|queue| changed(&queue)).unwrap_or_default();
        let now = self.now;
        for (id, at_ms) in slots {
            if let Some(draft) = self.draft(id) {
                draft.add(now, LimitSlot { at_ms }.into(), "provost");
            }
        }
    }

    /// Applies a passed deadline to a session. `heard` returns when a launch's stream was last
    /// heard.
    pub fn due(&mut self, id: SessionId, heard: impl Fn(LaunchId) -> Option<u64>) {
        let Some((_, due)) = self.session(id).and_then(Session::deadline) else { return };
        let command = match due {
            Due::Silence(launch) => {
                let recorded = self
                    .session(id)
                    .and_then(|session| session.launch(launch))
                    .map_or(0, |launch| launch.stream.heard.mono_ms);
                Command::Silence { launch, heard_ms: heard(launch).unwrap_or(0).max(recorded) }
            }
            Due::TimeLimit
            | Due::StreamSettle
            | Due::Escalation
            | Due::Seal
            | Due::LimitLifted
            | Due::Handshake
            | Due::Expiry
            | Due::Proof
            | Due::Reaction
            | Due::Compaction
            | Due::OwnTurn
            | Due::Retry => Command::Tick,
        };
        // A rejected silence means that the stream was heard meanwhile. There is nothing to record.
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
    pub fn remember(&mut self, key: String, reply: String) {
        self.replies.push(Idempotency { key, reply });
    }

    /// Closes the turn. Returns the batch for the ledger and the drafts that wait for it, or `None`
    /// if nothing changed.
    pub fn stage(self) -> Option<(Batch, Staged)> {
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
        let of_tasks = tasks.values().map(TaskDraft::write);
        let writes = drafts.values().map(Draft::write).chain(of_runs).chain(of_tasks).collect();
        let at = stream::to_ledger(self.now);
        Some((Batch { at, writes, idempotency: self.replies }, Staged { drafts, runs, tasks }))
    }

    /// Notes that an effect met a shortage while it was not owed. If it is owed again in the same commit, nothing else says
    /// that nobody is at it any more.
    fn note_missed(&mut self, id: SessionId, command: &Command) {
        if let (Command::EffectShort { effect, .. }, Some(draft)) =
            (command, self.drafts.get_mut(&id))
            && !draft.session.effects().iter().any(|owed| owed.key() == *effect)
        {
            draft.missed.insert(effect.clone());
        }
    }

    fn draft(&mut self, id: SessionId) -> Option<&mut Draft> {
        if !self.drafts.contains_key(&id) {
            let held = self.board.sessions.get(&id)?;
            let session = held.session.clone();
            let (expected, events, missed) = (held.version, Vec::new(), BTreeSet::new());
            self.drafts.insert(id, Draft { session, expected, events, missed });
        }
        self.drafts.get_mut(&id)
    }
}

impl Draft {
    fn add(&mut self, at: Moment, event: Event, actor: &str) {
        self.session.evolve(at, &event);
        let state = self.session.state();
        self.events.push(Drafted { event, actor: actor.to_owned(), state });
    }

    /// Returns the effects that were given up for lack of a resource.
    fn given_up(&self) -> BTreeSet<EffectKey> {
        let given_up = self.events.iter().filter_map(|one| {
            let Event::EffectShort(short) = &one.event else { return None };
            Some(short.effect.clone())
        });
        given_up.chain(self.missed.iter().cloned()).collect()
    }

    /// Applies follow-up events until there are none.
    fn follow_up(&mut self, now: Moment, reached: Moment, actor: &str) {
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
            stream: stream::stream_id(self.session.id),
            expected: self.expected,
            events: self
                .events
                .iter()
                .map(|one| stream::new_event(&one.event, &one.actor))
                .collect(),
            open: !self.session.is_closed(),
            owed: stream::owed(&self.session),
            card: Some(card::text(&self.session)),
            found_by: Some(words::of_session(&self.session)),
            snapshot: due.then(|| stream::snapshot(&self.session)),
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
            owed: stream::owed_by_run(&self.run),
            card: Some(run_card::text(&self.run)),
            found_by: Some(words::of_run(&self.run)),
            snapshot: due.then(|| stream::run_snapshot(&self.run)),
        }
    }
}

/// A session that refuses a run's command ends the run.
fn not_taken(refused: Option<Result<Vec<Event>, Rejected>>) -> RunStopped {
    let detail = match refused {
        Some(Err(why)) => format!("could not resume its session: {why}"),
        Some(Ok(_)) | None => "could not resume its session".to_owned(),
    };
    RunStopped { cause: run::Cause::Work, detail }
}
