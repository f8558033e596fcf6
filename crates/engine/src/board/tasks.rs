//! Teams on the board: decided together with the sessions of their members.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_core::{
    ids::{SessionId, StandingId},
    session::{self, EffectKey, Session},
    task::{
        Actor, Around, Command, Effect, Event, Member, MessageDead, Rejected, Step, Task,
        TaskOpened, TaskSpec,
    },
};
use provost_ledger::StreamWrite;

use super::{Board, Changes, MAX_FOLLOW_UPS, Turn};
use crate::{stream, task_card, words};

/// The teams of a board, and the teams that each session is bound to.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    held: BTreeMap<StandingId, HeldTask>,
    deadlines: BTreeSet<(u64, StandingId)>,
    bound: BTreeMap<SessionId, BTreeSet<StandingId>>,
}

#[derive(Debug)]
struct HeldTask {
    task: Task,
    version: u64,
    effects: BTreeMap<EffectKey, Effect>,
    deadline: Option<u64>,
}

#[derive(Debug)]
pub(super) struct TaskDraft {
    pub(super) task: Task,
    expected: u64,
    events: Vec<(Event, String)>,
}

/// Returns the sessions of the bound members.
pub(super) fn sessions(task: &Task) -> impl Iterator<Item = SessionId> {
    task.members.iter().filter(|member| member.is_bound()).filter_map(|member| member.session)
}

impl Tasks {
    fn let_go(&mut self, id: StandingId) -> Option<HeldTask> {
        let held = self.held.remove(&id)?;
        if let Some(at) = held.deadline {
            self.deadlines.remove(&(at, id));
        }
        for session in sessions(&held.task) {
            if let Some(tasks) = self.bound.get_mut(&session) {
                tasks.remove(&id);
            }
        }
        self.bound.retain(|_, tasks| !tasks.is_empty());
        Some(held)
    }

    fn hold(&mut self, task: Task, version: u64, effects: BTreeMap<EffectKey, Effect>) {
        let (id, deadline) = (task.id, task.deadline());
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
        }
        for session in sessions(&task) {
            self.bound.entry(session).or_default().insert(id);
        }
        self.held.insert(id, HeldTask { task, version, effects, deadline });
    }
}

impl Board {
    /// Loads a team from the ledger. Its pending effects are in the changes.
    pub fn load_task(&mut self, task: Task, version: u64) -> Changes {
        let mut changes = Changes::default();
        self.hold_task(task, version, true, &mut changes);
        changes
    }

    pub fn task(&self, id: StandingId) -> Option<&Task> {
        self.tasks.held.get(&id).map(|held| &held.task)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.held.values().map(|held| &held.task)
    }

    /// Returns the teams that a session is bound to.
    pub fn tasks_of(&self, session: SessionId) -> Vec<StandingId> {
        self.tasks.bound.get(&session).into_iter().flatten().copied().collect()
    }

    pub(super) fn next_task_deadline(&self) -> Option<u64> {
        self.tasks.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns the teams whose deadline has passed.
    pub fn due_tasks(&self, reached_ms: u64) -> Vec<StandingId> {
        let due = self.tasks.deadlines.iter().take_while(|(at, _)| *at <= reached_ms);
        due.map(|(_, task)| *task).collect()
    }

    /// Evicts a team that is closed.
    pub fn let_task_go(&mut self, id: StandingId) {
        if self.task(id).is_some_and(Task::is_closed) {
            self.tasks.let_go(id);
        }
    }

    pub(super) fn hold_task(
        &mut self,
        task: Task,
        version: u64,
        keep_closed: bool,
        changes: &mut Changes,
    ) {
        let id = task.id;
        let owed = task.effects();
        let effects: BTreeMap<EffectKey, Effect> =
            owed.into_iter().map(|effect| (effect.key(), effect)).collect();
        let before = self.tasks.let_go(id).map(|held| held.effects).unwrap_or_default();
        let started = effects.iter().filter(|(key, _)| !before.contains_key(*key));
        changes.start_of_tasks.extend(started.map(|(_, effect)| (id, effect.clone())));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        changes.cancel_of_tasks.extend(ended.map(|key| (id, key.clone())));
        if !task.is_closed() || keep_closed {
            self.tasks.hold(task, version, effects);
        }
    }

    pub(super) fn commit_task(&mut self, draft: TaskDraft, changes: &mut Changes) {
        let version = draft.expected + draft.events.len() as u64;
        self.hold_task(draft.task, version, false, changes);
    }
}

impl Turn<'_> {
    /// Opens a team and applies all commands to it, or does nothing at all.
    pub fn open_task(
        &mut self,
        id: StandingId,
        spec: TaskSpec,
        commands: &[Command],
        actor: &str,
    ) -> Result<&Task, Rejected> {
        self.open_task_with(id, spec, commands, &[], actor)
    }

    /// Like [`Turn::open_task`], with sessions that are about to be opened for the team.
    pub fn open_task_with(
        &mut self,
        id: StandingId,
        spec: TaskSpec,
        commands: &[Command],
        new: &[Session],
        actor: &str,
    ) -> Result<&Task, Rejected> {
        let opened = TaskOpened { spec: Box::new(spec) };
        let mut task = Task::open(id, self.now, &opened);
        let mut events: Vec<(Event, String)> = vec![(opened.into(), actor.to_owned())];
        let about_to = |id| new.iter().find(|session| session.id == id);
        let look = |session| self.session(session).or_else(|| about_to(session));
        let around = Around { now: self.now, look: &look, caller: &self.board.caller };
        for command in commands {
            for event in task.decide(&Actor::Operator, command, &around)? {
                task.evolve(self.now, &event);
                events.push((event, actor.to_owned()));
            }
        }
        let draft = self.tasks.entry(id).or_insert(TaskDraft { task, expected: 0, events });
        Ok(&draft.task)
    }

    /// Returns a team as it would be after the decisions so far.
    pub fn task(&self, id: StandingId) -> Option<&Task> {
        self.tasks.get(&id).map(|draft| &draft.task).or_else(|| self.board.task(id))
    }

    /// Returns all teams as they would be after the decisions so far, including those that this
    /// turn opens.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        let held = self.board.tasks().filter(|task| !self.tasks.contains_key(&task.id));
        held.chain(self.tasks.values().map(|draft| &draft.task))
    }

    /// Returns the events that this turn opens a team with. Empty if the team was open before.
    pub fn opening_of_task(&self, id: StandingId) -> impl Iterator<Item = &Event> {
        let draft = self.tasks.get(&id).filter(|draft| draft.expected == 0);
        draft.into_iter().flat_map(|draft| draft.events.iter().map(|(event, _)| event))
    }

    /// Decides a command about a team on the board. Returns the team as it would be, and the new
    /// events.
    pub fn command_task(
        &mut self,
        id: StandingId,
        who: &Actor,
        command: &Command,
        actor: &str,
    ) -> Option<Result<(&Task, Vec<Event>), Rejected>> {
        let look = |session| self.session(session);
        let around = Around { now: self.now, look: &look, caller: &self.board.caller };
        let task = self.task(id)?;
        let events = match task.decide(who, command, &around) {
            Ok(events) => events,
            Err(why) => {
                let kept = task.keep_refusal(who, command, &why);
                kept.into_iter().for_each(|kept| self.add_to_task(id, kept, actor));
                return Some(Err(why));
            }
        };
        let told = self.tell_task(id, &events, actor);
        self.follow_task(id);
        self.follow_others(id, told);
        self.task(id).map(|task| Ok((task, events)))
    }

    /// Adds events to a team and sends its sessions the commands that belong to them. Returns those
    /// sessions.
    fn tell_task(&mut self, id: StandingId, events: &[Event], actor: &str) -> Vec<SessionId> {
        let said = |task: &Task| events.iter().flat_map(|event| task.said_by(event)).collect();
        let mut said: Vec<_> = self.task(id).map(said).unwrap_or_default();
        for event in events {
            self.add_to_task(id, event.clone(), actor);
        }
        // Another team may need the session of a member of this one.
        let dismisses = |command: &_| matches!(command, session::Command::Dismiss { .. });
        said.retain(|(session, command)| !dismisses(command) || self.tasks_of(*session).is_empty());
        for (session, command) in &said {
            // The team asked before whether the session takes it. A session that is gone needs no
            // command.
            drop(self.decide(*session, command, actor));
        }
        said.into_iter().map(|(session, _)| session).collect()
    }

    /// Applies the follow-ups of every team that a session is bound to.
    pub(super) fn follow_tasks_of(&mut self, session: SessionId) {
        let drafted =
            self.tasks.values().filter(|draft| sessions(&draft.task).any(|bound| bound == session));
        let mut tasks: BTreeSet<StandingId> = drafted.map(|draft| draft.task.id).collect();
        tasks.extend(self.board.tasks_of(session));
        for id in tasks {
            let told = self.follow_alone(id, Some(session));
            self.follow_others(id, told);
        }
    }

    /// Applies the follow-ups of a team and its members' sessions, and of the other teams of
    /// sessions that got a command.
    pub fn follow_task(&mut self, id: StandingId) {
        let told = self.follow_alone(id, None);
        self.follow_others(id, told);
    }

    /// A session may belong to several teams: a command from one is visible to the others.
    fn follow_others(&mut self, id: StandingId, told: Vec<SessionId>) {
        let mut told: VecDeque<(StandingId, SessionId)> =
            told.into_iter().map(|session| (id, session)).collect();
        while let Some((by, session)) = told.pop_front() {
            let others = self.tasks_of(session).into_iter().filter(|other| *other != by);
            for other in Vec::from_iter(others) {
                let more = self.follow_alone(other, None);
                told.extend(more.into_iter().map(|session| (other, session)));
            }
        }
    }

    /// Applies the follow-ups of one team, at first only those of one session if it is given.
    /// Returns the sessions that got a command.
    fn follow_alone(&mut self, id: StandingId, mut of: Option<SessionId>) -> Vec<SessionId> {
        let mut told = Vec::new();
        // Each member and each message may need a follow-up.
        let size = self.task(id).map_or(0, |task| task.members.len() + task.messages.len());
        for _ in 0..MAX_FOLLOW_UPS + 4 * size {
            let step = self.task(id).and_then(|task| {
                let look = |session| self.session(session);
                let around = Around { now: self.reached, look: &look, caller: &self.board.caller };
                match of.take() {
                    Some(session) => task.advance_for(session, &around),
                    None => task.advance(&around),
                }
            });
            match step {
                None => return told,
                Some(Step::Events(events)) => told.extend(self.tell_task(id, &events, "provost")),
                Some(Step::Send(send)) => {
                    let (offered, session, command) = *send;
                    let refused = match self.decide(session, &command, "provost") {
                        Some(Ok(_)) => None,
                        Some(Err(why)) => Some(why.to_string()),
                        None => Some("its session cannot be read".to_owned()),
                    };
                    // A message that no session takes is dead-lettered. The operator sees it and
                    // can requeue it.
                    let event = match refused {
                        None => offered.into(),
                        Some(reason) => MessageDead { no: offered.no, reason, by: None }.into(),
                    };
                    self.add_to_task(id, event, "provost");
                    told.push(session);
                }
            }
        }
        unreachable!("the rules of a team converge: {:?}", self.task(id));
    }

    fn add_to_task(&mut self, id: StandingId, event: Event, actor: &str) {
        let now = self.now;
        if !self.tasks.contains_key(&id) {
            let Some(held) = self.board.tasks.held.get(&id) else { return };
            let (task, expected) = (held.task.clone(), held.version);
            self.tasks.insert(id, TaskDraft { task, expected, events: Vec::new() });
        }
        if let Some(draft) = self.tasks.get_mut(&id) {
            draft.task.evolve(now, &event);
            draft.events.push((event, actor.to_owned()));
        }
    }

    /// Returns the member that a session is bound to.
    pub fn member_of(&self, id: StandingId, session: SessionId) -> Option<&Member> {
        let mut members = self.task(id)?.members.iter();
        members.find(|member| member.is_bound() && member.session == Some(session))
    }
}

impl TaskDraft {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn write(&self) -> StreamWrite {
        let after = self.expected + self.events.len() as u64;
        let due = self.expected / stream::SNAPSHOT_EVERY != after / stream::SNAPSHOT_EVERY;
        let recorded = |(event, actor): &(Event, String)| stream::new_task_event(event, actor);
        // The text of a message finds the message, not the team.
        let said = |(event, _): &(Event, String)| task_card::is_of_message(event);
        let found_by = self.expected == 0 || !self.events.iter().all(said);
        StreamWrite {
            stream: stream::task_stream_id(self.task.id),
            expected: self.expected,
            events: self.events.iter().map(recorded).collect(),
            open: !self.task.is_closed(),
            owed: stream::owed_by_task(&self.task),
            card: Some(task_card::text(&self.task)),
            found_by: found_by.then(|| words::of_task(&self.task)),
            snapshot: due.then(|| stream::task_snapshot(&self.task)),
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::{
        task::{Address, Channel, Kind, Labels, Post, Priority, Role, Standing, TaskBounds},
        time::Moment,
    };
    use provost_ledger::{Ledger, MemLedger, ReadLedger};

    use super::*;

    fn id() -> StandingId {
        "00000000-0000-7000-8000-000000000007".parse().expect("it is a UUID")
    }

    /// A board with its ledger. Nothing happens except by the test's commands.
    #[derive(Default)]
    struct Lab {
        board: Board,
        ledger: MemLedger,
        now: u64,
    }

    impl Lab {
        fn paired() -> Lab {
            let mut lab = Lab::default();
            let spec = TaskSpec {
                name: "limits".to_owned(),
                goal: "limit how often each caller may call".to_owned(),
                summary: None,
                project: None,
                cwd: "/project".to_owned(),
                checks: Vec::new(),
                consent: Default::default(),
                config: Default::default(),
                policy: None,
                bounds: TaskBounds { offer_ms: 10, lease_ms: 100, ..TaskBounds::default() },
            };
            lab.turn(|turn| drop(turn.open_task(id(), spec, &[], "operator").cloned()));
            let (name, labels) = ("hand".to_owned(), Labels::default());
            lab.tell(Command::Bind { name, role: Role::Worker, session: None, labels });
            lab
        }

        fn turn(&mut self, change: impl FnOnce(&mut Turn<'_>)) {
            let at = Moment { wall_ms: self.now as i64, mono_ms: self.now };
            let mut turn = self.board.begin(at);
            for task in self.board.due_tasks(self.now) {
                turn.follow_task(task);
            }
            change(&mut turn);
            if let Some((batch, staged)) = turn.stage() {
                let committed = self.ledger.append(batch).expect("memory takes all");
                self.board.commit(staged, &committed);
            }
        }

        fn tell(&mut self, command: Command) -> Vec<Event> {
            let mut came = Vec::new();
            self.turn(|turn| {
                let done = turn.command_task(id(), &Actor::Operator, &command, "operator");
                came = done.expect("the board holds it").expect("it is allowed").1;
            });
            came
        }

        fn post(&mut self, key: &str) {
            self.tell(Command::Post(Box::new(Post {
                key: key.to_owned(),
                correlation: None,
                channel: Channel::Cli,
                to: Address::Member("hand".to_owned()),
                kind: Kind::Instruction,
                text: "do it".to_owned(),
                priority: Priority::Normal,
                expires_in_ms: None,
                steer: false,
            })));
        }

        fn task(&self) -> &Task {
            self.board.task(id()).expect("it is open")
        }
    }

    #[test]
    fn what_the_ledger_has_of_a_task_folds_to_what_the_board_holds() {
        let mut lab = Lab::paired();
        lab.post("first");
        lab.tell(Command::Next { consumer: "hand".to_owned() });
        let stream = stream::task_stream_id(id());
        let records = lab.ledger.read_stream(&stream, 0).expect("memory can be read");
        let folded = stream::fold_task(&stream, None, &records).expect("it was written by us");
        assert_eq!(&folded, lab.task());
        let kept = stream::refold(&stream, &records).expect("it folds");
        assert_eq!((kept.open, kept.owed), (true, stream::owed_by_task(lab.task())));
        assert_eq!(kept.card, Some(task_card::text(lab.task())));
    }

    #[test]
    fn time_brings_a_message_back_and_the_board_says_when() {
        let mut lab = Lab::paired();
        lab.post("first");
        lab.tell(Command::Next { consumer: "hand".to_owned() });
        assert_eq!(lab.board.next_deadline(), Some(10));
        lab.now = 10;
        lab.turn(|_| ());
        assert_eq!(lab.task().messages[0].standing, Standing::Stored);
        assert_eq!(lab.board.next_deadline(), None);
    }

    #[test]
    fn a_task_that_is_over_is_let_go() {
        let mut lab = Lab::paired();
        lab.tell(Command::Cancel { because: "it is not needed any more".to_owned() });
        assert_eq!(lab.board.task(id()), None);
        assert_eq!(lab.board.tasks().count(), 0);
    }
}
