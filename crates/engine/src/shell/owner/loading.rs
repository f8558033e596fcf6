//! Loads closed sessions, runs and teams that a batch of inputs or a query needs.

use provost_api::{ApiError, ErrorCode, Hint};
use provost_core::{
    ids::{RunId, SessionId, TeamId},
    run::Run,
    team::Team,
};
use provost_ledger::ReadLedger;

use super::{
    super::handle::{EngineRequest, Observation, PendingRequest},
    Owner,
};
use crate::{
    stored_aggregate::StoredAggregate,
    stream::{self, Subject},
};

/// How long before a deadline to load sessions, because a decision takes a while.
const LOAD_AHEAD_MS: u64 = 1_000;

impl Owner {
    /// Loads the closed sessions, runs and teams that the inputs concern.
    pub(super) fn load_needed(
        &mut self,
        changes: &[PendingRequest],
        observed: &[Observation],
    ) -> Vec<Subject> {
        let named = changes.iter().filter_map(|one| self.session_of_request(&one.request)?.ok());
        let paired = changes.iter().flat_map(|one| self.sessions_of_pair(&one.request));
        let sessions = named.chain(paired).map(Subject::Session);
        let runs = changes.iter().filter_map(|one| self.run_of_request(&one.request));
        let teams = changes.iter().filter_map(|one| self.team_of_request(&one.request));
        // A deadline that is about to pass may need a session that was evicted.
        let mut soon = self.catching_up.reached(self.clock.now());
        soon.mono_ms = soon.mono_ms.saturating_add(LOAD_AHEAD_MS);
        let due_teams = self.board.teams.due(soon.mono_ms).into_iter();
        let due_sessions = self.board.sessions.due(soon.mono_ms).into_iter();
        let wanted: Vec<Subject> = sessions
            .chain(runs.map(Subject::Run))
            .chain(teams.map(Subject::Team))
            .chain(observed.iter().map(Observation::subject))
            .chain(due_teams.map(Subject::Team))
            .chain(due_sessions.map(Subject::Session))
            .collect();
        let mut loaded = Vec::new();
        for subject in wanted {
            self.load_if_missing(subject, &mut loaded);
            for session in self.sessions_needed_for(subject) {
                self.load_if_missing(Subject::Session(session), &mut loaded);
            }
        }
        loaded
    }

    /// Returns the sessions that may receive a command when the subject changes, because a run may
    /// resume a session and a team may wake its members.
    fn sessions_needed_for(&self, subject: Subject) -> Vec<SessionId> {
        let members =
            |id: &TeamId| self.board.team(*id).map(Team::bound_sessions).unwrap_or_default();
        match subject {
            Subject::Run(id) => self.board.run(id).map(Run::resumable_sessions).unwrap_or_default(),
            Subject::Team(id) => members(&id),
            Subject::Session(id) => {
                self.board.teams.bound_to(id).iter().flat_map(members).collect()
            }
        }
    }

    fn sessions_of_pair(&self, ask: &EngineRequest) -> Vec<SessionId> {
        let EngineRequest::Team(ask) = ask else { return Vec::new() };
        self.sessions_to_bind(ask)
    }

    pub(super) fn team_of_request(&self, ask: &EngineRequest) -> Option<TeamId> {
        let EngineRequest::Team(ask) = ask else { return None };
        self.team_of_team_request(ask)
    }

    /// Loads a team and its members' sessions for a query.
    pub(in crate::shell) fn load_with_members(&mut self, id: TeamId) -> Vec<Subject> {
        let mut loaded = Vec::new();
        self.load_if_missing(Subject::Team(id), &mut loaded);
        for session in self.sessions_needed_for(Subject::Team(id)) {
            self.load_if_missing(Subject::Session(session), &mut loaded);
        }
        loaded
    }

    /// Runs a query on a subject. If the subject is not on the board, it is loaded for the query.
    pub(in crate::shell) fn with_loaded<T>(
        &mut self,
        subject: Subject,
        query: impl FnOnce(&Owner) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let is_missing = !self.board.contains(subject);
        if is_missing {
            self.board
                .load(&self.ledger, subject)
                .map_err(|why| ApiError::new(ErrorCode::Storage, why).next(Hint::VerifyLedger))?;
        }
        let result = query(self);
        if is_missing {
            self.board.evict(subject);
        }
        result
    }

    fn load_if_missing(&mut self, subject: Subject, loaded: &mut Vec<Subject>) {
        if self.board.contains(subject) {
            return;
        }
        let stream = stream::stream_id(subject);
        match self.board.load(&self.ledger, subject) {
            Ok(_) => loaded.push(subject),
            Err(why) if self.ledger.stream(&stream).is_ok_and(|found| found.is_some()) => {
                self.unreadable.insert(stream.to_string(), why);
            }
            // Nothing has this name. The reply will report the unknown name.
            Err(_) => {}
        }
    }

    fn run_of_request(&self, ask: &EngineRequest) -> Option<RunId> {
        match ask {
            EngineRequest::RunCommand { run, .. } => self.resolve::<Run>(run).ok(),
            EngineRequest::OpenRun { .. }
            | EngineRequest::Team(_)
            | EngineRequest::Open { .. }
            | EngineRequest::SessionCommand { .. }
            | EngineRequest::Report { .. }
            | EngineRequest::ToolCall { .. } => None,
        }
    }
}
