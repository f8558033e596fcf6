//! What may be asked about tasks that stand alone.

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

/// The longest time that one request waits for a message. Whoever wants to wait longer asks again.
const MAX_WAIT: Duration = Duration::from_secs(110);

/// Opens a task: the id was minted by the client, so that it knows it before it asks.
pub(super) async fn open(
    State(daemon): State<Daemon>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<OpenTaskRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    peer.must_be_operator()?;
    let ask = TaskAsk::Open { id: id(&request.id)?, spec: Box::new(spec(request.spec)?) };
    change(&daemon, &peer, &headers, ("open-task", Ask::Task(ask))).await
}

/// Opens a task with all who work on it, or nothing at all.
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
    change(&daemon, &peer, &headers, ("pair", Ask::Task(ask))).await
}

/// Refuses a pair of which a member could not be started: that would be found out when the others run already. What the
/// agent will have in its environment decides, as it will when it is started.
fn can_start(daemon: &Daemon, pairing: &Pairing) -> Result<(), ApiError> {
    for member in &pairing.members {
        let Some(NewSession::New { spec, .. }) = &member.session else { continue };
        let missing = daemon.world.environment.missing_program(&spec.agent, &spec.cwd);
        if let Some(why) = missing {
            let message = format!("{} cannot be started: {why}; nothing was begun", member.name);
            return Err(ApiError::new(Code::Refused, message)
                .next("provost config show")
                .next("provost doctor"));
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
pub(super) struct ListQuery {
    /// How many that are over are shown at the most.
    limit: Option<usize>,
}

pub(super) async fn list(State(daemon): State<Daemon>, Wanted(query): Wanted<ListQuery>) -> Answer {
    asked(&daemon, TaskAsk::List { limit: query.limit.unwrap_or(LISTED) }).await
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WhoQuery {
    /// The member for whom a person looks; the operator if none is named.
    #[serde(rename = "as")]
    by: Option<String>,
    /// The launch that asks, where it is not told by its process.
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
    /// The event of the ledger after which something is new; without it the newest are told.
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
    let since = since.map_err(|why| bad(format!("since is no number of an event: {why}")))?;
    let ask = Ask::Task(TaskAsk::Cycle { task, by });
    let seen = daemon.handle.ask(ask, "operator", None).await?;
    let mut seen: serde_json::Value = serde_json::from_str(&seen)
        .map_err(|why| ApiError::new(Code::Internal, why.to_string()))?;
    let id = seen["cycle"]["task"]["id"].as_str().unwrap_or_default();
    let id: StandingId =
        id.parse().map_err(|_| ApiError::new(Code::Internal, "the task has no id"))?;
    // Told of the stream, beside the owner; whoever looks takes nothing away by it.
    let news = read(&daemon, &caller, move |ledger| look::news(ledger, id, since)).await?;
    seen["cycle"]["new"] = serde_json::json!(news);
    Ok(raw(Body::from(seen.to_string())))
}

#[derive(Debug, Deserialize)]
pub(super) struct WaitQuery {
    /// The check that is waited for.
    check: Option<String>,
    /// The audit that is waited for.
    audit: Option<String>,
    #[serde(flatten)]
    who: WhoQuery,
}

/// Whether something that somebody waits for has happened, or can no longer happen. It answers at once.
pub(super) async fn wait(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Wanted(query): Wanted<WaitQuery>,
) -> Answer {
    let by = reader(&daemon, &caller, &query.who).await?;
    let number =
        |text: String| text.parse().map_err(|why| bad(format!("{text} is no number: {why}")));
    let awaited = match (query.check, query.audit) {
        (Some(no), None) => Awaited::Check(number(no)?),
        (None, Some(no)) => Awaited::Audit(number(no)?),
        (Some(_), Some(_)) | (None, None) => {
            return Err(bad("name a check or an audit, one of them").into());
        }
    };
    asked(&daemon, TaskAsk::Wait { task, by, awaited }).await
}

#[derive(Debug, Deserialize)]
pub(super) struct HandoffQuery {
    /// The member; all of them if none is named.
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

/// Asks something of a task, as whoever the caller is.
pub(super) async fn act(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    headers: HeaderMap,
    Given(request): Given<TaskRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    let proof = (request.launch.as_deref(), request.token.as_deref());
    let by = by(&daemon, &peer, proof, request.by)?;
    let what = match headers.contains_key(IDEMPOTENCY_KEY) {
        true => kind_of_change(&request.command, &by),
        false => String::new(),
    };
    let command: Command = serde_json::from_value(request.command)
        .map_err(|why| bad(format!("what is asked of the task cannot be read: {why}")))?;
    if command.action().is_none() {
        return Err(bad("only Provost itself tells that").into());
    }
    let ask = TaskAsk::Do { task, by: by.clone(), command: Box::new(command) };
    change(&daemon, &speaker(peer, &by), &headers, (&what, Ask::Task(ask))).await
}

/// Names a change by its kind and the member that makes it: a key is the member's own. Of which task it is, and whether
/// it is the very same change, the engine knows.
fn kind_of_change(command: &serde_json::Value, by: &By) -> String {
    let named = command.as_object().and_then(|command| command.keys().next().cloned());
    let kind = named.or_else(|| command.as_str().map(str::to_owned)).unwrap_or_default();
    let member = match by {
        By::Operator => "operator",
        By::As(name) => name,
        // A launch is one member, and its keys are named by the launch.
        By::Launch { .. } => "",
    };
    // A name may have any character: its length says where it ends.
    format!("task/{kind}/{}:{member}", member.len())
}

/// Gives the next message of whoever asks, and waits for one if there is none. Nothing is no failure.
pub(super) async fn next(
    State(daemon): State<Daemon>,
    Path(task): Path<String>,
    caller: Caller,
    Given(request): Given<NextRequest>,
) -> Answer {
    let peer = daemon.peer(&caller).await?;
    let proof = (request.launch.as_deref(), request.token.as_deref());
    let by = by(&daemon, &peer, proof, request.by)?;
    let speaker = speaker(peer, &by);
    // Before the first look: what comes between the look and the wait is not missed.
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

/// What of the engine's answer says whether to wait.
#[derive(Debug, Deserialize)]
struct Looked {
    task: String,
    item: Option<IgnoredAny>,
}

/// Waits until something of this task can be taken that could not before.
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
            // Some news were missed: it is looked.
            Err(RecvError::Lagged(_)) => return,
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Says whether an event may leave something to be taken, or nobody who could take it.
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

/// Says as whom the caller acts. An agent is who its process or its token says; a person is itself, or acts for a
/// member with that member's rights.
fn by(
    daemon: &Daemon,
    peer: &Peer,
    (launch, token): (Option<&str>, Option<&str>),
    named: Option<String>,
) -> Result<By, ApiError> {
    Ok(match peer::reporter(peer, &daemon.world, launch, token)? {
        Some(launch) => By::Launch { launch, named },
        None => named.map_or(By::Operator, By::As),
    })
}

/// Whoever proves to be a launch speaks as that launch, from wherever it asks.
fn speaker(peer: Peer, by: &By) -> Peer {
    match by {
        By::Launch { launch, .. } => Peer::Launch(*launch),
        By::Operator | By::As(_) => peer,
    }
}

/// As whom the caller reads. Reading needs no right, but only the operator reads as a member: blind proposals are shown
/// to their authors alone. A launch that cannot prove itself is refused.
async fn reader(daemon: &Daemon, caller: &Caller, who: &WhoQuery) -> Result<By, ApiError> {
    let peer = daemon.peer(caller).await?;
    let anonymous = match &peer {
        Peer::Operator | Peer::Launch(_) => false,
        Peer::Stray(_) | Peer::Unproven(_) => who.launch.is_none(),
        Peer::Held(_) | Peer::Ours => true,
    };
    if !anonymous {
        let proof = (who.launch.as_deref(), who.token.as_deref());
        return by(daemon, &peer, proof, who.by.clone());
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
