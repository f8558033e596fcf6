//! Channels that carry requests and observations to the owner, and durable events from it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use provost_api::{ApiError, ErrorCode, EventRow};
use provost_core::{
    ids::{LaunchId, RunId, SessionId, TeamId},
    run::{self, RunSpec},
    session::{EffectKey, ReportBody, Reporter, SessionCommand, SessionSpec},
    team,
};
use provost_ledger::RecordedEvent;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{listing::Listing, team_requests::TeamRequest};
use crate::stream::Subject;

/// JSON, or an error.
pub(super) type JsonReply = Result<String, ApiError>;

/// A request to the engine.
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
        command: run::RunCommand,
    },
    RunRow {
        run: String,
    },
    /// The plan of a run, with the progress of each task.
    Graph {
        run: String,
    },
    Runs {
        limit: usize,
    },
    /// A request about a team.
    Team(TeamRequest),
    SessionRow {
        session: String,
    },
    Explain {
        session: String,
    },
    List(Listing),
    /// The launches that may be running, with their holders if known.
    LiveLaunches,
    Archive {
        before_wall_ms: i64,
        apply: bool,
    },
    /// The status of the daemon, and which of the given holder directories belong to no session or
    /// run on the board.
    Status {
        registered: Vec<String>,
    },
    /// Rows that differ from the ledger because it currently cannot be written, and the machine's
    /// shortages.
    Preview,
}

pub(super) struct PendingRequest {
    pub(super) request: EngineRequest,
    pub(super) actor: String,
    pub(super) key: Option<String>,
    pub(super) reply: oneshot::Sender<JsonReply>,
}

/// Observations about a session.
#[derive(Debug)]
pub struct SessionObservation {
    pub session: SessionId,
    /// These commands become durable together.
    pub commands: Vec<SessionCommand>,
}

/// The result of a run's effect.
#[derive(Debug)]
pub struct RunObservation {
    pub run: RunId,
    pub command: run::RunCommand,
}

/// The result of a team's effect.
#[derive(Debug)]
pub struct TeamObservation {
    pub task: TeamId,
    pub command: team::TeamCommand,
}

pub(super) enum OwnerInput {
    Request(Box<PendingRequest>),
    Session(SessionObservation),
    Run(RunObservation),
    Team(TeamObservation),
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
    /// Sends a request, and waits until its reply is durable.
    pub async fn request(
        &self,
        ask: EngineRequest,
        actor: &str,
        key: Option<String>,
    ) -> Result<String, ApiError> {
        let (reply, answer) = oneshot::channel();
        let asked = PendingRequest { request: ask, actor: actor.to_owned(), key, reply };
        let stopped = || {
            ApiError::new(ErrorCode::Unreachable, "the daemon is stopping")
                .next("provost daemon status")
        };
        self.inputs.send(OwnerInput::Request(Box::new(asked))).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Sends a request and parses the reply.
    pub async fn request_json(&self, ask: EngineRequest) -> Result<Value, ApiError> {
        let text = self.request(ask, "operator", None).await?;
        serde_json::from_str(&text)
            .map_err(|why| ApiError::new(ErrorCode::Internal, why.to_string()))
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

impl ObservationSender {
    /// Sends an observation. Waits only until it is queued.
    pub(crate) async fn send(&self, session: SessionId, command: SessionCommand) {
        self.send_all(session, vec![command]).await;
    }

    /// Sends observations that become durable together or not at all.
    pub(crate) async fn send_all(&self, session: SessionId, commands: Vec<SessionCommand>) {
        // A stopped owner accepts no more observations. The next owner reads the same observations
        // from the journal.
        drop(self.inputs.send(OwnerInput::Session(SessionObservation { session, commands })).await);
    }

    /// Sends the result of a run's effect.
    pub(crate) async fn send_run(&self, run: RunId, command: run::RunCommand) {
        // A stopped owner accepts no more observations. The effect will be pending again after the
        // next start.
        drop(self.inputs.send(OwnerInput::Run(RunObservation { run, command })).await);
    }

    /// Sends the result of a team's effect.
    pub(crate) async fn send_team(&self, task: TeamId, command: team::TeamCommand) {
        // A stopped owner accepts no more observations. The effect will be pending again after the
        // next start.
        drop(self.inputs.send(OwnerInput::Team(TeamObservation { task, command })).await);
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
        // A stopped owner does not need this.
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

pub(super) fn is_query(ask: &EngineRequest) -> bool {
    match ask {
        EngineRequest::Team(ask) => ask.is_query(),
        EngineRequest::Open { .. }
        | EngineRequest::SessionCommand { .. }
        | EngineRequest::Report { .. }
        | EngineRequest::ToolCall { .. }
        | EngineRequest::OpenRun { .. }
        | EngineRequest::RunCommand { .. } => false,
        EngineRequest::RunRow { .. }
        | EngineRequest::Graph { .. }
        | EngineRequest::Runs { .. }
        | EngineRequest::SessionRow { .. }
        | EngineRequest::Explain { .. }
        | EngineRequest::List(_)
        | EngineRequest::LiveLaunches
        | EngineRequest::Status { .. }
        | EngineRequest::Preview
        | EngineRequest::Archive { .. } => true,
    }
}
