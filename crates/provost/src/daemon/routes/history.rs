//! Routes that read past states. They use a read-only connection to the ledger, so they do not block the engine.

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse,
};
use provost_api::{ApiError, ErrorCode};
use provost_engine::{
    history::{self, ReplayForm, SearchScope, TelemetryWindow},
    shell::blocking::blocking_request,
};
use provost_ledger::{ReadLedger, SqliteReader};
use serde::{Deserialize, Serialize};

use super::request::{QueryParams, RouteResult, bad_request};
use crate::daemon::server::{ApiCaller, DaemonServer, wall_ms};

/// The default and maximum number of search results of each kind.
const DEFAULT_RESULTS: usize = 10;
const MAX_RESULTS: usize = 1_000;

/// The default period that telemetry covers.
const DEFAULT_WINDOW_MS: i64 = 24 * 3_600 * 1_000;

#[derive(Debug, Deserialize)]
pub(super) struct AsOfQuery {
    at: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
}

/// Returns a past state, or the difference between two points in time.
pub(super) async fn as_of(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    Path(named): Path<String>,
    QueryParams(query): QueryParams<AsOfQuery>,
) -> RouteResult {
    match (query.at, query.from, query.to) {
        (Some(at), None, None) => {
            respond(&daemon, &caller, move |ledger| {
                history::as_of(ledger, history::resolve(ledger, &named)?, at)
            })
            .await
        }
        (None, Some(from), Some(to)) => {
            respond(&daemon, &caller, move |ledger| {
                history::diff(ledger, history::resolve(ledger, &named)?, from, to)
            })
            .await
        }
        _ => Err(bad_request("expected one event (at), or two (from and to)").into()),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ReplayQuery {
    #[serde(rename = "as")]
    form: Option<String>,
    content: Option<u8>,
}

pub(super) async fn replay(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    Path(named): Path<String>,
    QueryParams(query): QueryParams<ReplayQuery>,
) -> RouteResult {
    let form = match query.form.as_deref() {
        None | Some("compact") => ReplayForm::Compact,
        Some("timeline") => ReplayForm::Timeline,
        Some("transcript") => ReplayForm::Transcript,
        Some(other) => {
            let message =
                format!("unknown form \"{other}\"; expected compact, timeline or transcript");
            return Err(bad_request(message).into());
        }
    };
    let content = query.content == Some(1);
    respond(&daemon, &caller, move |ledger| {
        history::replay(ledger, history::resolve_task(ledger, &named)?, form, content)
    })
    .await
}

#[derive(Debug, Deserialize)]
pub(super) struct AuditQuery {
    content: Option<u8>,
}

pub(super) async fn audit(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    Path(named): Path<String>,
    QueryParams(query): QueryParams<AuditQuery>,
) -> RouteResult {
    let content = query.content == Some(1);
    respond(&daemon, &caller, move |ledger| {
        history::audit(ledger, history::resolve_task(ledger, &named)?, content)
    })
    .await
}

#[derive(Debug, Deserialize)]
pub(super) struct SearchParams {
    words: String,
    /// The kinds to search, separated by commas. If missing, all kinds are searched.
    #[serde(rename = "in")]
    within: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn search(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<SearchParams>,
) -> RouteResult {
    let within = match &query.within {
        None => SearchScope::ALL.to_vec(),
        Some(named) => named.split(',').map(parse_scope).collect::<Result<_, _>>()?,
    };
    let limit = query.limit.unwrap_or(DEFAULT_RESULTS).clamp(1, MAX_RESULTS);
    let hints = daemon.world.caller();
    let words = query.words;
    respond(&daemon, &caller, move |ledger| history::search(ledger, &words, &within, limit, &hints))
        .await
}

fn parse_scope(named: &str) -> Result<SearchScope, ApiError> {
    let known = SearchScope::ALL.into_iter().find(|place| place.as_str() == named);
    known.ok_or_else(|| {
        let places = SearchScope::ALL.map(SearchScope::as_str).join(", ");
        bad_request(format!("cannot search in \"{named}\"; expected {places}"))
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct TelemetryQuery {
    team: Option<String>,
    window_ms: Option<u64>,
}

pub(super) async fn telemetry(
    State(daemon): State<DaemonServer>,
    caller: ApiCaller,
    QueryParams(query): QueryParams<TelemetryQuery>,
) -> RouteResult {
    let window =
        query.window_ms.map_or(DEFAULT_WINDOW_MS, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let to = wall_ms();
    respond(&daemon, &caller, move |ledger| {
        let task = query.team.map(|named| history::resolve_task(ledger, &named)).transpose()?;
        history::telemetry(ledger, TelemetryWindow { from: to.saturating_sub(window), to, task })
    })
    .await
}

async fn respond<T: Serialize + Send + 'static>(
    daemon: &DaemonServer,
    caller: &ApiCaller,
    how: impl FnOnce(&dyn ReadLedger) -> Result<T, ApiError> + Send + 'static,
) -> RouteResult {
    Ok(Json(read(daemon, caller, how).await?).into_response())
}

/// Reads a consistent snapshot of the ledger without blocking the engine.
pub(super) async fn read<T: Send + 'static>(
    daemon: &DaemonServer,
    caller: &ApiCaller,
    read: impl FnOnce(&dyn ReadLedger) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let path = daemon.world.home.ledger();
    let turn = daemon.read_turn(caller).await?;
    let found = blocking_request(move || {
        let _turn = turn;
        let unread = |why: &dyn std::fmt::Display| {
            ApiError::new(ErrorCode::Storage, format!("cannot read the ledger: {why}"))
                .next("provost ledger verify")
        };
        let reader = SqliteReader::open(&path).map_err(|why| unread(&why))?;
        let (mut read, mut found) = (Some(read), None);
        reader
            .read_consistent(&mut |ledger| found = read.take().map(|read| read(ledger)))
            .map_err(|why| unread(&why))?;
        found.unwrap_or_else(|| Err(ApiError::new(ErrorCode::Internal, "nothing was read")))
    });
    found.await
}
