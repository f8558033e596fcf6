//! Teams on the board. Decisions about a team are made together with those about its members' sessions.

use std::collections::{BTreeSet, VecDeque};

use provost_core::{
    ids::{SessionId, TeamId},
    session::{self, Session},
    team::{
        Event, MessageDead, Team, TeamActor, TeamAdvanceContext, TeamCommand, TeamMember,
        TeamRejection, TeamSpec, TeamStep,
    },
};

use super::{BoardTransaction, MAX_FOLLOW_UPS, draft::Draft};
use crate::stored_aggregate::StoredAggregate;

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

/// If this many steps were found only by checking the whole team, all of the team's sessions are checked one by one.
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

impl BoardTransaction<'_> {
    /// Opens a team and applies all commands to it. If one of the commands fails, the team is not opened.
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
        let mut draft = Draft::<Team>::open(id, spec, self.now, actor);
        let about_to = |id| new.iter().find(|session| session.id == id);
        let look = |session| self.session(session).or_else(|| about_to(session));
        let context =
            TeamAdvanceContext { now: self.now, session: &look, caller: &self.board.caller };
        for command in commands {
            for event in draft.state.decide(&TeamActor::Operator, command, &context)? {
                draft.add(self.now, event, actor);
            }
        }
        Ok(self.teams.insert(draft))
    }

    /// Returns all teams as they would be after the decisions so far, including those opened in
    /// this transaction.
    pub fn teams(&self) -> impl Iterator<Item = &Team> {
        self.teams.iter()
    }

    /// Returns how many events this transaction has added to a team.
    pub fn added_team_events(&self, id: TeamId) -> usize {
        self.teams.existing_draft(id).map_or(0, |draft| draft.events.len())
    }

    /// Returns the events of this transaction that open a team. Empty if the team was already open before the
    /// transaction.
    pub fn opening_events(&self, id: TeamId) -> impl Iterator<Item = &Event> {
        let draft = self.teams.existing_draft(id).filter(|draft| draft.expected == 0);
        draft.into_iter().flat_map(|draft| draft.events.iter().map(|one| &one.event))
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
                kept.into_iter().for_each(|kept| self.teams.add(id, self.now, kept, actor));
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
            self.teams.add(id, self.now, event.clone(), actor);
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
        let drafted = self.teams.drafts().map(|draft| &draft.state);
        let drafted = drafted.filter(|team| team.bound_sessions().contains(&session));
        let mut teams: BTreeSet<TeamId> = drafted.map(|team| team.id).collect();
        teams.extend(self.board.teams.bound_to(session));
        for id in teams {
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
                let all = self.team(id).map(Team::bound_sessions);
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
            // A session that needs a step may need further steps.
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
        // If no session accepts the message, dead-letter the message. The operator sees it in the list of dead letters
        // and can requeue it.
        let event = match refused {
            None => offered.into(),
            Some(reason) => MessageDead { no: offered.no, reason, by: None }.into(),
        };
        self.teams.add(id, self.now, event, "provost");
        TeamStepResult { commanded: vec![session], concerned: vec![session] }
    }

    /// Returns the member that a session is bound to.
    pub fn member_of(&self, id: TeamId, session: SessionId) -> Option<&TeamMember> {
        let mut members = self.team(id)?.members.iter();
        members.find(|member| member.is_bound() && member.session == Some(session))
    }
}
