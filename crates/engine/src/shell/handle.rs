//! Channels that send requests and observations to the owner, and durable events to subscribers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use provost_api::{
    ApiError, CallReply, ErrorCode, EventRow, Hint, NextReply, OpenSessionReply, OpenTeamReply,
    ReportReply, RunChangeReply, SessionReply, TeamChangeReply,
};
use provost_core::{
    ids::{LaunchId, RunId, SessionId, TeamId},
    run::{RunCommand, RunSpec},
    session::{EffectKey, ReportBody, Reporter, SessionCommand, SessionSpec},
    team::{self, TeamCommand},
};
use provost_ledger::RecordedEvent;
use serde::Serialize;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{owner::Owner, team_requests::TeamRequest};
use crate::stream::Subject;

/// The reply to a change, or why the change is refused.
pub(super) type ChangeResult = Result<EngineReply, ApiError>;

/// A change that a caller requests. [`EngineHandle`] has a method for each query.
#[derive(Debug)]
pub enum EngineRequest {
    Open {
        id: SessionId,
        spec: Box<SessionSpec>,
        warnings: Vec<String>,
    },
    /// A command from an operator to a session.
    SessionCommand {
        session: String,
        command: SessionCommand,
    },
    Report {
        session: Option<String>,
        from: Reporter,
        testimony: ReportBody,
    },
    /// A tool call from a team member that did not arrive on the agent's stream.
    ToolCall {
        launch: LaunchId,
        native: String,
        call: Box<team::MemberCall>,
    },
    OpenRun {
        id: RunId,
        spec: Box<RunSpec>,
    },
    /// A command from an operator to a run.
    RunCommand {
        run: String,
        command: RunCommand,
    },
    /// A request about a team.
    Team(TeamRequest),
}

/// The reply to a change. Each kind of change always has the same kind of reply.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum EngineReply {
    SessionOpened(Box<OpenSessionReply>),
    Session(Box<SessionReply>),
    Report(Box<ReportReply>),
    Call(Box<CallReply>),
    Run(Box<RunChangeReply>),
    TeamOpened(Box<OpenTeamReply>),
    Team(Box<TeamChangeReply>),
    NextMessage(Box<NextReply>),
}

/// A query. The owner runs it between two commits.
pub(super) type Query = Box<dyn FnOnce(&mut Owner) + Send>;

pub(super) struct PendingRequest {
    pub(super) request: EngineRequest,
    pub(super) actor: String,
    pub(super) key: Option<String>,
    pub(super) reply: oneshot::Sender<ChangeResult>,
}

/// A fact that was observed outside the ledger.
#[derive(Debug)]
pub enum Observation {
    /// Observations about a session, which become durable together.
    Session(SessionId, Vec<SessionCommand>),
    /// The result of a run's effect.
    Run(RunId, RunCommand),
    /// The result of a team's effect.
    Team(TeamId, TeamCommand),
}

impl Observation {
    pub(super) fn subject(&self) -> Subject {
        match self {
            Observation::Session(id, _) => Subject::Session(*id),
            Observation::Run(id, _) => Subject::Run(*id),
            Observation::Team(id, _) => Subject::Team(*id),
        }
    }
}

pub(super) enum OwnerInput {
    Request(Box<PendingRequest>),
    Query(Query),
    Observed(Observation),
    CaughtUp(LaunchId),
    /// The tokio task that carried out an effect panicked.
    EffectLost(Subject, EffectKey),
    Stop(oneshot::Sender<()>),
}

/// Events that became durable, as rows.
pub type PublishedEvents = Arc<Vec<EventRow>>;

/// Sends requests to the owner. Cheap to clone.
#[derive(Clone)]
pub struct EngineHandle {
    pub(super) inputs: mpsc::Sender<OwnerInput>,
    pub(super) events: broadcast::Sender<PublishedEvents>,
}

/// Sends observations to the owner. Cheap to clone.
#[derive(Clone)]
pub struct ObservationSender {
    pub(super) inputs: mpsc::Sender<OwnerInput>,
    pub(super) heard: Arc<Mutex<HashMap<LaunchId, u64>>>,
}

impl EngineHandle {
    /// Requests a change, and waits until it is durable.
    pub async fn request(
        &self,
        ask: EngineRequest,
        actor: &str,
        key: Option<String>,
    ) -> Result<EngineReply, ApiError> {
        let (reply, answer) = oneshot::channel();
        let asked = PendingRequest { request: ask, actor: actor.to_owned(), key, reply };
        self.send(OwnerInput::Request(Box::new(asked))).await?;
        answer.await.map_err(|_| stopping())?
    }

    /// Runs a query on the owner's state.
    pub(super) async fn query<T: Send + 'static>(
        &self,
        query: impl FnOnce(&mut Owner) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (reply, answer) = oneshot::channel();
        // The caller may be gone. In that case, no reply is needed.
        let query = |owner: &mut Owner| drop(reply.send(query(owner)));
        self.send(OwnerInput::Query(Box::new(query))).await?;
        answer.await.map_err(|_| stopping())?
    }

    async fn send(&self, input: OwnerInput) -> Result<(), ApiError> {
        self.inputs.send(input).await.map_err(|_| stopping())
    }

    /// Subscribes to events as they become durable.
    pub fn subscribe(&self) -> broadcast::Receiver<PublishedEvents> {
        self.events.subscribe()
    }

    /// Lets the owner finish its commit, and stops it.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.inputs.send(OwnerInput::Stop(done)).await.is_ok() {
            // An error means that the owner has already stopped.
            drop(stopped.await);
        }
    }
}

/// Returns the error for a request that arrives while the daemon stops.
fn stopping() -> ApiError {
    ApiError::new(ErrorCode::Unreachable, "the daemon is stopping").next(Hint::DaemonStatus)
}

/// Returns the error for a reply that does not belong to its request.
pub fn mismatched_reply() -> ApiError {
    ApiError::new(ErrorCode::Internal, "the engine sent the reply to another kind of request")
}

impl ObservationSender {
    /// Sends an observation. Waits only until the observation is queued.
    pub(crate) async fn send(&self, session: SessionId, command: SessionCommand) {
        self.send_all(session, vec![command]).await;
    }

    /// Sends observations that become durable together or not at all.
    pub(crate) async fn send_all(&self, session: SessionId, commands: Vec<SessionCommand>) {
        // The next owner reads the same observations from the journal.
        self.observe(Observation::Session(session, commands)).await;
    }

    /// Sends an observation to the owner. An owner that has stopped accepts no more observations, but the effects that
    /// cause them will be pending again after the next start.
    pub(crate) async fn observe(&self, observation: Observation) {
        drop(self.inputs.send(OwnerInput::Observed(observation)).await);
    }

    /// Reports that an effect is no longer being carried out.
    pub(crate) async fn effect_lost(&self, subject: Subject, effect: EffectKey) {
        // A stopped owner accepts no more observations. The effect will be pending again after the
        // next start.
        drop(self.inputs.send(OwnerInput::EffectLost(subject, effect)).await);
    }

    /// Forgets a launch that has ended.
    pub(crate) fn forget(&self, launch: LaunchId) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).remove(&launch);
    }

    /// Reports that everything that happened in a launch while no daemon was running has been sent.
    pub(crate) async fn caught_up(&self, launch: LaunchId) {
        // An owner that has stopped does not need this report.
        drop(self.inputs.send(OwnerInput::CaughtUp(launch)).await);
    }

    /// Records when a launch last produced output. This is read only when a silence deadline is due.
    pub(crate) fn note_heard(&self, launch: LaunchId, mono_ms: u64) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(launch, mono_ms);
    }
}

/// Builds the row of a recorded event.
pub fn event_row(record: &RecordedEvent) -> EventRow {
    EventRow {
        seq: record.seq,
        at: record.at.wall_ms,
        session: record.stream.key().to_owned(),
        stream: record.stream.kind().to_owned(),
        version: record.version,
        kind: record.kind.clone(),
        actor: record.actor.clone(),
        data: visible_data(record),
        state: None,
    }
}

/// Returns the data of an event. The text of a blind proposal stays hidden. Once both proposals are
/// written, they appear in the message to the reviewers.
fn visible_data(record: &RecordedEvent) -> Value {
    let mut data = serde_json::from_str(&record.data).unwrap_or(Value::Null);
    if record.kind == "team.next_proposed" && data.is_object() {
        data["text"] = Value::Null;
    }
    data
}
