//! Channels to the owner: requests, observations, and events that became durable.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use provost_api::{ApiError, Code, EventRow};
use provost_core::{
    ids::{LaunchId, RunId, SessionId, StandingId},
    run::{self, RunSpec},
    session::{Command, EffectKey, Reporter, Spec, Testimony},
    task,
};
use provost_ledger::Recorded;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::{listing::Listing, tasks::TaskAsk};
use crate::stream::Subject;

/// JSON, or an error.
pub(super) type Answer = Result<String, ApiError>;

/// A request to the engine.
#[derive(Debug)]
pub enum Ask {
    Open {
        id: SessionId,
        spec: Box<Spec>,
        warnings: Vec<String>,
    },
    /// An operator's command to a session.
    Do {
        session: String,
        command: Command,
    },
    Report {
        session: Option<String>,
        from: Reporter,
        testimony: Testimony,
    },
    /// A tool call of a team member, made outside the agent's stream.
    Call {
        launch: LaunchId,
        native: String,
        call: Box<task::Call>,
    },
    OpenRun {
        id: RunId,
        spec: Box<RunSpec>,
    },
    /// An operator's command to a run.
    DoRun {
        run: String,
        command: run::Command,
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
    Task(TaskAsk),
    Row {
        session: String,
    },
    Why {
        session: String,
    },
    List(Listing),
    /// The launches that may be running, with their holders where known.
    Live,
    Archive {
        before_wall_ms: i64,
        apply: bool,
    },
    /// The status of the daemon, and the given holder directories that no session or run on the
    /// board owns.
    Status {
        registered: Vec<String>,
    },
    /// Rows that differ from the ledger because it cannot be written now, and the machine's
    /// shortages.
    Overlay,
}

pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) actor: String,
    pub(super) key: Option<String>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// Observations about a session.
#[derive(Debug)]
pub struct Told {
    pub session: SessionId,
    /// They become durable together.
    pub commands: Vec<Command>,
}

/// The result of an effect of a run.
#[derive(Debug)]
pub struct RunTold {
    pub run: RunId,
    pub command: run::Command,
}

/// The result of an effect of a team.
#[derive(Debug)]
pub struct TaskTold {
    pub task: StandingId,
    pub command: task::Command,
}

pub(super) enum Input {
    Asked(Box<Asked>),
    Told(Told),
    RunTold(RunTold),
    TaskTold(TaskTold),
    CaughtUp(LaunchId),
    /// The tokio task that carried out an effect panicked.
    EffectLost(Subject, EffectKey),
    Stop(oneshot::Sender<()>),
}

/// Events that became durable, as rows.
pub type Published = Arc<Vec<EventRow>>;

/// Sends requests to the owner. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) events: broadcast::Sender<Published>,
}

/// Sends observations to the owner. Cheap to clone.
#[derive(Clone)]
pub struct Teller {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) heard: Arc<Mutex<HashMap<LaunchId, u64>>>,
}

impl Handle {
    /// Sends a request, and waits until the reply is durable.
    pub async fn ask(
        &self,
        ask: Ask,
        actor: &str,
        key: Option<String>,
    ) -> Result<String, ApiError> {
        let (reply, answer) = oneshot::channel();
        let asked = Asked { ask, actor: actor.to_owned(), key, reply };
        let stopped = || {
            ApiError::new(Code::Unreachable, "the daemon is stopping").next("provost daemon status")
        };
        self.inputs.send(Input::Asked(Box::new(asked))).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// Sends a request and parses the reply.
    pub async fn ask_json(&self, ask: Ask) -> Result<Value, ApiError> {
        let text = self.ask(ask, "operator", None).await?;
        serde_json::from_str(&text).map_err(|why| ApiError::new(Code::Internal, why.to_string()))
    }

    /// Subscribes to events as they become durable.
    pub fn subscribe(&self) -> broadcast::Receiver<Published> {
        self.events.subscribe()
    }

    /// Lets the owner finish its commit and stop.
    pub async fn stop(&self) {
        let (done, stopped) = oneshot::channel();
        if self.inputs.send(Input::Stop(done)).await.is_ok() {
            // An error means that it has stopped already.
            drop(stopped.await);
        }
    }
}

impl Teller {
    /// Sends an observation, and waits only until it is queued.
    pub(crate) async fn tell(&self, session: SessionId, command: Command) {
        self.tell_all(session, vec![command]).await;
    }

    /// Sends observations that become durable together or not at all.
    pub(crate) async fn tell_all(&self, session: SessionId, commands: Vec<Command>) {
        // A stopped owner takes nothing more; the next one reads the same from the journal.
        drop(self.inputs.send(Input::Told(Told { session, commands })).await);
    }

    /// Sends the result of an effect of a run.
    pub(crate) async fn tell_run(&self, run: RunId, command: run::Command) {
        // A stopped owner takes nothing more; the effect is pending again at the next start.
        drop(self.inputs.send(Input::RunTold(RunTold { run, command })).await);
    }

    /// Sends the result of an effect of a team.
    pub(crate) async fn tell_task(&self, task: StandingId, command: task::Command) {
        // A stopped owner takes nothing more; the effect is pending again at the next start.
        drop(self.inputs.send(Input::TaskTold(TaskTold { task, command })).await);
    }

    /// Reports that nothing carries out an effect any more.
    pub(crate) async fn effect_lost(&self, subject: Subject, effect: EffectKey) {
        // A stopped owner takes nothing more; the effect is pending again at the next start.
        drop(self.inputs.send(Input::EffectLost(subject, effect)).await);
    }

    /// Forgets a launch that has ended.
    pub(crate) fn forget(&self, launch: LaunchId) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).remove(&launch);
    }

    /// Reports that all events of a launch from the time without a daemon were sent.
    pub(crate) async fn caught_up(&self, launch: LaunchId) {
        // A stopped owner does not need it.
        drop(self.inputs.send(Input::CaughtUp(launch)).await);
    }

    /// Records when a launch was last heard. Read only when a silence deadline is due.
    pub(crate) fn heard(&self, launch: LaunchId, mono_ms: u64) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(launch, mono_ms);
    }
}

/// Builds the row of a recorded event.
pub fn event_row(record: &Recorded) -> EventRow {
    EventRow {
        seq: record.seq,
        at: record.at.wall_ms,
        session: record.stream.key().to_owned(),
        stream: record.stream.kind().to_owned(),
        version: record.version,
        kind: record.kind.clone(),
        actor: record.actor.clone(),
        data: shown(record),
        state: None,
    }
}

/// Returns the data of an event. A blind proposal stays hidden until both are written, and then
/// appears in the message to the chooser.
fn shown(record: &Recorded) -> Value {
    let mut data = serde_json::from_str(&record.data).unwrap_or(Value::Null);
    if record.kind == "task.next_proposed" && data.is_object() {
        data["text"] = Value::Null;
    }
    data
}

pub(super) fn is_query(ask: &Ask) -> bool {
    match ask {
        Ask::Task(ask) => ask.is_query(),
        Ask::Open { .. }
        | Ask::Do { .. }
        | Ask::Report { .. }
        | Ask::Call { .. }
        | Ask::OpenRun { .. }
        | Ask::DoRun { .. } => false,
        Ask::RunRow { .. }
        | Ask::Graph { .. }
        | Ask::Runs { .. }
        | Ask::Row { .. }
        | Ask::Why { .. }
        | Ask::List(_)
        | Ask::Live
        | Ask::Status { .. }
        | Ask::Overlay
        | Ask::Archive { .. } => true,
    }
}
