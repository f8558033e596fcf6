//! What may be asked of the daemon.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// Answers a request of the agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRequest {
    pub request: String,
    pub revision: u32,
    pub text: String,
}

/// Raises a limit.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LimitRequest {
    pub output: u64,
}

/// Testimony about a session, from its agent or from the operator.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
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
    pub live_sessions: usize,
    /// Names of environment variables that the daemon can pass to agents; values are never shown.
    pub environment: Vec<String>,
}

/// An event of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    pub seq: u64,
    pub at: i64,
    pub session: String,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub data: Value,
    /// The session's state after the event, where it was live when told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Who is on the other side of the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    Operator,
    /// A process below this launch's holder.
    Launch(String),
}
