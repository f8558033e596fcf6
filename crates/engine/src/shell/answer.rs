//! The owner's replies: rows, reasons and listings from durable state, and refusals with the next
//! command.

use std::{collections::BTreeMap, ops::ControlFlow};

use provost_api::{ApiError, Code, CommunicationRow, RunRow, SessionRow};
use provost_core::{
    ids::{RunId, SessionId},
    run::{self, Run},
    session::{Launch, LaunchPhase, Rejected, Reporter, Session},
};
use provost_ledger::{AppendError, Archived, Ledger, Loss, ReadLedger, StreamId};
use serde_json::{Value, json};

use super::{
    handle::Ask,
    listing::{self, Extent, Listing},
    owner::Owner,
    unknown,
};
use crate::{
    card, graph_card, run_card,
    stream::{self, Subject},
    task_card,
};

/// The maximum difference between two clock readings, in milliseconds.
const CLOCKS_APART: u64 = 2;

/// Whether an agent that Provost started runs for a session, whatever the state of its work.
fn has_agent(session: &Session) -> bool {
    let runs =
        |launch: &Launch| matches!(launch.phase, LaunchPhase::Running { .. }) && !launch.adopted;
    session.launches.last().is_some_and(runs)
}

impl Owner {
    /// Answers a read-only request from durable state.
    pub(super) fn answer(&mut self, ask: &Ask) -> Result<String, ApiError> {
        match ask {
            Ask::Row { session } => {
                let id = self.resolve(session)?;
                match self.board.session(id) {
                    Some(session) => Ok(self.looked_at(session)),
                    None => self.stored_row(id, session),
                }
            }
            Ask::Why { session } => self.why(session),
            Ask::List(listing) => self.list(listing),
            Ask::Live => {
                let live = self.board.sessions().flat_map(|session| &session.launches);
                let live: Vec<Value> = live
                    .filter(|launch| !launch.is_gone())
                    .map(|launch| json!({"launch": launch.id, "holder": launch.holder}))
                    .collect();
                Ok(json!(live).to_string())
            }
            Ask::Status { registered } => {
                let loss = self.ledger.loss().map(|loss| loss.to_string());
                let unknown_kinds = self.ledger.read_only().map(ToString::to_string);
                let off_board: Vec<&String> =
                    registered.iter().filter(|name| !self.is_on_board(name)).collect();
                Ok(json!({
                    "live": self.board.len(),
                    "agents": self.board.sessions().filter(|session| has_agent(session)).count(),
                    "read_only": loss.clone().or(unknown_kinds),
                    "ledger_loss": loss,
                    "off_board": off_board,
                    "unreadable": self.unreadable,
                    "shortages": self.shortages(),
                })
                .to_string())
            }
            Ask::Overlay => {
                let rows: Vec<SessionRow> = self.overlaid_rows().collect();
                Ok(json!({"rows": rows, "shortages": self.shortages()}).to_string())
            }
            Ask::Archive { before_wall_ms, apply } => self.archive(*before_wall_ms, *apply),
            Ask::RunRow { run } => {
                let id = self.resolve_run(run)?;
                match self.board.run(id) {
                    Some(run) => Ok(json!({"ok": true, "run": self.live_row(run)}).to_string()),
                    None => self.stored_run(id, run),
                }
            }
            Ask::Graph { run } => self.graph(run),
            Ask::Runs { limit } => self.list_runs(*limit),
            Ask::Task(ask) => self.answer_task(ask),
            Ask::Open { .. }
            | Ask::Do { .. }
            | Ask::Report { .. }
            | Ask::Call { .. }
            | Ask::OpenRun { .. }
            | Ask::DoRun { .. } => {
                unreachable!("changes are decided, not answered")
            }
        }
    }

    /// Whether a session or run on the board owns a holder's directory.
    fn is_on_board(&self, name: &str) -> bool {
        let Some((owner, launch)) = unknown::owner_of(name) else { return true };
        match (self.board.session(owner), launch) {
            (Some(session), Some(launch)) => session.launches.iter().any(|own| own.id == launch),
            (Some(_), None) => true,
            (None, _) => self.board.run(RunId(owner.0)).is_some(),
        }
    }

    /// Returns the row of a session with the time it was last heard, which only the daemon knows.
    fn looked_at(&self, session: &Session) -> String {
        let mut row = self.shown_row(session);
        let live = if row.sealed { None } else { session.current_launch() };
        row.heard_at = live.map(|launch| self.heard_at(launch));
        row.communication = self.as_member(session.id).or(row.communication);
        json!({"ok": true, "session": row}).to_string()
    }

    /// Returns how a session receives messages from its team.
    fn as_member(&self, id: SessionId) -> Option<CommunicationRow> {
        let tasks = self.board.tasks_of(id).into_iter();
        tasks.filter_map(|task| self.board.task(task)).find_map(|task| {
            let mut bound = task.members.iter().filter(|member| member.is_bound());
            let member = bound.find(|member| member.session == Some(id))?;
            Some(task_card::communication(task, member, &self.caller))
        })
    }

    /// Returns the wall time at which a launch was last heard. Silence is measured on a clock that
    /// pauses while the machine sleeps, so the time is counted back from now unless it matches the
    /// recorded time.
    fn heard_at(&self, launch: &Launch) -> i64 {
        let (now, noted) = (self.clock.now(), launch.stream.heard);
        let heard = self.heard_of(launch.id).unwrap_or_default().max(noted.mono_ms);
        let silent = i64::try_from(now.mono_ms.saturating_sub(heard)).unwrap_or(i64::MAX);
        let moment = now.wall_ms.saturating_sub(silent);
        if moment.abs_diff(noted.wall_ms) <= CLOCKS_APART { noted.wall_ms } else { moment }
    }

    fn stored_row(&self, id: SessionId, named: &str) -> Result<String, ApiError> {
        let state = self.ledger.stream(&stream::stream_id(id)).map_err(|why| unread(&why))?;
        let card = state.and_then(|state| state.card).ok_or_else(|| self.missing(named))?;
        Ok(format!("{{\"ok\":true,\"session\":{card}}}"))
    }

    fn stored_run(&self, id: RunId, named: &str) -> Result<String, ApiError> {
        let state = self.ledger.stream(&stream::run_stream_id(id)).map_err(|why| unread(&why))?;
        let card = state.and_then(|state| state.card).ok_or_else(|| self.no_run(named))?;
        Ok(format!("{{\"ok\":true,\"run\":{card}}}"))
    }

    fn graph(&mut self, named: &str) -> Result<String, ApiError> {
        let id = self.resolve_run(named)?;
        let loaded = self.board.run(id).is_none();
        if loaded {
            self.load(&stream::run_stream_id(id))
                .map_err(|why| ApiError::new(Code::Storage, why).next("provost ledger verify"))?;
        }
        let run = self.board.run(id).ok_or_else(|| self.no_run(named))?;
        let row = graph_card::row(run, |id| self.board.session(id));
        if loaded {
            self.board.let_run_go(id);
        }
        let row = row.ok_or_else(|| {
            let message = format!("the run \"{named}\" has no plan");
            ApiError::new(Code::NotFound, message).next(format!("provost status {named}"))
        })?;
        Ok(json!({"ok": true, "graph": row}).to_string())
    }

    fn list_runs(&self, limit: usize) -> Result<String, ApiError> {
        let listing = Listing { extent: Extent::LiveAnd(limit), ..Listing::default() };
        let (cards, more) = self.runs(&listing)?;
        Ok(format!("{{\"ok\":true,\"runs\":[{}],\"more\":{more}}}", cards.join(",")))
    }

    /// Returns the runs of a listing, and whether there are more.
    fn runs(&self, listing: &Listing) -> Result<(Vec<String>, bool), ApiError> {
        let mut cards = Vec::new();
        let shown = listing.visit_runs(&self.ledger, |card| {
            cards.push(self.live_card(card).unwrap_or_else(|| card.to_owned()));
            ControlFlow::Continue(())
        });
        Ok((cards, shown.map_err(|why| unread(&why))?))
    }

    fn live_row(&self, run: &Run) -> RunRow {
        let shortage =
            self.waits.of_subject(Subject::Run(run.id)).map(|shortage| card::shortage(&shortage));
        RunRow { shortage, ..run_card::live(run, |id| self.board.session(id)) }
    }

    /// Returns the live row of a run on the board, given its stored projection.
    fn live_card(&self, card: &str) -> Option<String> {
        let card: RunRow = serde_json::from_str(card).ok()?;
        let run = self.board.run(card.id.parse().ok()?)?;
        serde_json::to_string(&self.live_row(run)).ok()
    }

    /// Resolves a run by its id, a part of it, or its name.
    pub(super) fn resolve_run(&self, text: &str) -> Result<RunId, ApiError> {
        if let Ok(id) = text.parse::<RunId>() {
            let held = self.board.run(id).is_some();
            let stored =
                || self.ledger.stream(&stream::run_stream_id(id)).map_err(|why| unread(&why));
            return if held || stored()?.is_some() { Ok(id) } else { Err(self.no_run(text)) };
        }
        let found = listing::find(stream::RUN, &self.ledger, text).map_err(|why| unread(&why))?;
        match found.as_slice() {
            [(id, _)] => id.parse().map_err(|_| self.no_run(text)),
            [] => Err(self.no_run(text)),
            several => Err(ambiguous(text, &[stream::RUN], several)),
        }
    }

    pub(super) fn no_run(&self, text: &str) -> ApiError {
        let message = format!("there is no run \"{text}\"");
        ApiError::new(Code::NotFound, message).next("provost ls --all")
    }

    fn why(&mut self, named: &str) -> Result<String, ApiError> {
        let id = self.resolve(named)?;
        let loaded = self.board.session(id).is_none();
        if loaded {
            self.load(&stream::stream_id(id))
                .map_err(|why| ApiError::new(Code::Storage, why).next("provost ledger verify"))?;
        }
        let session = self.board.session(id).ok_or_else(|| self.missing(named))?;
        let now = self.clock.now().mono_ms;
        let (facts, rule) = card::why(self.preview.get(&id).unwrap_or(session), now);
        let next = session
            .deadline()
            .map(|(at, due)| format!("{} in {} ms", due.word(), at.saturating_sub(now)));
        let row = self.shown_row(session);
        let reply = json!({
            "ok": true, "session": row, "facts": facts, "rule": rule, "next_deadline": next,
        });
        if loaded {
            self.board.let_go(id);
        }
        Ok(reply.to_string())
    }

    fn list(&self, listing: &Listing) -> Result<String, ApiError> {
        let mut text = String::from("{\"ok\":true,\"sessions\":[");
        let (mut first, overlay) = (true, self.overlay());
        let more = listing
            .visit(&self.ledger, |card| {
                if !std::mem::take(&mut first) {
                    text.push(',');
                }
                text.push_str(overlaid(&overlay, card).unwrap_or(card));
                ControlFlow::Continue(())
            })
            .map_err(|why| unread(&why))?;
        let runs = self.runs(listing)?.0.join(",");
        let shortages = json!(self.shortages());
        text.push_str(&format!("],\"runs\":[{runs}],\"shortages\":{shortages},\"more\":{more}}}"));
        Ok(text)
    }

    /// Moves closed streams into the archive, or counts them. A session of an open team is kept,
    /// because the next message resumes it.
    fn archive(&mut self, before: i64, apply: bool) -> Result<String, ApiError> {
        let closed = self.ledger.archivable(before, 10_000).map_err(|why| unread(&why))?;
        let (kept, streams): (Vec<_>, Vec<_>) =
            closed.into_iter().partition(|stream| self.works_for_a_task(stream));
        let archived = if apply && !streams.is_empty() {
            self.ledger
                .archive(&streams)
                .map_err(|why| ApiError::new(Code::Storage, why.to_string()))?
        } else {
            self.archivable(&streams).map_err(|why| unread(&why))?
        };
        let Archived { streams, records, file } = archived;
        let reply = json!({
            "ok": true, "streams": streams, "records": records, "file": file, "kept": kept.len(),
        });
        Ok(reply.to_string())
    }

    fn works_for_a_task(&self, stream: &StreamId) -> bool {
        if stream.kind() != stream::SESSION {
            return false;
        }
        let Ok(session) = stream.key().parse() else { return false };
        let mut tasks = self.board.tasks_of(session).into_iter();
        tasks.any(|id| self.board.task(id).is_some_and(|task| !task.phase.is_over()))
    }

    /// Counts the records that archiving these streams would move.
    fn archivable(&self, streams: &[StreamId]) -> Result<Archived, provost_ledger::Error> {
        let mut records = 0;
        for stream in streams {
            records += self.ledger.stream(stream)?.map_or(0, |state| state.head.version);
        }
        Ok(Archived { streams: streams.len(), records, file: None })
    }

    /// Resolves the session that a change is about. `None` for a change that opens one.
    pub(super) fn subject(&self, ask: &Ask) -> Option<Result<SessionId, ApiError>> {
        match ask {
            Ask::Report { from: Reporter::Launch(launch) | Reporter::Dropped(launch), .. } => {
                Some(Ok(launch.session))
            }
            Ask::Call { launch, .. } => Some(Ok(launch.session)),
            Ask::Do { session, .. } => Some(self.resolve(session)),
            Ask::Report { session, .. } => session.as_deref().map(|session| self.resolve(session)),
            Ask::Open { .. }
            | Ask::OpenRun { .. }
            | Ask::DoRun { .. }
            | Ask::RunRow { .. }
            | Ask::Graph { .. }
            | Ask::Runs { .. }
            | Ask::Task(_)
            | Ask::Row { .. }
            | Ask::Why { .. }
            | Ask::List(_)
            | Ask::Live
            | Ask::Status { .. }
            | Ask::Overlay
            | Ask::Archive { .. } => None,
        }
    }

    /// Resolves a session by its id, a part of it, or its name.
    pub(super) fn resolve(&self, text: &str) -> Result<SessionId, ApiError> {
        if let Ok(id) = text.parse::<SessionId>() {
            let held = self.board.session(id).is_some();
            let stored = || self.ledger.stream(&stream::stream_id(id)).map_err(|why| unread(&why));
            return if held || stored()?.is_some() { Ok(id) } else { Err(self.missing(text)) };
        }
        let found =
            listing::find(stream::SESSION, &self.ledger, text).map_err(|why| unread(&why))?;
        match found.as_slice() {
            [] => Err(self.missing(text)),
            [(id, _)] => id.parse().map_err(|_| self.missing(text)),
            several => Err(ambiguous(text, &[stream::SESSION], several)),
        }
    }

    /// Describes why a session is not on the board: it does not exist, or cannot be read.
    pub(super) fn unloaded(&self, id: SessionId) -> ApiError {
        match self.unreadable.get(&stream::stream_id(id).to_string()) {
            None => self.missing(&id.to_string()),
            Some(why) => {
                let message = format!("session {id} cannot be read, so nothing was changed: {why}");
                ApiError::new(Code::Storage, message).next("provost ledger verify")
            }
        }
    }

    pub(super) fn missing(&self, text: &str) -> ApiError {
        let message = format!("there is no session \"{text}\"");
        ApiError::new(Code::NotFound, message).next("provost ls --all")
    }
}

/// Lists the candidates for an ambiguous text, and the commands that list them.
pub(crate) fn ambiguous(text: &str, kinds: &[&str], several: &[(String, String)]) -> ApiError {
    let what = if let [kind] = kinds { format!("{kind}s") } else { "things".to_owned() };
    let names: Vec<String> = several.iter().map(|(id, name)| format!("{id} ({name})")).collect();
    let message = format!("\"{text}\" matches several {what}: {}", names.join(", "));
    let mut lists: Vec<&str> = kinds
        .iter()
        .map(|kind| if *kind == stream::TASK { "provost task ls" } else { "provost ls" })
        .collect();
    lists.dedup();
    lists.into_iter().fold(ApiError::new(Code::BadRequest, message), ApiError::next)
}

pub(super) fn adopted_already(other: &Session) -> ApiError {
    let (name, id) = (&other.spec.name, other.id.short());
    let what = if other.spec.adopted.is_some() { "already adopted" } else { "run by Provost" };
    let message = format!("this agent is {what} as session {name} ({id})");
    ApiError::new(Code::Refused, message).next(format!("provost status {id}"))
}

pub(super) fn run_reply(run: &Run) -> String {
    json!({"ok": true, "id": run.id.to_string(), "run": run_card::row(run)}).to_string()
}

pub(super) fn run_refused(why: &run::Rejected, named: &str) -> ApiError {
    let code = match why {
        run::Rejected::BudgetNotRaised(_) => Code::BadRequest,
        run::Rejected::Nothing
        | run::Rejected::Sealed(_)
        | run::Rejected::Cancelled
        | run::Rejected::Imported
        | run::Rejected::GoingOn
        | run::Rejected::NothingLeft
        | run::Rejected::NoPlanToApprove
        | run::Rejected::NotHeld(_)
        | run::Rejected::UsedUp(_) => Code::Refused,
    };
    let next = match why {
        run::Rejected::UsedUp(_) => format!("provost limit {named} --tokens MORE"),
        run::Rejected::Sealed("failed" | "cancelled") => format!("provost resume {named}"),
        run::Rejected::Imported => format!("provost resume {named} --take-over"),
        run::Rejected::BudgetNotRaised(_)
        | run::Rejected::Nothing
        | run::Rejected::Sealed(_)
        | run::Rejected::Cancelled
        | run::Rejected::GoingOn
        | run::Rejected::NoPlanToApprove
        | run::Rejected::NotHeld(_)
        | run::Rejected::NothingLeft => format!("provost status {named}"),
    };
    ApiError::new(code, why.to_string()).next(next)
}

pub(super) fn session_reply(session: &Session) -> String {
    json!({"ok": true, "session": card::row(session)}).to_string()
}

pub(super) fn report_reply(session: &Session, standing: &str) -> String {
    let judged = session.judgement();
    let mut next = vec![format!("provost status {}", session.id.short())];
    if standing == "recorded_late" {
        next.push(format!("provost resolve {} --as accepted --because TEXT", session.id.short()));
    }
    json!({
        "ok": true,
        "standing": standing,
        "id": session.id.to_string(),
        "state": judged.state.word(),
        "sealed": session.attempt().is_sealed(),
        "next": next,
    })
    .to_string()
}

/// Describes why a change is refused. The hints name the session by its id: a name may need shell
/// quoting.
pub(super) fn refused(why: &Rejected, session: SessionId) -> ApiError {
    let id = session.to_string();
    let named = &id[id.len() - SHORT..];
    let code = match why {
        Rejected::UnknownLaunch(_) | Rejected::UnknownRequest(_) => Code::NotFound,
        Rejected::LimitNotRaised { .. }
        | Rejected::BudgetNotRaised(_)
        | Rejected::RunAsCommand
        | Rejected::NothingToType
        | Rejected::Misfit(..) => Code::BadRequest,
        Rejected::Nothing
        | Rejected::RequestSettled(..)
        | Rejected::BeingStopped(_)
        | Rejected::AtItsScreen(_)
        | Rejected::RequestRevision { .. }
        | Rejected::Sealed(_)
        | Rejected::Cancelled
        | Rejected::Imported(_)
        | Rejected::NotRunning
        | Rejected::NotOurs
        | Rejected::EndedElsewhere
        | Rejected::NotTouched
        | Rejected::Stopping
        | Rejected::EndsUnheard
        | Rejected::NoTurn
        | Rejected::HasNoTurns(_)
        | Rejected::CannotCompact(_)
        | Rejected::OneThread(_)
        | Rejected::NoWayIn
        | Rejected::Unrecorded
        | Rejected::NothingTyped(_)
        | Rejected::AnswerLost(..)
        | Rejected::AtWork
        | Rejected::PlaceGone(_)
        | Rejected::QueueFull(_)
        | Rejected::BudgetUsedUp(_)
        | Rejected::ReportBudget { .. }
        | Rejected::ConversationGone
        | Rejected::OfRun(_)
        | Rejected::WorksOnce(_)
        | Rejected::WorkedOnce(_)
        | Rejected::TakesNoInstruction(_) => Code::Refused,
    };
    let next = match why {
        Rejected::Sealed(_) => format!("provost resolve {named} --as accepted --because TEXT"),
        Rejected::BudgetUsedUp(used_up) => format!("provost limit {named} {}", used_up.raise),
        Rejected::EndsUnheard => format!("provost resume {named} TEXT"),
        Rejected::Imported(_) => format!("provost resume {named} --take-over"),
        Rejected::AtItsScreen(_) => format!("provost attach {named}"),
        Rejected::EndedElsewhere => "provost discover".to_owned(),
        Rejected::OfRun(run) => format!("provost resume {}", run.short()),
        Rejected::PlaceGone(Some(branch)) => format!("git switch {branch} && provost spawn"),
        Rejected::Nothing
        | Rejected::ReportBudget { .. }
        | Rejected::PlaceGone(None)
        | Rejected::UnknownLaunch(_)
        | Rejected::UnknownRequest(_)
        | Rejected::RequestSettled(..)
        | Rejected::BeingStopped(_)
        | Rejected::RequestRevision { .. }
        | Rejected::Cancelled
        | Rejected::NotRunning
        | Rejected::NotOurs
        | Rejected::NotTouched
        | Rejected::Stopping
        | Rejected::NoTurn
        | Rejected::HasNoTurns(_)
        | Rejected::CannotCompact(_)
        | Rejected::OneThread(_)
        | Rejected::NoWayIn
        | Rejected::Unrecorded
        | Rejected::NothingTyped(_)
        | Rejected::AnswerLost(..)
        | Rejected::RunAsCommand
        | Rejected::NothingToType
        | Rejected::AtWork
        | Rejected::QueueFull(_)
        | Rejected::ConversationGone
        | Rejected::WorksOnce(_)
        | Rejected::WorkedOnce(_)
        | Rejected::TakesNoInstruction(_)
        | Rejected::LimitNotRaised { .. }
        | Rejected::BudgetNotRaised(_)
        | Rejected::Misfit(..) => format!("provost status {named}"),
    };
    ApiError::new(code, why.to_string()).next(next)
}

/// Describes why a change is refused. For an external agent the next command shows its pane, if
/// that is known.
pub(super) fn refused_there(why: &Rejected, session: Option<&Session>, id: SessionId) -> ApiError {
    let error = refused(why, id);
    let there = matches!(why, Rejected::NotTouched | Rejected::NotOurs | Rejected::Unrecorded);
    let command = if there { session.and_then(card::screen) } else { None };
    match command {
        Some(command) => ApiError { next: [vec![command], error.next].concat(), ..error },
        None => error,
    }
}

/// Digits at the end of an id that users see and type. They are the random ones.
const SHORT: usize = 8;

/// Refuses a change that is larger than the ledger accepts.
pub(super) fn unrecordable(why: &AppendError) -> ApiError {
    ApiError::new(Code::BadRequest, format!("nothing was changed: {why}"))
}

/// Refuses a change of a ledger that lost events.
pub(super) fn lossy(loss: &Loss) -> ApiError {
    let message = format!("nothing can be changed: {loss}");
    ApiError::new(Code::Storage, message).next("provost ledger recover")
}

pub(super) fn unwritten(why: &AppendError) -> ApiError {
    let message = format!("nothing was changed; the ledger could not be written: {why}");
    ApiError::new(Code::Storage, message).next("provost doctor")
}

/// Error for an agent whose report waits in memory.
pub(super) fn kept(why: &AppendError) -> ApiError {
    let message = format!(
        "the report is not recorded yet; the ledger could not be written: {why}; the daemon keeps it in memory and \
         records it once there is disk space, unless the daemon ends first"
    );
    ApiError::new(Code::Storage, message).next("provost doctor")
}

pub(crate) fn unread(why: &provost_ledger::Error) -> ApiError {
    ApiError::new(Code::Storage, format!("the ledger could not be read: {why}"))
        .next("provost ledger verify")
}

/// Finds the newer row of a session by the card that the ledger has of it.
fn overlaid<'a>(overlay: &'a BTreeMap<String, String>, card: &str) -> Option<&'a str> {
    if overlay.is_empty() {
        return None;
    }
    let row: SessionRow = serde_json::from_str(card).ok()?;
    overlay.get(&row.id).map(String::as_str)
}
