//! Routes for teams.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{Path, State},
    http::HeaderMap,
};
use provost_api::{
    ApiError, Code, IDEMPOTENCY_KEY, NextRequest, OpenTaskRequest, PairRequest, TaskRequest,
};
use provost_core::{
    ids::StandingId,
    task::{Awaited, Command, TaskSpec},
};
use provost_engine::{
    look,
    report::{check_name, check_text},
    shell::{Ask, By, NewSession, Pairing, Published, TaskAsk},
};
use serde::{Deserialize, de::IgnoredAny};
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{
    Answer, Caller, Daemon, Given, LISTED, Wanted, bad, change, history::read, raw, said_to,
};
use crate::daemon::peer::{self, Peer};

/// The maximum wait for a message in one request. Clients that wait longer repeat the request.
const MAX_WAIT: Duration = Duration::from_secs(110);

/// Opens a team. The client creates the id, so that it knows the id before the request.
pub(super) async fn open(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<OpenTaskRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    peer.must_be_operator()?;
    let ask = TaskAsk::Open { id: id(&request.id)?, spec: Box::new(spec(request.spec)?) };
    change(&daemon, &peer, &headers, "open-task", Ask::Task(ask)).await
}

/// Opens a team with all its members, or nothing at all.
pub(super) async fn pair(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<PairRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    peer.must_be_operator()?;
    let id = id(&request.id)?;
    let pairing: Pairing = serde_json::from_value(request.pairing)
        .map_err(|why| bad(format!("the pair cannot be read: {why}")))?;
    checked(&pairing.spec)?;
    can_start(&daemon, &pairing)?;
    let ask = TaskAsk::Pair { id, pairing: Box::new(pairing) };
    change(&daemon, &peer, &headers, "pair", Ask::Task(ask)).await
}

/// Rejects a pair if one of its members could not be started. Otherwise that would surface only
/// when the others already run. The check uses the environment that the agent will get.
fn can_start(daemon: &Daemon, pairing: &Pairing) -> Result<(), ApiError> {
    for member in &pairing.members {
        let Some(NewSession::New { spec, .. }) = &member.session else { continue };
        let missing = daemon.world.environment.missing_program(&spec.agent, &spec.cwd);
        if let Some(why) = missing {
            let message = format!("cannot start {}: {why}; nothing was started", member.name);
            return Err(ApiError::new(Code::Refused, message)
                .next("provost config show")
                .next("provost doctor"));
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    /// The maximum number of finished teams.
    limit: Option<usize>,
}

pub(super) async fn list(State(daemon): State<Daemon>, Wanted(query): Wanted<ListQuery>) -> Answer {
    asked(&daemon, TaskAsk::List { limit: query.limit.unwrap_or(LISTED) }).await
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WhoQuery {
    /// The member whose view is requested. The default is the operator's.
    #[serde(rename = "as")]
    by: Option<String>,
    /// The launch of the caller, if its process does not reveal it.
    launch: Option<String>,
    token: Option<String>,
}

pub(super) async fn row(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Wanted(who): Wanted<WhoQuery>,
) -> Answer {
    let by = reader(&daemon, &caller, &who).await?;
    asked(&daemon, TaskAsk::Row { task, by }).await
}

pub(super) async fn messages(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Wanted(who): Wanted<WhoQuery>,
) -> Answer {
    let by = reader(&daemon, &caller, &who).await?;
    asked(&daemon, TaskAsk::Messages { task, by }).await
}

#[derive(Debug, Deserialize)]
pub(super) struct CycleQuery {
    /// The ledger event after which entries are new. The default shows the newest ones.
    since: Option<String>,
    #[serde(flatten)]
    who: WhoQuery,
}

pub(super) async fn cycle(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Wanted(query): Wanted<CycleQuery>,
) -> Answer {
    let by = reader(&daemon, &caller, &query.who).await?;
    let since = query.since.map(|since| since.parse::<u64>()).transpose();
    let since = since.map_err(|why| bad(format!("since is not an event number: {why}")))?;
    let ask = Ask::Task(TaskAsk::Cycle { task, by });
    let seen = daemon.handle.ask(ask, "operator", None).await?;
    let mut seen: serde_json::Value = serde_json::from_str(&seen)
        .map_err(|why| ApiError::new(Code::Internal, why.to_string()))?;
    let id = seen["cycle"]["task"]["id"].as_str().unwrap_or_default();
    let id: StandingId =
        id.parse().map_err(|_| ApiError::new(Code::Internal, "the task has no id"))?;
    // Read from the stream without the engine. Reading consumes nothing.
    let news = read(&daemon, &caller, move |ledger| look::news(ledger, id, since)).await?;
    seen["cycle"]["new"] = serde_json::json!(news);
    Ok(raw(Body::from(seen.to_string())))
}

#[derive(Debug, Deserialize)]
pub(super) struct WaitQuery {
    /// The check to wait for.
    check: Option<String>,
    /// The audit to wait for.
    audit: Option<String>,
    #[serde(flatten)]
    who: WhoQuery,
}

/// Returns whether an awaited check or audit has finished, or can no longer finish. It returns immediately.
pub(super) async fn wait(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Wanted(query): Wanted<WaitQuery>,
) -> Answer {
    let by = reader(&daemon, &caller, &query.who).await?;
    let number = |text: String| {
        text.parse().map_err(|why| bad(format!("\"{text}\" is not a number: {why}")))
    };
    let awaited = match (query.check, query.audit) {
        (Some(no), None) => Awaited::Check(number(no)?),
        (None, Some(no)) => Awaited::Audit(number(no)?),
        (Some(_), Some(_)) | (None, None) => {
            return Err(bad("name either a check or an audit").into());
        }
    };
    asked(&daemon, TaskAsk::Wait { task, by, awaited }).await
}

#[derive(Debug, Deserialize)]
pub(super) struct HandoffQuery {
    /// The member. The default is all of them.
    member: Option<String>,
    #[serde(flatten)]
    who: WhoQuery,
}

pub(super) async fn handoff(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Wanted(query): Wanted<HandoffQuery>,
) -> Answer {
    let by = reader(&daemon, &caller, &query.who).await?;
    asked(&daemon, TaskAsk::Handoff { task, by, member: query.member }).await
}

/// Sends a command to a team, as the caller.
pub(super) async fn act(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<TaskRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let by = by(&daemon, &peer, launch, token, request.by)?;
    let what = if headers.contains_key(IDEMPOTENCY_KEY) {
        kind_of_change(&request.command, &by)
    } else {
        String::new()
    };
    let command: Command = serde_json::from_value(request.command)
        .map_err(|why| bad(format!("cannot read the task's command: {why}")))?;
    if command.action().is_none() {
        return Err(bad("this command is internal to Provost").into());
    }
    let ask = TaskAsk::Do { task, by: by.clone(), command: Box::new(command) };
    change(&daemon, &speaker(peer, &by), &headers, &what, Ask::Task(ask)).await
}

/// Names a change by its kind and its member, because a key belongs to the member. The engine
/// checks the team, and whether the change is the same.
fn kind_of_change(command: &serde_json::Value, by: &By) -> String {
    let named = command.as_object().and_then(|command| command.keys().next().cloned());
    let kind = named.or_else(|| command.as_str().map(str::to_owned)).unwrap_or_default();
    let member = match by {
        By::Operator => "operator",
        By::As(name) => name,
        // A launch is one member, and its keys are already scoped to the launch.
        By::Launch { .. } => "",
    };
    // A name may contain any character, so its length marks where it ends.
    format!("task/{kind}/{}:{member}", member.len())
}

/// Returns the caller's next message, and waits for one if there is none. An empty result is not an error.
pub(super) async fn next(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Given(request): Given<NextRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    let (launch, token) = (request.launch.as_deref(), request.token.as_deref());
    let by = by(&daemon, &peer, launch, token, request.by)?;
    let speaker = speaker(peer, &by);
    // Subscribes before the first query, so that no message is missed before the wait.
    let mut news = daemon.handle.subscribe();
    let wait = Duration::from_millis(request.wait_ms).min(MAX_WAIT);
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        let ask = TaskAsk::Next { task: task.clone(), by: by.clone() };
        let answer = daemon.handle.ask(Ask::Task(ask), &speaker.actor(), None).await;
        let answer = answer.map_err(|why| said_to(&daemon, &speaker, why))?;
        let found: Looked = serde_json::from_str(&answer).map_err(|why| bad(why.to_string()))?;
        if found.item.is_some() {
            return Ok(raw(Body::from(answer)));
        }
        let come = tokio::select! {
            () = daemon.stop.cancelled() => false,
            come = tokio::time::timeout_at(deadline, arrival(&mut news, &found.task)) => come.is_ok(),
        };
        if !come {
            return Ok(raw(Body::from(answer)));
        }
    }
}

/// The part of the engine's reply that decides whether to wait.
#[derive(Debug, Deserialize)]
struct Looked {
    task: String,
    item: Option<IgnoredAny>,
}

/// Waits until an event may make a message of this team available.
async fn arrival(news: &mut Receiver<Published>, task: &str) {
    loop {
        match news.recv().await {
            Ok(events) => {
                let come = events.iter().any(|event| {
                    event.stream == "task" && event.session == task && brings(&event.kind)
                });
                if come {
                    return;
                }
            }
            // Some events were missed, so it queries again.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Whether an event may make a message available, or end the wait because no one can take one.
fn brings(kind: &str) -> bool {
    matches!(
        kind,
        "task.message_stored"
            | "task.message_returned"
            | "task.message_requeued"
            | "task.phase_changed"
            | "task.member_bound"
            | "task.member_left"
            | "task.member_rotated"
    )
}

/// Returns the identity of the caller. An agent is identified by its process or its token. The
/// operator acts as themself, or as a member with that member's permissions.
fn by(
    daemon: &Daemon,
    peer: &Peer,
    launch: Option<&str>,
    token: Option<&str>,
    named: Option<String>,
) -> Result<By, ApiError> {
    Ok(match peer::reporter(peer, &daemon.world, launch, token)? {
        Some(launch) => By::Launch { launch, named },
        None => named.map_or(By::Operator, By::As),
    })
}

/// A caller that proves to be a launch acts as that launch, whatever its process is.
fn speaker(peer: Peer, by: &By) -> Peer {
    match by {
        By::Launch { launch, .. } => Peer::Launch(*launch),
        By::Operator | By::As(_) => peer,
    }
}

/// Returns the identity of a reader. Reading needs no permission, but only the operator reads as a
/// member: blind proposals are visible only to their authors. A launch that cannot prove itself is
/// rejected.
async fn reader(daemon: &Daemon, caller: &Caller, who: &WhoQuery) -> Result<By, ApiError> {
    let peer = daemon.peer(caller).await?;
    let anonymous = match &peer {
        Peer::Operator | Peer::Launch(_) => false,
        Peer::Stray(_) | Peer::Unproven(_) => who.launch.is_none(),
        Peer::Held(_) | Peer::Ours => true,
    };
    if !anonymous {
        let (launch, token) = (who.launch.as_deref(), who.token.as_deref());
        return by(daemon, &peer, launch, token, who.by.clone());
    }
    if who.by.is_some() {
        let message = "only the operator, or a launch with its token, reads as a member of a task";
        return Err(ApiError::new(Code::Forbidden, message).next("provost task --help"));
    }
    Ok(By::Operator)
}

async fn asked(daemon: &Daemon, ask: TaskAsk) -> Answer {
    Ok(raw(Body::from(daemon.handle.ask(Ask::Task(ask), "operator", None).await?)))
}

fn id(text: &str) -> Result<StandingId, ApiError> {
    text.parse().map_err(|why: provost_core::ids::BadId| bad(why.to_string()))
}

fn spec(given: serde_json::Value) -> Result<TaskSpec, ApiError> {
    let spec: TaskSpec = serde_json::from_value(given)
        .map_err(|why| bad(format!("the task's spec cannot be read: {why}")))?;
    checked(&spec)?;
    Ok(spec)
}

fn checked(spec: &TaskSpec) -> Result<(), ApiError> {
    check_name(&spec.name)?;
    check_text(&spec.goal, "goal")
}
