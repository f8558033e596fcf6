//! Routes for the past. They use a read-only ledger connection, so they do not block the engine.

use axum::{
    Json,
    extract::{Path, State},
    response::IntoResponse,
};
use provost_api::{ApiError, Code};
use provost_engine::{
    look::{self, Form, Window, Within},
    shell::blocking::blocking_request,
};
use provost_ledger::{ReadLedger, SqliteReader};
use serde::{Deserialize, Serialize};

use super::{Answer, Caller, Daemon, Wanted, bad};
use crate::daemon::server::wall_ms;

/// The default and the maximum number of search results of each kind.
const FOUND: usize = 10;
const MAX_FOUND: usize = 1_000;

/// The default window of the telemetry.
const WINDOW_MS: i64 = 24 * 3_600 * 1_000;

#[derive(Debug, Deserialize)]
pub(super) struct ThenQuery {
    at: Option<u64>,
    from: Option<u64>,
    to: Option<u64>,
}

/// Returns a past state, or the difference between two points in time.
pub(super) async fn then(
    State(daemon): State<Daemon>,
    caller: Caller,
    Path(named): Path<String>,
    Wanted(query): Wanted<ThenQuery>,
) -> Answer {
    match (query.at, query.from, query.to) {
        (Some(at), None, None) => {
            answer(&daemon, &caller, move |ledger| {
                look::then(ledger, look::resolve(ledger, &named)?, at)
            })
            .await
        }
        (None, Some(from), Some(to)) => {
            answer(&daemon, &caller, move |ledger| {
                look::diff(ledger, look::resolve(ledger, &named)?, from, to)
            })
            .await
        }
        _ => Err(bad("name one event (at), or two (from and to)").into()),
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ReplayQuery {
    #[serde(rename = "as")]
    form: Option<String>,
    content: Option<u8>,
}

pub(super) async fn replay(
    State(daemon): State<Daemon>,
    caller: Caller,
    Path(named): Path<String>,
    Wanted(query): Wanted<ReplayQuery>,
) -> Answer {
    let form = match query.form.as_deref() {
        None | Some("compact") => Form::Compact,
        Some("timeline") => Form::Timeline,
        Some("transcript") => Form::Transcript,
        Some(other) => {
            let message =
                format!("unknown form \"{other}\"; expected compact, timeline or transcript");
            return Err(bad(message).into());
        }
    };
    let content = query.content == Some(1);
    answer(&daemon, &caller, move |ledger| {
        look::replay(ledger, look::resolve_task(ledger, &named)?, form, content)
    })
    .await
}

#[derive(Debug, Deserialize)]
pub(super) struct AuditQuery {
    content: Option<u8>,
}

pub(super) async fn audit(
    State(daemon): State<Daemon>,
    caller: Caller,
    Path(named): Path<String>,
    Wanted(query): Wanted<AuditQuery>,
) -> Answer {
    let content = query.content == Some(1);
    answer(&daemon, &caller, move |ledger| {
        look::audit(ledger, look::resolve_task(ledger, &named)?, content)
    })
    .await
}

#[derive(Debug, Deserialize)]
pub(super) struct SearchQuery {
    words: String,
    /// Kinds, separated by commas. The default is all of them.
    #[serde(rename = "in")]
    within: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn search(
    State(daemon): State<Daemon>,
    caller: Caller,
    Wanted(query): Wanted<SearchQuery>,
) -> Answer {
    let within = match &query.within {
        None => Within::ALL.to_vec(),
        Some(named) => named.split(',').map(place).collect::<Result<_, _>>()?,
    };
    let limit = query.limit.unwrap_or(FOUND).clamp(1, MAX_FOUND);
    let hints = daemon.world.caller();
    let words = query.words;
    answer(&daemon, &caller, move |ledger| look::search(ledger, &words, &within, limit, &hints))
        .await
}

fn place(named: &str) -> Result<Within, ApiError> {
    let known = Within::ALL.into_iter().find(|place| place.word() == named);
    known.ok_or_else(|| {
        let places = Within::ALL.map(Within::word).join(", ");
        bad(format!("cannot search in \"{named}\"; expected {places}"))
    })
}

#[derive(Debug, Deserialize)]
pub(super) struct TelemetryQuery {
    task: Option<String>,
    window_ms: Option<u64>,
}

pub(super) async fn telemetry(
    State(daemon): State<Daemon>,
    caller: Caller,
    Wanted(query): Wanted<TelemetryQuery>,
) -> Answer {
    let window = query.window_ms.map_or(WINDOW_MS, |ms| i64::try_from(ms).unwrap_or(i64::MAX));
    let to = wall_ms();
    answer(&daemon, &caller, move |ledger| {
        let task = query.task.map(|named| look::resolve_task(ledger, &named)).transpose()?;
        look::telemetry(ledger, Window { from: to.saturating_sub(window), to, task })
    })
    .await
}

async fn answer<T: Serialize + Send + 'static>(
    daemon: &Daemon,
    caller: &Caller,
    how: impl FnOnce(&dyn ReadLedger) -> Result<T, ApiError> + Send + 'static,
) -> Answer {
    Ok(Json(read(daemon, caller, how).await?).into_response())
}

/// Reads a consistent snapshot of the ledger, without blocking the engine.
pub(super) async fn read<T: Send + 'static>(
    daemon: &Daemon,
    caller: &Caller,
    read: impl FnOnce(&dyn ReadLedger) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let path = daemon.world.home.ledger();
    let turn = daemon.read_turn(caller).await?;
    let found = blocking_request(move || {
        let _turn = turn;
        let unread = |why: &dyn std::fmt::Display| {
            ApiError::new(Code::Storage, format!("cannot read the ledger: {why}"))
                .next("provost ledger verify")
        };
        let reader = SqliteReader::open(&path).map_err(|why| unread(&why))?;
        let (mut read, mut found) = (Some(read), None);
        reader
            .frozen(&mut |ledger| found = read.take().map(|read| read(ledger)))
            .map_err(|why| unread(&why))?;
        found.unwrap_or_else(|| Err(ApiError::new(Code::Internal, "nothing was read")))
    });
    found.await
}
