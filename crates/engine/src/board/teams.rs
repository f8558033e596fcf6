//! Teams on the board. Decisions about a team are made together with those about its members' sessions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use provost_core::{
    ids::{SessionId, TeamId},
    session::{self, EffectKey, Session},
    team::{
        Event, MessageDead, Team, TeamActor, TeamAdvanceContext, TeamCommand, TeamEffect,
        TeamMember, TeamOpened, TeamRejection, TeamSpec, TeamStep,
    },
};
use provost_ledger::StreamWrite;

use super::{Board, BoardTransaction, CommitChanges, MAX_FOLLOW_UPS};
use crate::{projection, search_terms, stream};

/// The teams of a board, and the teams that each session is bound to.
#[derive(Debug, Default)]
pub(super) struct BoardTeams {
    loaded: BTreeMap<TeamId, LoadedTeam>,
    deadlines: BTreeSet<(u64, TeamId)>,
    bound: BTreeMap<SessionId, BTreeSet<TeamId>>,
}

#[derive(Debug)]
struct LoadedTeam {
    task: Team,
    version: u64,
    effects: BTreeMap<EffectKey, TeamEffect>,
    deadline: Option<u64>,
}

#[derive(Debug)]
pub(super) struct TeamDraft {
    pub(super) task: Team,
    expected: u64,
    events: Vec<(Event, String)>,
}

/// The sessions of a team that may need a step, in the order in which they changed.
#[derive(Debug, Default)]
struct ChangedSessions {
    queue: VecDeque<SessionId>,
    queued: BTreeSet<SessionId>,
}

/// Where a step was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdvanceScope {
    Session,
    WholeTeam,
}

/// The changes of a team's step.
#[derive(Debug)]
struct TeamStepResult {
    /// The sessions that received a command.
    commanded: Vec<SessionId>,
    /// The sessions that may need a step now, including those that received a command.
    concerned: Vec<SessionId>,
}

/// If this many steps were found only by checking the whole team, all its sessions are checked.
const MAX_OVERLOOKED: usize = 2;

impl ChangedSessions {
    fn first(&self) -> Option<SessionId> {
        self.queue.front().copied()
    }

    fn remove_first(&mut self) {
        if let Some(session) = self.queue.pop_front() {
            self.queued.remove(&session);
        }
    }
}

impl Extend<SessionId> for ChangedSessions {
    fn extend<T: IntoIterator<Item = SessionId>>(&mut self, sessions: T) {
        for session in sessions {
            if self.queued.insert(session) {
                self.queue.push_back(session);
            }
        }
    }
}

impl FromIterator<SessionId> for ChangedSessions {
    fn from_iter<T: IntoIterator<Item = SessionId>>(sessions: T) -> Self {
        let mut changed = ChangedSessions::default();
        changed.extend(sessions);
        changed
    }
}

/// Returns the sessions of the bound members.
pub(super) fn sessions(task: &Team) -> impl Iterator<Item = SessionId> {
    task.members.iter().filter(|member| member.is_bound()).filter_map(|member| member.session)
}

impl BoardTeams {
    fn remove(&mut self, id: TeamId) -> Option<LoadedTeam> {
        let held = self.loaded.remove(&id)?;
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

    fn insert(&mut self, task: Team, version: u64, effects: BTreeMap<EffectKey, TeamEffect>) {
        let (id, deadline) = (task.id, task.deadline());
        if let Some(at) = deadline {
            self.deadlines.insert((at, id));
        }
        for session in sessions(&task) {
            self.bound.entry(session).or_default().insert(id);
        }
        self.loaded.insert(id, LoadedTeam { task, version, effects, deadline });
    }
}

impl Board {
    /// Loads a team from the ledger. The returned changes contain its pending effects.
    pub fn load_team(&mut self, task: Team, version: u64) -> CommitChanges {
        let mut changes = CommitChanges::default();
        self.insert_team(task, version, true, &mut changes);
        changes
    }

    pub fn team(&self, id: TeamId) -> Option<&Team> {
        self.tasks.loaded.get(&id).map(|held| &held.task)
    }

    pub fn teams(&self) -> impl Iterator<Item = &Team> {
        self.tasks.loaded.values().map(|held| &held.task)
    }

    /// Returns the teams that a session is bound to.
    pub fn teams_of(&self, session: SessionId) -> Vec<TeamId> {
        self.tasks.bound.get(&session).into_iter().flatten().copied().collect()
    }

    pub(super) fn next_team_deadline(&self) -> Option<u64> {
        self.tasks.deadlines.first().map(|(at, _)| *at)
    }

    /// Returns the teams whose deadline has passed.
    pub fn due_teams(&self, reached_ms: u64) -> Vec<TeamId> {
        let due = self.tasks.deadlines.iter().take_while(|(at, _)| *at <= reached_ms);
        due.map(|(_, task)| *task).collect()
    }

    /// Evicts a team if it is closed.
    pub fn evict_team(&mut self, id: TeamId) {
        if self.team(id).is_some_and(Team::is_closed) {
            self.tasks.remove(id);
        }
    }

    pub(super) fn insert_team(
        &mut self,
        task: Team,
        version: u64,
        keep_closed: bool,
        changes: &mut CommitChanges,
    ) {
        let id = task.id;
        let effects = task.effects();
        let effects: BTreeMap<EffectKey, TeamEffect> =
            effects.into_iter().map(|effect| (effect.key(), effect)).collect();
        let before = self.tasks.remove(id).map(|held| held.effects).unwrap_or_default();
        let started = effects.iter().filter(|(key, _)| !before.contains_key(*key));
        changes.start_team_effects.extend(started.map(|(_, effect)| (id, effect.clone())));
        let ended = before.keys().filter(|key| !effects.contains_key(*key));
        changes.cancel_team_effects.extend(ended.map(|key| (id, key.clone())));
        if !task.is_closed() || keep_closed {
            self.tasks.insert(task, version, effects);
        }
    }

    pub(super) fn commit_team(&mut self, draft: TeamDraft, changes: &mut CommitChanges) {
        let version = draft.expected + draft.events.len() as u64;
        self.insert_team(draft.task, version, false, changes);
    }
}

impl BoardTransaction<'_> {
    /// Opens a team and applies all commands to it. If one of them fails, nothing happens.
    pub fn open_team(
        &mut self,
        id: TeamId,
        spec: TeamSpec,
        commands: &[TeamCommand],
        actor: &str,
    ) -> Result<&Team, TeamRejection> {
        self.open_team_with_sessions(id, spec, commands, &[], actor)
    }

    /// Like [`BoardTransaction::open_team`], but also knows the sessions that are about to be
    /// opened for the team.
    pub fn open_team_with_sessions(
        &mut self,
        id: TeamId,
        spec: TeamSpec,
        commands: &[TeamCommand],
        new: &[Session],
        actor: &str,
    ) -> Result<&Team, TeamRejection> {
        let opened = TeamOpened { spec: Box::new(spec) };
        let mut task = Team::open(id, self.now, &opened);
        let mut events: Vec<(Event, String)> = vec![(opened.into(), actor.to_owned())];
        let about_to = |id| new.iter().find(|session| session.id == id);
        let look = |session| self.session(session).or_else(|| about_to(session));
        let context =
            TeamAdvanceContext { now: self.now, session: &look, caller: &self.board.caller };
        for command in commands {
            for event in task.decide(&TeamActor::Operator, command, &context)? {
                task.evolve(self.now, &event);
                events.push((event, actor.to_owned()));
            }
        }
        let draft = self.tasks.entry(id).or_insert(TeamDraft { task, expected: 0, events });
        Ok(&draft.task)
    }

    /// Returns a team as it would be after the decisions so far.
    pub fn team(&self, id: TeamId) -> Option<&Team> {
        self.tasks.get(&id).map(|draft| &draft.task).or_else(|| self.board.team(id))
    }

    /// Returns all teams as they would be after the decisions so far, including those opened in
    /// this transaction.
    pub fn teams(&self) -> impl Iterator<Item = &Team> {
        let held = self.board.teams().filter(|task| !self.tasks.contains_key(&task.id));
        held.chain(self.tasks.values().map(|draft| &draft.task))
    }

    /// Returns how many events this transaction has added to a team.
    pub fn added_team_events(&self, id: TeamId) -> usize {
        self.tasks.get(&id).map_or(0, |draft| draft.events.len())
    }

    /// Returns the events of this transaction that open a team. Empty if the team was already open.
    pub fn opening_events(&self, id: TeamId) -> impl Iterator<Item = &Event> {
        let draft = self.tasks.get(&id).filter(|draft| draft.expected == 0);
        draft.into_iter().flat_map(|draft| draft.events.iter().map(|(event, _)| event))
    }

    /// Decides on a command to a team on the board. Returns the team as it would be afterwards, and
    /// the new events.
    pub fn command_team(
        &mut self,
        id: TeamId,
        who: &TeamActor,
        command: &TeamCommand,
        actor: &str,
    ) -> Option<Result<(&Team, Vec<Event>), TeamRejection>> {
        let look = |session| self.session(session);
        let context =
            TeamAdvanceContext { now: self.now, session: &look, caller: &self.board.caller };
        let task = self.team(id)?;
        let events = match task.decide(who, command, &context) {
            Ok(events) => events,
            Err(why) => {
                let kept = task.refusal_event(who, command, &why);
                kept.into_iter().for_each(|kept| self.add_team_event(id, kept, actor));
                return Some(Err(why));
            }
        };
        let TeamStepResult { mut commanded, concerned } =
            self.apply_team_events(id, &events, actor);
        commanded.extend(self.advance_one_team(id, concerned));
        self.advance_other_teams(id, commanded);
        self.team(id).map(|task| Ok((task, events)))
    }

    /// Adds events to a team and sends its sessions the commands that the events require.
    fn apply_team_events(&mut self, id: TeamId, events: &[Event], actor: &str) -> TeamStepResult {
        let commands =
            |task: &Team| events.iter().flat_map(|event| task.session_commands(event)).collect();
        let mut commands: Vec<_> = self.team(id).map(commands).unwrap_or_default();
        for event in events {
            self.add_team_event(id, event.clone(), actor);
        }
        // Don't dismiss a session that another team still needs.
        let dismisses = |command: &_| matches!(command, session::SessionCommand::Dismiss { .. });
        commands
            .retain(|(session, command)| !dismisses(command) || self.teams_of(*session).is_empty());
        for (session, command) in &commands {
            // The team has already checked that the session accepts the command. If the session is
            // gone, it needs no command.
            drop(self.decide(*session, command, actor));
        }
        let commanded: Vec<SessionId> = commands.into_iter().map(|(session, _)| session).collect();
        let mut concerned = commanded.clone();
        concerned
            .extend(self.team(id).into_iter().flat_map(|team| team.sessions_concerned_by(events)));
        TeamStepResult { commanded, concerned }
    }

    /// Applies the follow-up steps of every team that a session is bound to.
    pub(super) fn advance_teams_of(&mut self, session: SessionId) {
        let drafted =
            self.tasks.values().filter(|draft| sessions(&draft.task).any(|bound| bound == session));
        let mut tasks: BTreeSet<TeamId> = drafted.map(|draft| draft.task.id).collect();
        tasks.extend(self.board.teams_of(session));
        for id in tasks {
            let commanded = self.advance_one_team(id, vec![session]);
            self.advance_other_teams(id, commanded);
        }
    }

    /// Applies the follow-up steps of a team and its members' sessions. If a session receives a
    /// command, this includes the other teams that the session belongs to.
    pub fn advance_team(&mut self, id: TeamId) {
        let commanded = self.advance_one_team(id, Vec::new());
        self.advance_other_teams(id, commanded);
    }

    /// Advances the other teams of these sessions. A session may belong to several teams, so a
    /// command from one team can affect the others.
    fn advance_other_teams(&mut self, id: TeamId, commanded: Vec<SessionId>) {
        let mut queue: VecDeque<(TeamId, SessionId)> =
            commanded.into_iter().map(|session| (id, session)).collect();
        while let Some((by, session)) = queue.pop_front() {
            let others = self.teams_of(session).into_iter().filter(|other| *other != by);
            for other in Vec::from_iter(others) {
                let more = self.advance_one_team(other, vec![session]);
                queue.extend(more.into_iter().map(|session| (other, session)));
            }
        }
    }

    /// Applies the follow-up steps of one team after these of its sessions, or their messages, have
    /// changed. Returns the sessions that received a command.
    ///
    /// The steps of the changed sessions come first, and each step adds the sessions that it
    /// changes. At the end, the whole team is checked once, and further steps are applied. The cost
    /// is therefore proportional to what changed, even in a team with thousands of members.
    fn advance_one_team(&mut self, id: TeamId, changed: Vec<SessionId>) -> Vec<SessionId> {
        let mut commanded = Vec::new();
        let mut changed = ChangedSessions::from_iter(changed);
        let mut overlooked = 0;
        // Every member and every message may need a follow-up step.
        let size = self.team(id).map_or(0, |task| task.members.len() + task.messages.len());
        for _ in 0..MAX_FOLLOW_UPS + 4 * size {
            let Some((step, scope)) = self.next_team_step(id, &mut changed) else {
                return commanded;
            };
            overlooked += usize::from(scope == AdvanceScope::WholeTeam);
            if overlooked == MAX_OVERLOOKED {
                // Probably all sessions have changed, as when a daemon starts. Checking each of
                // them costs less than checking the whole team after every further step.
                overlooked += 1;
                let all = self.team(id).map(|team| sessions(team).collect::<Vec<_>>());
                changed.extend(all.unwrap_or_default());
            }
            let result = self.apply_team_step(id, step);
            changed.extend(result.concerned);
            commanded.extend(result.commanded);
        }
        unreachable!("the rules of a team converge: {:?}", self.team(id));
    }

    /// Returns the next step of a changed session, or else of the whole team.
    fn next_team_step(
        &self,
        id: TeamId,
        changed: &mut ChangedSessions,
    ) -> Option<(TeamStep, AdvanceScope)> {
        let team = self.team(id)?;
        let look = |session| self.look_up_member(session);
        let context =
            TeamAdvanceContext { now: self.reached, session: &look, caller: &self.board.caller };
        while let Some(session) = changed.first() {
            // A session that needs a step may need another one.
            if let Some(step) = team.advance_for(session, &context) {
                return Some((step, AdvanceScope::Session));
            }
            changed.remove_first();
        }
        team.advance(&context).map(|step| (step, AdvanceScope::WholeTeam))
    }

    fn look_up_member(&self, session: SessionId) -> Option<&Session> {
        #[cfg(test)]
        self.look_ups.set(self.look_ups.get() + 1);
        self.session(session)
    }

    fn apply_team_step(&mut self, id: TeamId, step: TeamStep) -> TeamStepResult {
        let (offered, session, command) = match step {
            TeamStep::Events(events) => return self.apply_team_events(id, &events, "provost"),
            TeamStep::Send(send) => *send,
        };
        let refused = match self.decide(session, &command, "provost") {
            Some(Ok(_)) => None,
            Some(Err(why)) => Some(why.to_string()),
            None => Some("its session cannot be read".to_owned()),
        };
        // If no session accepts the message, dead-letter it. The operator sees it there and can
        // requeue it.
        let event = match refused {
            None => offered.into(),
            Some(reason) => MessageDead { no: offered.no, reason, by: None }.into(),
        };
        self.add_team_event(id, event, "provost");
        TeamStepResult { commanded: vec![session], concerned: vec![session] }
    }

    fn add_team_event(&mut self, id: TeamId, event: Event, actor: &str) {
        let now = self.now;
        if !self.tasks.contains_key(&id) {
            let Some(held) = self.board.tasks.loaded.get(&id) else { return };
            let (task, expected) = (held.task.clone(), held.version);
            self.tasks.insert(id, TeamDraft { task, expected, events: Vec::new() });
        }
        if let Some(draft) = self.tasks.get_mut(&id) {
            draft.task.evolve(now, &event);
            draft.events.push((event, actor.to_owned()));
        }
    }

    /// Returns the member that a session is bound to.
    pub fn member_of(&self, id: TeamId, session: SessionId) -> Option<&TeamMember> {
        let mut members = self.team(id)?.members.iter();
        members.find(|member| member.is_bound() && member.session == Some(session))
    }
}

impl TeamDraft {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(super) fn write(&self) -> StreamWrite {
        let after = self.expected + self.events.len() as u64;
        let due = self.expected / stream::SNAPSHOT_EVERY != after / stream::SNAPSHOT_EVERY;
        let recorded = |(event, actor): &(Event, String)| stream::new_team_event(event, actor);
        // A search for the text of a message should find the message, not the team.
        let is_message = |(event, _): &(Event, String)| projection::team::is_message_event(event);
        let found_by = self.expected == 0 || !self.events.iter().all(is_message);
        StreamWrite {
            stream: stream::team_stream_id(self.task.id),
            expected: self.expected,
            events: self.events.iter().map(recorded).collect(),
            open: !self.task.is_closed(),
            pending: stream::pending_team_effects(&self.task),
            projection: Some(projection::team::to_json(&self.task)),
            search_terms: found_by.then(|| search_terms::team_terms(&self.task)),
            snapshot: due.then(|| stream::team_snapshot(&self.task)),
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::{
        ids::LaunchId,
        session::{Cursor, ProcessIdentity, SessionCommand, StreamSignal, TeamMembership, TurnEnd},
        team::{
            MemberLabels, MemberRole, MessageChannel, MessageStatus, NewMessage, Priority,
            Recipient, TeamLimits, TeamMessageKind,
        },
        time::Moment,
    };
    use provost_ledger::{Ledger, MemLedger, ReadLedger};

    use super::*;

    fn id() -> TeamId {
        "00000000-0000-7000-8000-000000000007".parse().expect("it is a UUID")
    }

    /// A board with its ledger. Only the test's commands change anything.
    #[derive(Default)]
    struct TeamTestBoard {
        board: Board,
        ledger: MemLedger,
        now: u64,
    }

    impl TeamTestBoard {
        fn paired() -> TeamTestBoard {
            let mut test_board = TeamTestBoard::default();
            let spec = TeamSpec {
                name: "limits".to_owned(),
                goal: "limit how often each caller may call".to_owned(),
                summary: None,
                project: None,
                cwd: "/project".to_owned(),
                checks: Vec::new(),
                consent: Default::default(),
                config: Default::default(),
                policy: None,
                bounds: TeamLimits { offer_ms: 10, lease_ms: 100, ..TeamLimits::default() },
            };
            test_board.turn(|turn| drop(turn.open_team(id(), spec, &[], "operator").cloned()));
            let (name, labels) = ("hand".to_owned(), MemberLabels::default());
            test_board.command(TeamCommand::Bind {
                name,
                role: MemberRole::Worker,
                session: None,
                labels,
            });
            test_board
        }

        fn turn(&mut self, change: impl FnOnce(&mut BoardTransaction<'_>)) {
            let at = Moment { wall_ms: self.now as i64, mono_ms: self.now };
            let mut turn = self.board.begin(at);
            for task in self.board.due_teams(self.now) {
                turn.advance_team(task);
            }
            change(&mut turn);
            if let Some((batch, staged)) = turn.stage() {
                let committed = self.ledger.append(batch).expect("memory takes all");
                self.board.commit(staged, &committed);
            }
        }

        fn command(&mut self, command: TeamCommand) -> Vec<Event> {
            let mut came = Vec::new();
            self.turn(|turn| {
                let done = turn.command_team(id(), &TeamActor::Operator, &command, "operator");
                came = done.expect("the board holds it").expect("it is allowed").1;
            });
            came
        }

        fn post(&mut self, key: &str) {
            self.command(TeamCommand::Post(Box::new(NewMessage {
                key: key.to_owned(),
                correlation: None,
                channel: MessageChannel::Cli,
                to: Recipient::Member("hand".to_owned()),
                kind: TeamMessageKind::Instruction,
                text: "do it".to_owned(),
                priority: Priority::Normal,
                expires_in_ms: None,
                steer: false,
            })));
        }

        fn task(&self) -> &Team {
            self.board.team(id()).expect("it is open")
        }
    }

    #[test]
    fn stored_team_folds_to_board_state() {
        let mut test_board = TeamTestBoard::paired();
        test_board.post("first");
        test_board.command(TeamCommand::Next { consumer: "hand".to_owned() });
        let stream = stream::team_stream_id(id());
        let records = test_board.ledger.read_stream(&stream, 0).expect("memory can be read");
        let folded = stream::fold_team(&stream, None, &records).expect("it was written by us");
        assert_eq!(&folded, test_board.task());
        let kept = stream::refold(&stream, &records).expect("it folds");
        assert_eq!(
            (kept.open, kept.pending),
            (true, stream::pending_team_effects(test_board.task()))
        );
        assert_eq!(kept.projection, Some(projection::team::to_json(test_board.task())));
    }

    #[test]
    fn offered_message_returns_at_its_deadline() {
        let mut test_board = TeamTestBoard::paired();
        test_board.post("first");
        test_board.command(TeamCommand::Next { consumer: "hand".to_owned() });
        assert_eq!(test_board.board.next_deadline(), Some(10));
        test_board.now = 10;
        test_board.turn(|_| ());
        assert_eq!(test_board.task().messages[0].status, MessageStatus::Stored);
        assert_eq!(test_board.board.next_deadline(), None);
    }

    /// Counts how often the rules of a team read a session when a paused team resumes, and each of
    /// its idle workers receives a message.
    fn look_ups_on_resume(workers: usize) -> usize {
        let mut test_board = TeamTestBoard::paired();
        test_board.command(TeamCommand::Pause { because: "the plan changes".to_owned() });
        test_board.turn(|turn| {
            for n in 0..workers {
                let session = idle_session(turn, n);
                let (name, labels) = (format!("hand-{n}"), MemberLabels::default());
                let (role, session) = (MemberRole::Worker, Some(session));
                let bind = TeamCommand::Bind { name, role, session, labels };
                command(turn, &bind);
            }
        });
        let mut look_ups = 0;
        test_board.turn(|turn| {
            command(turn, &TeamCommand::Resume);
            look_ups = turn.look_ups.get();
        });
        let pushed = test_board.task().messages.iter().filter(|one| one.status.lease().is_some());
        assert_eq!(pushed.count(), workers);
        look_ups
    }

    fn command(turn: &mut BoardTransaction<'_>, command: &TeamCommand) {
        let done = turn.command_team(id(), &TeamActor::Operator, command, "operator");
        done.expect("the board holds it").expect("it is allowed");
    }

    /// Opens a session whose agent has ended its first turn.
    fn idle_session(turn: &mut BoardTransaction<'_>, n: usize) -> SessionId {
        let id: SessionId =
            format!("00000000-0000-7000-8000-{n:012}").parse().expect("it is a UUID");
        let mut spec = super::super::tests::spec();
        spec.agent.settings.member = Some(TeamMembership { role: MemberRole::Worker });
        turn.open(id, spec, "test");
        let process = || ProcessIdentity { pid: 1, start_time: 1, boot_id: "b".to_owned() };
        let (launch, end) = (LaunchId { session: id, no: 1 }, TurnEnd::Ok);
        let ended = StreamSignal::TurnEnded { turn: None, end, usage: None, says: None };
        let cursor = Cursor { offset: 1, skip: 0 };
        for command in [
            SessionCommand::WorkPrepared { cwd: "/".to_owned(), base: None },
            SessionCommand::LaunchStarted { launch, holder: process(), child: process() },
            SessionCommand::Observed { launch, signal: ended, cursor },
        ] {
            turn.command(id, &command, "test").expect("it is open").expect("it is allowed");
        }
        id
    }

    #[test]
    fn effort_of_resuming_is_proportional_to_the_members() {
        let (few, many) = (look_ups_on_resume(50), look_ups_on_resume(200));
        assert!(many <= 4 * few, "{few} look-ups for 50 workers, {many} for 200");
        assert!(many <= 12 * 200, "{many} look-ups for 200 workers");
    }

    #[test]
    fn closed_team_is_evicted() {
        let mut test_board = TeamTestBoard::paired();
        test_board.command(TeamCommand::Cancel { because: "it is not needed any more".to_owned() });
        assert_eq!(test_board.board.team(id()), None);
        assert_eq!(test_board.board.teams().count(), 0);
    }
}
