//! How others speak to the owner: asking, telling, and hearing what became durable.

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

/// JSON, or why there is none.
pub(super) type Answer = Result<String, ApiError>;

/// What may be asked of the engine.
#[derive(Debug)]
pub enum Ask {
    Open {
        id: SessionId,
        spec: Box<Spec>,
        warnings: Vec<String>,
    },
    /// Something that an operator asks of a session.
    Do {
        session: String,
        command: Command,
    },
    Report {
        session: Option<String>,
        from: Reporter,
        testimony: Testimony,
    },
    /// A call of a tool by which a member of a task acts on it, made beside the agent's stream.
    Call {
        launch: LaunchId,
        native: String,
        call: Box<task::Call>,
    },
    OpenRun {
        id: RunId,
        spec: Box<RunSpec>,
    },
    /// Something that an operator asks of a run.
    DoRun {
        run: String,
        command: run::Command,
    },
    RunRow {
        run: String,
    },
    /// The plan of a run, with how far each task is.
    Graph {
        run: String,
    },
    Runs {
        limit: usize,
    },
    /// Something about a task that stands alone.
    Task(TaskAsk),
    Row {
        session: String,
    },
    Why {
        session: String,
    },
    List(Listing),
    /// Gives the launches that may be running, with their holders where known.
    Live,
    Archive {
        before_wall_ms: i64,
        apply: bool,
    },
    /// How the daemon is, and which of these holders' directories no session or run on the board owns.
    Status {
        registered: Vec<String>,
    },
    /// Rows that differ from what is written, because it cannot be written now, and what the machine is short of.
    Overlay,
}

pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) actor: String,
    pub(super) key: Option<String>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// Something that was observed or done.
#[derive(Debug)]
pub struct Told {
    pub session: SessionId,
    /// What is told together becomes durable together.
    pub commands: Vec<Command>,
}

/// Something that was done for a run.
#[derive(Debug)]
pub struct RunTold {
    pub run: RunId,
    pub command: run::Command,
}

/// Something that was done for a task that stands alone.
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
    /// The task that carried out an effect panicked.
    EffectLost(Subject, EffectKey),
    Stop(oneshot::Sender<()>),
}

/// Events that became durable, as they are shown.
pub type Published = Arc<Vec<EventRow>>;

/// Speaks to the owner. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) events: broadcast::Sender<Published>,
}

/// Tells the owner what was observed. Cheap to clone.
#[derive(Clone)]
pub struct Teller {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) heard: Arc<Mutex<HashMap<LaunchId, u64>>>,
}

impl Handle {
    /// Asks, and waits until the answer is durable.
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

    /// Asks and reads the answer.
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
    /// Tells the owner, and waits only until it is queued.
    pub(crate) async fn tell(&self, session: SessionId, command: Command) {
        self.tell_all(session, vec![command]).await;
    }

    /// Tells the owner several things that become durable together or not at all.
    pub(crate) async fn tell_all(&self, session: SessionId, commands: Vec<Command>) {
        // A stopped owner hears nothing more; the next one reads the same from the journal.
        drop(self.inputs.send(Input::Told(Told { session, commands })).await);
    }

    /// Tells the owner what came of an effect of a run.
    pub(crate) async fn tell_run(&self, run: RunId, command: run::Command) {
        // A stopped owner hears nothing more; what was owed is owed again at the next start.
        drop(self.inputs.send(Input::RunTold(RunTold { run, command })).await);
    }

    /// Tells the owner what came of an effect of a task.
    pub(crate) async fn tell_task(&self, task: StandingId, command: task::Command) {
        // A stopped owner hears nothing more; what was owed is owed again at the next start.
        drop(self.inputs.send(Input::TaskTold(TaskTold { task, command })).await);
    }

    /// Tells the owner that nothing carries out an effect any more.
    pub(crate) async fn effect_lost(&self, subject: Subject, effect: EffectKey) {
        // A stopped owner hears nothing more; what was owed is owed again at the next start.
        drop(self.inputs.send(Input::EffectLost(subject, effect)).await);
    }

    /// Forgets a launch of which nothing more will be heard.
    pub(crate) fn forget(&self, launch: LaunchId) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).remove(&launch);
    }

    /// Says that all was told that happened to a launch while no daemon ran.
    pub(crate) async fn caught_up(&self, launch: LaunchId) {
        // A stopped owner needs to know no more.
        drop(self.inputs.send(Input::CaughtUp(launch)).await);
    }

    /// Notes that something was heard of a launch. Asked for only when silence is due.
    pub(crate) fn heard(&self, launch: LaunchId, mono_ms: u64) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).insert(launch, mono_ms);
    }
}

/// Shows a recorded event.
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

/// Gives what an event says. A proposal for what comes next is read by nobody before both are written, and then in the
/// message to who chooses.
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
