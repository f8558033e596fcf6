//! Finds the sessions, runs and teams that a text or a request refers to.

use provost_api::{ApiError, ErrorCode, Hint, LookedUpName, RunRow, SessionRow, TeamRow};
use provost_core::{
    ids::SessionId,
    session::{Reporter, Session},
};
use provost_ledger::ReadLedger;

use super::{
    handle::EngineRequest,
    listing,
    owner::Owner,
    refusals::{ambiguous, read_error},
    team_requests::TeamCaller,
};
use crate::{history::not_found, stored_aggregate::StoredAggregate, stream};

impl Owner {
    /// Returns everything that a text refers to.
    pub(super) fn look_up(
        &mut self,
        named: &str,
        by: &TeamCaller,
    ) -> Result<LookedUpName, ApiError> {
        let mut ambiguous = None;
        let session = unless_missing(self.session_reply(named), &mut ambiguous)?;
        let run = unless_missing(self.run_reply(named), &mut ambiguous)?;
        let mut several_teams = None;
        let team = unless_missing(self.team_reply(named, by), &mut several_teams)?;
        if session.is_none() && run.is_none() {
            ambiguous = ambiguous.or(several_teams);
        }
        let run = run.map(|reply| reply.run);
        let team = team.map(|reply| reply.team);
        let active = match (&session, &run, &team) {
            (None, Some(run), _) => self.active_sessions(run)?,
            (None, None, Some(team)) => self.asking_members(team)?,
            (Some(_), _, _) | (None, None, None) => Vec::new(),
        };
        let session = session.map(|reply| reply.session);
        Ok(LookedUpName { session, run, team, active, ambiguous })
    }

    /// Returns the sessions of a run that have a pending request, or else its newest active session.
    fn active_sessions(&self, run: &RunRow) -> Result<Vec<SessionRow>, ApiError> {
        let mut ids: Vec<&str> =
            run.requests.iter().filter_map(|one| Some(one.id.split_once('.')?.0)).collect();
        ids.dedup();
        if ids.is_empty() {
            let newest = run.sessions.iter().rev().find(|session| session.state.is_none());
            ids.extend(newest.map(|session| session.id.as_str()));
        }
        ids.into_iter().map(|id| Ok(self.session_reply(id)?.session)).collect()
    }

    /// Returns the sessions of a team's members that have a pending request.
    fn asking_members(&self, team: &TeamRow) -> Result<Vec<SessionRow>, ApiError> {
        let bound = team.members.iter().filter(|member| !member.left);
        let mut asking = Vec::new();
        for id in bound.filter_map(|member| member.session.as_deref()) {
            let found = unless_missing(self.session_reply(id), &mut None)?;
            asking.extend(found.map(|reply| reply.session));
        }
        asking.retain(|session| !session.requests.is_empty());
        Ok(asking)
    }

    /// Finds a session, run or team by its id, part of its id, or its name.
    pub(super) fn resolve<A: StoredAggregate>(&self, text: &str) -> Result<A::Id, ApiError> {
        let missing = || not_found(&self.ledger, &[A::KIND], text);
        if let Ok(id) = text.parse::<A::Id>() {
            let held = self.board.get::<A>(id).is_some();
            let stored =
                || self.ledger.stream(&stream::stream_id(id)).map_err(|why| read_error(&why));
            return if held || stored()?.is_some() { Ok(id) } else { Err(missing()) };
        }
        let found =
            listing::find_by_name(A::KIND, &self.ledger, text).map_err(|why| read_error(&why))?;
        match found.as_slice() {
            [] => Err(missing()),
            [(id, _)] => id.parse().map_err(|_| missing()),
            several => Err(ambiguous(text, &[A::KIND], several)),
        }
    }

    /// Finds the session that a change concerns. `None` for a change that opens one.
    pub(super) fn session_of_request(
        &self,
        ask: &EngineRequest,
    ) -> Option<Result<SessionId, ApiError>> {
        match ask {
            EngineRequest::Report {
                from: Reporter::Launch(launch) | Reporter::DropBox(launch),
                ..
            } => Some(Ok(launch.session)),
            EngineRequest::ToolCall { launch, .. } => Some(Ok(launch.session)),
            EngineRequest::SessionCommand { session, .. } => Some(self.resolve::<Session>(session)),
            EngineRequest::Report { session, .. } => {
                session.as_deref().map(|session| self.resolve::<Session>(session))
            }
            EngineRequest::Open { .. }
            | EngineRequest::OpenRun { .. }
            | EngineRequest::RunCommand { .. }
            | EngineRequest::Team(_) => None,
        }
    }

    /// Describes why a session is not on the board: either it does not exist or it cannot be read.
    pub(super) fn not_loaded(&self, id: SessionId) -> ApiError {
        match self.unreadable.get(&stream::stream_id(id).to_string()) {
            None => self.no_session(&id.to_string()),
            Some(why) => {
                let message = format!("session {id} cannot be read, so nothing was changed: {why}");
                ApiError::new(ErrorCode::Storage, message).next(Hint::VerifyLedger)
            }
        }
    }

    pub(super) fn no_session(&self, text: &str) -> ApiError {
        not_found(&self.ledger, &[stream::SESSION], text)
    }

    pub(super) fn no_run(&self, text: &str) -> ApiError {
        not_found(&self.ledger, &[stream::RUN], text)
    }
}

/// Returns `None` if nothing was found. If several things match, also keeps that error.
fn unless_missing<T>(
    found: Result<T, ApiError>,
    ambiguous: &mut Option<ApiError>,
) -> Result<Option<T>, ApiError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.code == ErrorCode::NotFound => Ok(None),
        Err(error) if error.code == ErrorCode::BadRequest => {
            ambiguous.get_or_insert(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
