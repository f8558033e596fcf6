//! Finds the team and the member that a request concerns.

use std::ops::ControlFlow;

use provost_api::{ApiError, ErrorCode, Hint, TeamRow};
use provost_core::{
    ids::{SessionId, TeamId},
    session::Session,
    team::{Team, TeamActor, TeamMember},
};
use provost_ledger::{Lookup as FoundBy, ReadLedger, TermQuery};

use super::{
    super::{owner::Owner, refusals::read_error},
    NewSession, OWN_TEAM, TeamCaller, TeamRequest,
};
use crate::{board::BoardTransaction, stream};

/// The maximum number of candidate teams to examine for a session.
const MAX_CANDIDATES: usize = 100;

impl Owner {
    /// Finds the team that a request concerns.
    pub(in crate::shell) fn team_of_team_request(&self, ask: &TeamRequest) -> Option<TeamId> {
        ask.team_and_caller().and_then(|(named, by)| self.resolve_team(named, by).ok())
    }

    /// Returns the existing sessions that a request binds to a team.
    pub(in crate::shell) fn sessions_to_bind(&self, ask: &TeamRequest) -> Vec<SessionId> {
        if let TeamRequest::Command { command, .. } = ask {
            return command.bound_session().into_iter().collect();
        }
        let TeamRequest::Pair { start, .. } = ask else { return Vec::new() };
        let named = start.members.iter().filter_map(|member| match &member.session {
            Some(NewSession::Existing(session)) => self.resolve::<Session>(session).ok(),
            Some(NewSession::New { .. }) | None => None,
        });
        named.collect()
    }

    /// Finds a team by its id, part of its id, or its name.
    pub(super) fn resolve_team(&self, text: &str, by: &TeamCaller) -> Result<TeamId, ApiError> {
        if text == OWN_TEAM {
            return self.own_team(by);
        }
        self.resolve::<Team>(text)
    }

    /// Returns the team that an agent is bound to or was last bound to. For other callers, returns
    /// the only open team.
    fn own_team(&self, by: &TeamCaller) -> Result<TeamId, ApiError> {
        let (own, none): (Vec<TeamId>, &str) = match by {
            TeamCaller::Launch { launch, .. } => {
                (self.board.teams.bound_to(launch.session), "this agent belongs to no team")
            }
            TeamCaller::Operator | TeamCaller::Member(_) => {
                let open = self.board.teams.iter().filter(|task| !task.phase.is_over());
                (open.map(|task| task.id).take(2).collect(), "no team is open")
            }
        };
        let last = match (by, own.is_empty()) {
            // If a member sends a request after the team has ended, the reply should report that the team has ended.
            (TeamCaller::Launch { launch, .. }, true) => self.last_team(launch.session)?,
            (TeamCaller::Launch { .. } | TeamCaller::Operator | TeamCaller::Member(_), _) => None,
        };
        match (own.as_slice(), last) {
            ([one], _) => Ok(*one),
            ([], Some(last)) => Ok(last),
            ([], None) => Err(ApiError::new(ErrorCode::NotFound, none).next(Hint::ListTeams)),
            ([..], _) => {
                let message = "there are several teams: name one of them";
                Err(ApiError::new(ErrorCode::BadRequest, message).next(Hint::ListTeams))
            }
        }
    }

    /// Uses the index to find the newest team that a session was bound to, because closed teams are
    /// not on the board.
    fn last_team(&self, session: SessionId) -> Result<Option<TeamId>, ApiError> {
        let Some(sought) = TermQuery::new(&session.0.simple().to_string()) else { return Ok(None) };
        let mut newest = None;
        let found = self.ledger.find_streams(
            stream::TEAM,
            FoundBy::Parts(&sought),
            MAX_CANDIDATES,
            &mut |projection| {
                let row = projection.projection.as_deref().map(serde_json::from_str::<TeamRow>);
                // The index may match any text, so compare with the members.
                let own = row.and_then(Result::ok).filter(|row| {
                    let mut sessions = row.members.iter().filter_map(|one| one.session.as_deref());
                    sessions.any(|one| one == session.to_string())
                });
                let id = own.and_then(|row| row.id.parse().ok());
                newest = newest.max(id.map(|id| (projection.created_seq, id)));
                ControlFlow::Continue(())
            },
        );
        found.map_err(|why| read_error(&why))?;
        Ok(newest.map(|(_, id)| id))
    }
}

/// Returns the actor that the caller acts as in the team.
pub(in crate::shell) fn resolve_actor(
    turn: &BoardTransaction<'_>,
    id: TeamId,
    by: &TeamCaller,
) -> Result<TeamActor, ApiError> {
    match by {
        TeamCaller::Operator => Ok(TeamActor::Operator),
        TeamCaller::Member(name) if name == "operator" => Ok(TeamActor::Operator),
        TeamCaller::Member(name) => Ok(TeamActor::Member(name.clone())),
        TeamCaller::Launch { launch, named } => {
            let member = turn.member_of(id, launch.session);
            let name = member.map(|member| member.name.clone()).ok_or_else(|| {
                let message = format!("launch {launch} belongs to no member of this team");
                ApiError::new(ErrorCode::Forbidden, message).next(Hint::ListTeams)
            })?;
            match named {
                Some(named) if *named != name => {
                    let message =
                        format!("you are {name} in this team, and can only act as {name}");
                    Err(ApiError::new(ErrorCode::Forbidden, message).next(Hint::ShowOwnTeam))
                }
                Some(_) | None => Ok(TeamActor::Member(name)),
            }
        }
    }
}

/// Returns the member that the caller specifies, or the member that the caller is, if that member exists. The outer
/// `None` means the operator.
pub(super) fn named_member<'t>(task: &'t Team, by: &TeamCaller) -> Option<Option<&'t TeamMember>> {
    let mut bound = task.members.iter().filter(|one| one.is_bound());
    match by {
        TeamCaller::Operator => None,
        TeamCaller::Member(name) => Some(bound.find(|one| one.name == *name)),
        TeamCaller::Launch { launch, .. } => {
            Some(bound.find(|one| one.session == Some(launch.session)))
        }
    }
}
