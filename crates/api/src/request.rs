//! What may be asked of the daemon.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ShortageRow;

/// Opens a session. `spec` is the domain's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenRequest {
    /// The session's id, if the caller minted one: a UUID of version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub spec: Value,
}

/// Says something to the agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendRequest {
    pub text: String,
    /// End the open attempt and make this the next instruction.
    #[serde(default)]
    pub supersede: bool,
}

/// Has the agent leave its turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InterruptRequest {
    /// What the agent is told next.
    #[serde(default)]
    pub text: Option<String>,
}

/// A call of a tool by which a member of a task acts on it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallRequest {
    /// The caller's own name for the call, unique within its launch.
    pub id: String,
    /// What is asked, in the domain's own form.
    pub call: Value,
    /// The launch that calls, with its token, where its process does not tell.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// What came of a call of a tool.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallReply {
    pub ok: bool,
    /// Whether the task's rules let it be done.
    pub taken: bool,
    /// What the agent is told, as JSON.
    pub answer: String,
}

/// Ends the work.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequest {
    pub because: String,
}

/// Corrects an outcome.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResolveRequest {
    /// accepted, failed or cancelled.
    pub to: String,
    pub because: String,
}

/// Answers a request of the agent, by one of `text`, `answers` and `decision`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRequest {
    pub request: String,
    pub revision: u32,
    /// For the one thing asked, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// For several things asked, by the ids of the questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// For an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
}

/// What is decided about an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Approve,
    ApproveForSession,
    Deny,
}

/// Gives a session another name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RenameRequest {
    pub name: String,
}

/// Raises limits of a session; what is not named stays.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LimitRequest {
    /// Bytes of output that are kept of one launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Tokens that the session may use in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Turns that the session may take in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
}

/// Testimony about a session, from its agent or from the operator: a claim, a fact with its value, or progress.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReportRequest {
    /// The launch that speaks; without it the operator speaks about `session`.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
    #[serde(default)]
    pub session: Option<String>,
    /// working, needs_input, completed or failed.
    #[serde(default)]
    pub claim: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    /// branch, pr or artifact.
    #[serde(default)]
    pub fact: Option<String>,
    #[serde(default)]
    pub value: Option<String>,
    /// How far the work is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressReport>,
    /// What a hook of the agent was given, in the agent's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<serde_json::Value>,
}

/// How far the work is, in steps of the agent's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReport {
    pub done: u64,
    /// Not less than `done`.
    pub total: u64,
}

/// What became of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportReply {
    pub ok: bool,
    /// applied, recorded or recorded_late.
    pub standing: String,
    pub id: String,
    pub state: String,
    pub sealed: bool,
    pub next: Vec<String>,
}

/// The daemon about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    pub ok: bool,
    pub pid: u32,
    pub version: String,
    pub protocol: u32,
    pub socket: String,
    pub home: String,
    /// Why nothing can be changed, if so.
    pub read_only: Option<String>,
    /// What the ledger lost, if the operator has not accepted it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_loss: Option<String>,
    /// What runs and the ledger does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_holders: Vec<UnknownHolder>,
    pub live_sessions: usize,
    /// How many agents run that Provost started, also for sessions that are over.
    #[serde(default)]
    pub running_agents: usize,
    /// What the machine is short of. What needs it waits, and is tried again by itself.
    #[serde(default)]
    pub shortages: Vec<ShortageRow>,
    /// Names of environment variables that the daemon can pass to agents; values are never shown.
    pub environment: Vec<String>,
}

/// A launch, check or hook that Provost started and the ledger does not know, because its events were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownHolder {
    /// The name of its directory; of a launch, its id.
    pub key: String,
    /// The session, run or team that it was started for.
    pub owner: String,
    /// Whether the ledger knows that one.
    #[serde(default)]
    pub owner_known: bool,
    pub alive: bool,
    /// The process of its command.
    pub pid: Option<u32>,
    pub command: String,
    pub directory: String,
    /// When it was started, in milliseconds since 1970.
    pub started_at: Option<i64>,
}

/// A verifier's command that the daemon runs under a holder. Only the operator may ask for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRequest {
    /// The program, by an absolute path or by a bare name, and its arguments.
    pub argv: Vec<String>,
    pub directory: String,
    /// The complete environment.
    pub environment: BTreeMap<String, String>,
    pub time_limit_ms: u64,
    /// Bytes of both output streams.
    pub output_limit: u64,
}

/// How a verifier's command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReply {
    pub ok: bool,
    pub end: VerifyEnd,
    /// The last line that it printed.
    pub printed: String,
}

/// An end of a verifier's command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyEnd {
    Exit(i32),
    Signal(i32),
    TimeLimit,
    OutputLimit,
    /// It was not started, or nobody saw its end.
    Unfinished(String),
}

/// An event of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    pub seq: u64,
    pub at: i64,
    /// The id of the session, or of the run, that it happened to.
    pub session: String,
    /// Whether it happened to a `session` or to a `run`.
    #[serde(default = "of_session")]
    pub stream: String,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub data: Value,
    /// The session's state after the event, where it was live when told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

fn of_session() -> String {
    "session".to_owned()
}

/// Who is on the other side of the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    Operator,
    /// A process below this launch's holder.
    Launch(String),
}
