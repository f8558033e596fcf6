//! Loads closed sessions, runs and teams that a batch of inputs or a query needs.

use provost_core::{
    ids::{RunId, SessionId, TeamId},
    run::Run,
};
use provost_ledger::ReadLedger;

use super::{
    super::{
        handle::{EngineRequest, PendingRequest},
        team_requests,
    },
    ObservationBatch, Owner,
};
use crate::stream::{self, Subject};

/// How long before a deadline to load sessions, because a decision takes a while.
const LOAD_AHEAD_MS: u64 = 1_000;

impl Owner {
    /// Loads the closed sessions, runs and teams that the inputs concern.
    pub(super) fn load_needed(
        &mut self,
        changes: &[PendingRequest],
        observed: &ObservationBatch,
    ) -> Vec<Subject> {
        let named = changes.iter().filter_map(|one| self.session_of_request(&one.request)?.ok());
        let paired = changes.iter().flat_map(|one| self.sessions_of_pair(&one.request));
        let sessions = named.chain(paired).chain(observed.sessions.iter().map(|one| one.session));
        let runs = changes.iter().filter_map(|one| self.run_of_request(&one.request));
        let runs = runs.chain(observed.runs.iter().map(|one| one.run));
        let tasks = changes.iter().filter_map(|one| self.team_of_request(&one.request));
        let tasks = tasks.chain(observed.tasks.iter().map(|one| one.task));
        // A deadline that is about to pass may need a session that was evicted.
        let mut soon = self.catching_up.reached(self.clock.now());
        soon.mono_ms = soon.mono_ms.saturating_add(LOAD_AHEAD_MS);
        let due = self.board.due_teams(soon.mono_ms).into_iter().map(Subject::Team);
        let due = due.chain(self.board.due(soon).into_iter().map(Subject::Session));
        let wanted: Vec<Subject> = sessions
            .map(Subject::Session)
            .chain(runs.map(Subject::Run))
            .chain(tasks.map(Subject::Team))
            .chain(due)
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
        let of_task = |id: &TeamId| {
            self.board.team(*id).map(team_requests::bound_sessions).unwrap_or_default()
        };
        match subject {
            Subject::Run(id) => self.board.run(id).map(Run::resumable_sessions).unwrap_or_default(),
            Subject::Team(id) => of_task(&id),
            Subject::Session(id) => self.board.teams_of(id).iter().flat_map(of_task).collect(),
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

    fn load_if_missing(&mut self, subject: Subject, loaded: &mut Vec<Subject>) {
        let (held, stream) = match subject {
            Subject::Session(id) => {
                (self.board.session(id).is_some(), stream::session_stream_id(id))
            }
            Subject::Run(id) => (self.board.run(id).is_some(), stream::run_stream_id(id)),
            Subject::Team(id) => (self.board.team(id).is_some(), stream::team_stream_id(id)),
        };
        if held {
            return;
        }
        match self.load(&stream) {
            Ok(_) => loaded.push(subject),
            Err(why) if self.ledger.stream(&stream).is_ok_and(|found| found.is_some()) => {
                self.unreadable.insert(stream.to_string(), why);
            }
            // Nothing has this name. The reply will report that.
            Err(_) => {}
        }
    }

    fn run_of_request(&self, ask: &EngineRequest) -> Option<RunId> {
        match ask {
            EngineRequest::RunCommand { run, .. } => self.resolve_run(run).ok(),
            EngineRequest::OpenRun { .. }
            | EngineRequest::Team(_)
            | EngineRequest::Open { .. }
            | EngineRequest::SessionCommand { .. }
            | EngineRequest::Report { .. }
            | EngineRequest::ToolCall { .. } => None,
        }
    }
}
