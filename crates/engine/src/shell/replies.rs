//! The owner's replies: rows, reasons and listings from durable state, and refusals that suggest
//! the next command.

use std::{collections::BTreeMap, ops::ControlFlow};

use provost_api::{
    AmbiguousId, ApiError, ArchiveReply, CommunicationRow, ErrorCode, GraphReply, Hint,
    LookedUpName, ReportReply, RunChangeReply, RunReply, RunRow, SessionReply, SessionRow, TeamRow,
    WhyReply,
};
use provost_core::{
    ids::{RunId, SessionId},
    run::{self, Run},
    session::{ExhaustedBudget, Launch, Reporter, Session, SessionRejection},
    text::quote_name,
};
use provost_ledger::{AppendError, ArchiveResult, Ledger, LedgerLoss, ReadLedger, StreamId};
use serde::de::DeserializeOwned;

use super::{
    handle::{EngineReply, EngineRequest},
    listing::{self, Listing},
    owner::Owner,
    queries::{EngineStatus, ListedRows, LiveLaunch, SessionListing},
    supervised_command::to_holder_identity,
    team_requests::TeamCaller,
    unknown_holders,
};
use crate::{
    history::not_found,
    projection,
    stream::{self, Subject},
};

/// The maximum difference between two clock readings that are considered equal, in milliseconds.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 2;

impl Owner {
    /// Returns a session.
    pub(super) fn session_reply(&self, named: &str) -> Result<SessionReply, ApiError> {
        let id = self.resolve(named)?;
        let session = match self.board.session(id) {
            Some(session) => self.live_session_row(session),
            None => self
                .stored_row(&stream::session_stream_id(id))?
                .ok_or_else(|| self.no_session(named))?,
        };
        Ok(SessionReply { ok: true, session })
    }

    /// Returns a run.
    pub(super) fn run_reply(&self, named: &str) -> Result<RunReply, ApiError> {
        let id = self.resolve_run(named)?;
        let run = match self.board.run(id) {
            Some(run) => self.live_row(run),
            None => {
                self.stored_row(&stream::run_stream_id(id))?.ok_or_else(|| self.no_run(named))?
            }
        };
        Ok(RunReply { ok: true, run })
    }

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

    pub(super) fn live_launches(&self) -> Vec<LiveLaunch> {
        let launches = self.board.sessions().flat_map(|session| &session.launches);
        launches
            .filter(|launch| !launch.is_gone())
            .map(|launch| LiveLaunch {
                launch: launch.id,
                holder: launch.holder.as_ref().map(to_holder_identity),
            })
            .collect()
    }

    pub(super) fn status(&self, registered: Vec<String>) -> EngineStatus {
        let ledger_loss = self.ledger.loss().map(|loss| loss.to_string());
        let unknown_kinds = self.ledger.read_only().map(ToString::to_string);
        EngineStatus {
            live_sessions: self.board.len(),
            running_agents: self.running_agents(),
            read_only: ledger_loss.clone().or(unknown_kinds),
            ledger_loss,
            off_board: registered.into_iter().filter(|name| !self.is_on_board(name)).collect(),
            shortages: self.shortages(),
        }
    }

    /// Whether a holder's directory belongs to a session or run on the board.
    fn is_on_board(&self, name: &str) -> bool {
        let Some((owner, launch)) = unknown_holders::owner_of(name) else { return true };
        match (self.board.session(owner), launch) {
            (Some(session), Some(launch)) => session.launches.iter().any(|own| own.id == launch),
            (Some(_), None) => true,
            (None, _) => self.board.run(RunId(owner.0)).is_some(),
        }
    }

    /// Returns the row of a session, including the time of its last output, which only the daemon knows.
    fn live_session_row(&self, session: &Session) -> SessionRow {
        let mut row = self.shown_row(session);
        let live = if row.sealed { None } else { session.current_launch() };
        row.last_activity_at = live.map(|launch| self.heard_at(launch));
        row.communication = self.member_communication(session.id).or(row.communication);
        row
    }

    /// Returns how a session receives messages from its team.
    fn member_communication(&self, id: SessionId) -> Option<CommunicationRow> {
        let tasks = self.board.teams_of(id).into_iter();
        tasks.filter_map(|task| self.board.team(task)).find_map(|task| {
            let mut bound = task.members.iter().filter(|member| member.is_bound());
            let member = bound.find(|member| member.session == Some(id))?;
            Some(projection::team::communication_row(task, member, &self.caller))
        })
    }

    /// Returns the wall-clock time of a launch's last output. Silence is measured on a clock that
    /// pauses while the machine sleeps, so the time is calculated backwards from now, unless it
    /// matches the recorded time.
    fn heard_at(&self, launch: &Launch) -> i64 {
        let (now, noted) = (self.clock.now(), launch.stream.last_heard);
        let heard = self.last_heard(launch.id).unwrap_or_default().max(noted.mono_ms);
        let silent = i64::try_from(now.mono_ms.saturating_sub(heard)).unwrap_or(i64::MAX);
        let moment = now.wall_ms.saturating_sub(silent);
        if moment.abs_diff(noted.wall_ms) <= MAX_CLOCK_DIFFERENCE_MS {
            noted.wall_ms
        } else {
            moment
        }
    }

    /// Returns the row of a stream, or `None` if the stream does not exist. A row that was damaged
    /// on disk is rebuilt.
    fn stored_row<T: DeserializeOwned>(&self, stream: &StreamId) -> Result<Option<T>, ApiError> {
        let Some(state) = self.ledger.stream(stream).map_err(|why| read_error(&why))? else {
            return Ok(None);
        };
        let parse = |text: String| serde_json::from_str(&text).ok();
        let rebuilt = || listing::rebuild_projection(&self.ledger, stream).and_then(parse);
        let damaged = || {
            let message = format!("the row and the events of {stream} are damaged");
            ApiError::new(ErrorCode::Storage, message).next(Hint::VerifyLedger)
        };
        state.projection.and_then(parse).or_else(rebuilt).ok_or_else(damaged).map(Some)
    }

    /// Returns the plan of a run.
    pub(super) fn graph_reply(&mut self, named: &str) -> Result<GraphReply, ApiError> {
        let id = self.resolve_run(named)?;
        let loaded = self.board.run(id).is_none();
        if loaded {
            self.load(&stream::run_stream_id(id))
                .map_err(|why| ApiError::new(ErrorCode::Storage, why).next(Hint::VerifyLedger))?;
        }
        let run = self.board.run(id).ok_or_else(|| self.no_run(named))?;
        let row = projection::graph::row(run, |id| self.board.session(id));
        if loaded {
            self.board.evict_run(id);
        }
        let graph = row.ok_or_else(|| {
            let message = format!("the run \"{named}\" has no plan: it is a single task");
            ApiError::new(ErrorCode::NotFound, message).next(Hint::Status(named.to_owned()))
        })?;
        Ok(GraphReply { ok: true, graph })
    }

    /// Lists runs.
    pub(super) fn list_runs(&self, listing: &Listing) -> Result<ListedRows, ApiError> {
        let mut rows = Vec::new();
        let shown = listing.visit_runs(&self.ledger, |projection| {
            rows.push(self.live_projection(projection).unwrap_or_else(|| projection.to_owned()));
            ControlFlow::Continue(())
        });
        Ok(ListedRows { rows, more: shown.map_err(|why| read_error(&why))? })
    }

    fn live_row(&self, run: &Run) -> RunRow {
        let shortage = self
            .waits
            .of_subject(Subject::Run(run.id))
            .map(|shortage| projection::session::shortage_row(&shortage));
        RunRow { shortage, ..crate::projection::run::live_row(run, |id| self.board.session(id)) }
    }

    /// Returns the live row of a run, given its stored projection. None if the run is not on the board.
    fn live_projection(&self, projection: &str) -> Option<String> {
        let projection: RunRow = serde_json::from_str(projection).ok()?;
        let run = self.board.run(projection.id.parse().ok()?)?;
        serde_json::to_string(&self.live_row(run)).ok()
    }

    /// Finds a run by its id, part of its id, or its name.
    pub(super) fn resolve_run(&self, text: &str) -> Result<RunId, ApiError> {
        if let Ok(id) = text.parse::<RunId>() {
            let held = self.board.run(id).is_some();
            let stored =
                || self.ledger.stream(&stream::run_stream_id(id)).map_err(|why| read_error(&why));
            return if held || stored()?.is_some() { Ok(id) } else { Err(self.no_run(text)) };
        }
        let found = listing::find_by_name(stream::RUN, &self.ledger, text)
            .map_err(|why| read_error(&why))?;
        match found.as_slice() {
            [(id, _)] => id.parse().map_err(|_| self.no_run(text)),
            [] => Err(self.no_run(text)),
            several => Err(ambiguous(text, &[stream::RUN], several)),
        }
    }

    pub(super) fn no_run(&self, text: &str) -> ApiError {
        not_found(&self.ledger, &[stream::RUN], text)
    }

    /// Explains the state of a session.
    pub(super) fn explain(&mut self, named: &str) -> Result<WhyReply, ApiError> {
        let id = self.resolve(named)?;
        let loaded = self.board.session(id).is_none();
        if loaded {
            self.load(&stream::session_stream_id(id))
                .map_err(|why| ApiError::new(ErrorCode::Storage, why).next(Hint::VerifyLedger))?;
        }
        let session = self.board.session(id).ok_or_else(|| self.no_session(named))?;
        let now = self.clock.now().mono_ms;
        let (facts, rule, next_deadline) = self.explain_shown(session, now);
        let session = self.shown_row(session);
        if loaded {
            self.board.evict_session(id);
        }
        Ok(WhyReply { ok: true, session, facts, rule, next_deadline })
    }

    /// Lists sessions, and the runs that match the same filter.
    pub(super) fn list_sessions(&self, listing: &Listing) -> Result<SessionListing, ApiError> {
        let (mut rows, overlay) = (Vec::new(), self.overlay());
        let more = listing
            .visit(&self.ledger, |projection| {
                rows.push(overlaid(&overlay, projection).unwrap_or(projection).to_owned());
                ControlFlow::Continue(())
            })
            .map_err(|why| read_error(&why))?;
        Ok(SessionListing {
            sessions: ListedRows { rows, more },
            runs: self.list_runs(listing)?.rows,
            shortages: self.shortages(),
        })
    }

    /// Moves closed streams into the archive, or only counts them. A session that belongs to an
    /// open team is kept, because the next message would resume it.
    pub(super) fn archive(&mut self, before: i64, apply: bool) -> Result<ArchiveReply, ApiError> {
        let closed = self.ledger.archivable(before, 10_000).map_err(|why| read_error(&why))?;
        let (kept, streams): (Vec<_>, Vec<_>) =
            closed.into_iter().partition(|stream| self.is_in_open_team(stream));
        let archived = if apply && !streams.is_empty() {
            self.ledger
                .archive(&streams)
                .map_err(|why| ApiError::new(ErrorCode::Storage, why.to_string()))?
        } else {
            self.archivable(&streams).map_err(|why| read_error(&why))?
        };
        let ArchiveResult { streams, records, file } = archived;
        Ok(ArchiveReply { ok: true, streams, records, file, kept: kept.len() })
    }

    fn is_in_open_team(&self, stream: &StreamId) -> bool {
        if stream.kind() != stream::SESSION {
            return false;
        }
        let Ok(session) = stream.key().parse() else { return false };
        let mut tasks = self.board.teams_of(session).into_iter();
        tasks.any(|id| self.board.team(id).is_some_and(|task| !task.phase.is_over()))
    }

    /// Counts the records that would be moved by archiving these streams.
    fn archivable(&self, streams: &[StreamId]) -> Result<ArchiveResult, provost_ledger::Error> {
        let mut records = 0;
        for stream in streams {
            records += self.ledger.stream(stream)?.map_or(0, |state| state.head.version);
        }
        Ok(ArchiveResult { streams: streams.len(), records, file: None })
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
            EngineRequest::SessionCommand { session, .. } => Some(self.resolve(session)),
            EngineRequest::Report { session, .. } => {
                session.as_deref().map(|session| self.resolve(session))
            }
            EngineRequest::Open { .. }
            | EngineRequest::OpenRun { .. }
            | EngineRequest::RunCommand { .. }
            | EngineRequest::Team(_) => None,
        }
    }

    /// Finds a session by its id, part of its id, or its name.
    pub(super) fn resolve(&self, text: &str) -> Result<SessionId, ApiError> {
        if let Ok(id) = text.parse::<SessionId>() {
            let held = self.board.session(id).is_some();
            let stored = || {
                self.ledger.stream(&stream::session_stream_id(id)).map_err(|why| read_error(&why))
            };
            return if held || stored()?.is_some() { Ok(id) } else { Err(self.no_session(text)) };
        }
        let found = listing::find_by_name(stream::SESSION, &self.ledger, text)
            .map_err(|why| read_error(&why))?;
        match found.as_slice() {
            [] => Err(self.no_session(text)),
            [(id, _)] => id.parse().map_err(|_| self.no_session(text)),
            several => Err(ambiguous(text, &[stream::SESSION], several)),
        }
    }

    /// Describes why a session is not on the board: either it does not exist or it cannot be read.
    pub(super) fn not_loaded(&self, id: SessionId) -> ApiError {
        match self.unreadable.get(&stream::session_stream_id(id).to_string()) {
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

/// Returns the error for an ambiguous text, with the candidates and the commands that list them.
pub(crate) fn ambiguous(text: &str, kinds: &[&str], several: &[(String, String)]) -> ApiError {
    let what = if let [kind] = kinds { format!("{kind}s") } else { "things".to_owned() };
    let short = |id: &str| id.parse().map_or_else(|_| id.to_owned(), |id: SessionId| id.short());
    let ids: Vec<String> = several.iter().map(|(id, _)| short(id)).collect();
    let names: Vec<String> =
        ids.iter().zip(several).map(|(id, (_, name))| format!("{id} ({name})")).collect();
    let message = format!("\"{text}\" matches several {what}: {}", names.join(", "));
    let mut lists: Vec<Hint> = kinds
        .iter()
        .map(|kind| if *kind == stream::TEAM { Hint::ListTeams } else { Hint::List })
        .collect();
    lists.dedup();
    let error = ApiError::new(ErrorCode::BadRequest, message);
    let error = lists.into_iter().fold(error, ApiError::next);
    ApiError { ambiguous: Some(Box::new(AmbiguousId { text: text.to_owned(), ids })), ..error }
}

pub(super) fn already_adopted(other: &Session) -> ApiError {
    let (name, id) = (&other.spec.name, other.id.short());
    let what = if other.spec.adopted.is_some() { "already adopted" } else { "run by Provost" };
    let message = format!("this agent is {what} as session {name} ({id})");
    ApiError::new(ErrorCode::Refused, message).next(Hint::Status(id))
}

/// Returns the error for a new run whose name refers to an open run.
pub(super) fn run_name_taken(other: &Run) -> ApiError {
    let (name, id) = (quote_name(&other.spec.name), other.id.short());
    let message =
        format!("run {id} is already named {name} and has not ended: choose another name");
    ApiError::new(ErrorCode::Refused, message).next(Hint::Status(id))
}

pub(super) fn run_changed(run: &Run) -> EngineReply {
    let row = projection::run::row(run);
    EngineReply::Run(Box::new(RunChangeReply { ok: true, id: row.id.clone(), run: row }))
}

pub(super) fn run_refused(why: &run::RunRejection, named: &str) -> ApiError {
    let code = match why {
        run::RunRejection::BudgetNotRaised(_) => ErrorCode::BadRequest,
        run::RunRejection::NothingNew
        | run::RunRejection::Sealed(_)
        | run::RunRejection::Imported
        | run::RunRejection::StillActive
        | run::RunRejection::NothingToResume
        | run::RunRejection::NoPlanToApprove
        | run::RunRejection::NoPendingLanding(_)
        | run::RunRejection::BudgetUsedUp(_) => ErrorCode::Refused,
    };
    let next = match why {
        run::RunRejection::BudgetUsedUp(_) => {
            Hint::RaiseLimit { id: named.to_owned(), tokens: true, turns: false }
        }
        run::RunRejection::Sealed("failed" | "cancelled") => Hint::Resume(named.to_owned()),
        run::RunRejection::Imported => Hint::TakeOver(named.to_owned()),
        run::RunRejection::BudgetNotRaised(_)
        | run::RunRejection::NothingNew
        | run::RunRejection::Sealed(_)
        | run::RunRejection::StillActive
        | run::RunRejection::NoPlanToApprove
        | run::RunRejection::NoPendingLanding(_)
        | run::RunRejection::NothingToResume => Hint::Status(named.to_owned()),
    };
    ApiError::new(code, why.to_string()).next(next)
}

pub(super) fn session_changed(session: &Session) -> EngineReply {
    let session = projection::session::row(session);
    EngineReply::Session(Box::new(SessionReply { ok: true, session }))
}

pub(super) fn report_reply(session: &Session, status: &str) -> EngineReply {
    let judged = session.judgement();
    let mut next = vec![Hint::Status(session.id.short())];
    if status == "recorded_late" {
        next.push(Hint::AcceptWork(session.id.short()));
    }
    EngineReply::Report(Box::new(ReportReply {
        ok: true,
        status: status.to_owned(),
        id: session.id.to_string(),
        state: judged.state.into(),
        sealed: session.attempt().is_sealed(),
        next,
    }))
}

/// Describes why a change is refused. The hints contain the session's id, because a name might have
/// to be quoted for the shell.
pub(super) fn refused_change(
    why: &SessionRejection,
    session: Option<&Session>,
    id: SessionId,
) -> ApiError {
    let named = id.short();
    let code = match why {
        SessionRejection::UnknownLaunch(_) | SessionRejection::UnknownRequest(_) => {
            ErrorCode::NotFound
        }
        SessionRejection::LimitNotRaised { .. }
        | SessionRejection::BudgetNotRaised(_)
        | SessionRejection::RunsAsShellCommand(_)
        | SessionRejection::NothingToType
        | SessionRejection::InvalidReply(..) => ErrorCode::BadRequest,
        SessionRejection::NothingNew
        | SessionRejection::RequestSettled(..)
        | SessionRejection::BeingStopped(_)
        | SessionRejection::ScreenOnly(_)
        | SessionRejection::RequestRevision { .. }
        | SessionRejection::Sealed(_)
        | SessionRejection::NothingToCancel { .. }
        | SessionRejection::Cancelled
        | SessionRejection::Imported(_)
        | SessionRejection::NotRunning
        | SessionRejection::StopExternally
        | SessionRejection::ExternalAgentEnded
        | SessionRejection::ExternalAgent
        | SessionRejection::Stopping
        | SessionRejection::StoppedFirst
        | SessionRejection::NoTurn
        | SessionRejection::HasNoTurns(_)
        | SessionRejection::CannotCompact(_)
        | SessionRejection::CannotStartThread(_)
        | SessionRejection::NoChannel
        | SessionRejection::NoTranscript
        | SessionRejection::NothingTyped(_)
        | SessionRejection::AnswerLost(..)
        | SessionRejection::AtWork
        | SessionRejection::WorktreeRemoved(_)
        | SessionRejection::QueueFull(_)
        | SessionRejection::BudgetUsedUp(_)
        | SessionRejection::ReportBudget { .. }
        | SessionRejection::ConversationGone
        | SessionRejection::BelongsToRun(_)
        | SessionRejection::OneShotBusy(_)
        | SessionRejection::OneShotWithoutConversation(_)
        | SessionRejection::TakesNoInstruction(_) => ErrorCode::Refused,
    };
    let next = match why {
        SessionRejection::BudgetUsedUp(used_up) => {
            let ExhaustedBudget { over_tokens, over_turns, .. } = *used_up;
            Hint::RaiseLimit { id: named, tokens: over_tokens, turns: over_turns }
        }
        SessionRejection::StoppedFirst => Hint::ResumeWithText(named),
        SessionRejection::Imported(_) => Hint::TakeOver(named),
        SessionRejection::ScreenOnly(_) => Hint::Attach(named),
        SessionRejection::ExternalAgentEnded => Hint::Discover,
        SessionRejection::BelongsToRun(run) => Hint::Resume(run.short()),
        SessionRejection::WorktreeRemoved(Some(branch)) => {
            let then = Box::new(spawn_command(session));
            Hint::SwitchBranch { branch: branch.clone(), then }
        }
        SessionRejection::NothingNew
        | SessionRejection::Sealed(_)
        | SessionRejection::NothingToCancel { .. }
        | SessionRejection::ReportBudget { .. }
        | SessionRejection::WorktreeRemoved(None)
        | SessionRejection::UnknownLaunch(_)
        | SessionRejection::UnknownRequest(_)
        | SessionRejection::RequestSettled(..)
        | SessionRejection::BeingStopped(_)
        | SessionRejection::RequestRevision { .. }
        | SessionRejection::Cancelled
        | SessionRejection::NotRunning
        | SessionRejection::StopExternally
        | SessionRejection::ExternalAgent
        | SessionRejection::Stopping
        | SessionRejection::NoTurn
        | SessionRejection::HasNoTurns(_)
        | SessionRejection::CannotCompact(_)
        | SessionRejection::CannotStartThread(_)
        | SessionRejection::NoChannel
        | SessionRejection::NoTranscript
        | SessionRejection::NothingTyped(_)
        | SessionRejection::AnswerLost(..)
        | SessionRejection::RunsAsShellCommand(_)
        | SessionRejection::NothingToType
        | SessionRejection::AtWork
        | SessionRejection::QueueFull(_)
        | SessionRejection::ConversationGone
        | SessionRejection::OneShotBusy(_)
        | SessionRejection::OneShotWithoutConversation(_)
        | SessionRejection::TakesNoInstruction(_)
        | SessionRejection::LimitNotRaised { .. }
        | SessionRejection::BudgetNotRaised(_)
        | SessionRejection::InvalidReply(..) => Hint::Status(named),
    };
    ApiError::new(code, why.to_string()).next(next)
}

/// Returns the command that starts a session like this one.
fn spawn_command(session: Option<&Session>) -> Hint {
    match session.map(|session| &session.spec.agent) {
        Some(agent) if agent.interface.has_turns() => Hint::SpawnAgent(agent.name.clone()),
        Some(_) | None => Hint::SpawnCommand,
    }
}

/// Describes why a change is refused. For an external agent, the suggested command shows its pane,
/// if the pane is known.
pub(super) fn refused_for_external(
    why: &SessionRejection,
    session: Option<&Session>,
    id: SessionId,
) -> ApiError {
    let error = refused_change(why, session, id);
    let there = matches!(
        why,
        SessionRejection::ExternalAgent
            | SessionRejection::StopExternally
            | SessionRejection::NoTranscript
    );
    let command = if there { session.and_then(projection::session::pane_command) } else { None };
    match command {
        Some(command) => ApiError { next: [vec![command.into()], error.next].concat(), ..error },
        None => error,
    }
}

/// Refuses a change that is larger than the ledger accepts.
pub(super) fn too_large_error(why: &AppendError) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, format!("nothing was changed: {why}"))
}

/// Refuses a change to a ledger that lost events.
pub(super) fn loss_error(loss: &LedgerLoss) -> ApiError {
    let message = format!("nothing can be changed: {loss}");
    ApiError::new(ErrorCode::Storage, message).next(Hint::RecoverLedger)
}

pub(super) fn write_error(why: &AppendError) -> ApiError {
    let message = format!("nothing was changed; the ledger could not be written: {why}");
    ApiError::new(ErrorCode::Storage, message).next(Hint::Doctor)
}

/// Returns the error for an agent whose report is kept in memory.
pub(super) fn report_kept_error(why: &AppendError) -> ApiError {
    let message = format!(
        "the report is not recorded yet; the ledger could not be written: {why}; the daemon keeps it in memory and \
         records it once there is disk space, unless the daemon ends first"
    );
    ApiError::new(ErrorCode::Storage, message).next(Hint::Doctor)
}

pub(crate) fn read_error(why: &provost_ledger::Error) -> ApiError {
    ApiError::new(ErrorCode::Storage, format!("the ledger could not be read: {why}"))
        .next(Hint::VerifyLedger)
}

/// Finds the newer row of a session, given the ledger's projection of it.
fn overlaid<'a>(overlay: &'a BTreeMap<String, String>, projection: &str) -> Option<&'a str> {
    if overlay.is_empty() {
        return None;
    }
    let row: SessionRow = serde_json::from_str(projection).ok()?;
    overlay.get(&row.id).map(String::as_str)
}
