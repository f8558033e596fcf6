//! The owner's replies: rows, reasons and listings from durable state.

use std::{collections::BTreeMap, ops::ControlFlow};

use provost_api::{
    ApiError, ArchiveReply, CommunicationRow, ErrorCode, GraphReply, Hint, ReportReply,
    RunChangeReply, RunReply, RunRow, SessionReply, SessionRow, WhyReply,
};
use provost_core::{
    ids::{RunId, SessionId},
    run::Run,
    session::{Launch, Session},
};
use provost_ledger::{ArchiveResult, Ledger, ReadLedger, StreamId};
use serde::de::DeserializeOwned;

use super::{
    handle::EngineReply,
    listing::{self, Listing},
    owner::Owner,
    queries::{EngineStatus, ListedRows, LiveLaunch, SessionListing},
    refusals::read_error,
    supervised_command::to_holder_identity,
    unknown_holders,
};
use crate::{
    projection,
    stream::{self, Subject},
};

/// The maximum difference between two clock readings that are considered equal, in milliseconds.
const MAX_CLOCK_DIFFERENCE_MS: u64 = 2;

impl Owner {
    /// Returns a session.
    pub(super) fn session_reply(&self, named: &str) -> Result<SessionReply, ApiError> {
        let id = self.resolve::<Session>(named)?;
        let session = match self.board.session(id) {
            Some(session) => self.live_session_row(session),
            None => {
                self.stored_row(&stream::stream_id(id))?.ok_or_else(|| self.no_session(named))?
            }
        };
        Ok(SessionReply { ok: true, session })
    }

    /// Returns a run.
    pub(super) fn run_reply(&self, named: &str) -> Result<RunReply, ApiError> {
        let id = self.resolve::<Run>(named)?;
        let run = match self.board.run(id) {
            Some(run) => self.live_row(run),
            None => self.stored_row(&stream::stream_id(id))?.ok_or_else(|| self.no_run(named))?,
        };
        Ok(RunReply { ok: true, run })
    }

    pub(super) fn live_launches(&self) -> Vec<LiveLaunch> {
        let launches = self.board.sessions.iter().flat_map(|session| &session.launches);
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
            live_sessions: self.board.sessions.len(),
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
        let tasks = self.board.teams.bound_to(id).into_iter();
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
        let id = self.resolve::<Run>(named)?;
        self.with_loaded(id.into(), |owner| {
            let run = owner.board.run(id).ok_or_else(|| owner.no_run(named))?;
            let row = projection::graph::row(run, |id| owner.board.session(id));
            let graph = row.ok_or_else(|| {
                let message = format!("the run \"{named}\" has no plan: it is a single task");
                ApiError::new(ErrorCode::NotFound, message).next(Hint::Status(named.to_owned()))
            })?;
            Ok(GraphReply { ok: true, graph })
        })
    }

    /// Explains the state of a session.
    pub(super) fn explain(&mut self, named: &str) -> Result<WhyReply, ApiError> {
        let id = self.resolve::<Session>(named)?;
        self.with_loaded(id.into(), |owner| {
            let session = owner.board.session(id).ok_or_else(|| owner.no_session(named))?;
            let now = owner.clock.now().mono_ms;
            let (facts, rule, next_deadline) = owner.explain_shown(session, now);
            let session = owner.shown_row(session);
            Ok(WhyReply { ok: true, session, facts, rule, next_deadline })
        })
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
        let mut tasks = self.board.teams.bound_to(session).into_iter();
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
}

pub(super) fn run_changed(run: &Run) -> EngineReply {
    let row = projection::run::row(run);
    EngineReply::Run(Box::new(RunChangeReply { ok: true, id: row.id.clone(), run: row }))
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

/// Finds the newer row of a session, given the ledger's projection of it.
fn overlaid<'a>(overlay: &'a BTreeMap<String, String>, projection: &str) -> Option<&'a str> {
    if overlay.is_empty() {
        return None;
    }
    let row: SessionRow = serde_json::from_str(projection).ok()?;
    overlay.get(&row.id).map(String::as_str)
}
