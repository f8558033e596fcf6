//! Requests to the daemon.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ShortageRow;

/// Opens a session. `spec` is the domain's own form, resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenSessionRequest {
    /// The session's id, if the caller created one: a UUID of version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub spec: Value,
}

/// Sends a message to the agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendRequest {
    pub text: String,
    /// End the open attempt and make this the next instruction.
    #[serde(default)]
    pub supersede: bool,
}

/// Interrupts the agent's turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InterruptRequest {
    /// The next message to the agent.
    #[serde(default)]
    pub text: Option<String>,
}

/// A call of a tool with which a member acts on its team.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallRequest {
    /// The caller's own name for the call, unique within its launch.
    pub id: String,
    /// The call, in the domain's own form.
    pub call: Value,
    /// The calling launch and its token, if its process does not identify it.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallReply {
    pub ok: bool,
    /// Whether the team's rules accepted it.
    pub accepted: bool,
    /// The answer to the agent, as JSON.
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

/// Answers a request of the agent, with one of `text`, `answers` and `decision`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRequest {
    pub request: String,
    pub revision: u32,
    /// For a single question, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// For several questions, by their ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// For an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
}

/// The decision about an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    Approve,
    ApproveForSession,
    Deny,
}

/// Renames a session.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RenameRequest {
    pub name: String,
}

/// Raises limits of a session; omitted ones stay.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LimitRequest {
    /// Maximum bytes of output kept of one launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Maximum number of tokens of the session in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum number of turns of the session in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
}

/// Testimony about a session, from its agent or from the operator: a claim, a fact with its value,
/// or progress.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReportRequest {
    /// The reporting launch; without it the operator reports about `session`.
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
    /// The progress of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressReport>,
    /// The input of an agent's hook, in the agent's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<serde_json::Value>,
}

/// The progress of the work, in steps that the agent chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReport {
    pub done: u64,
    /// At least `done`.
    pub total: u64,
}

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportReply {
    pub ok: bool,
    /// applied, recorded or recorded_late.
    pub status: String,
    pub id: String,
    pub state: String,
    pub sealed: bool,
    pub next: Vec<String>,
}

/// Information about the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    pub ok: bool,
    pub pid: u32,
    pub version: String,
    pub protocol: u32,
    pub socket: String,
    pub home: String,
    /// Why the daemon is read-only, if it is.
    pub read_only: Option<String>,
    /// The loss in the ledger, if the operator has not accepted it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_loss: Option<String>,
    /// Running holders that the ledger does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_holders: Vec<UnknownHolder>,
    pub live_sessions: usize,
    /// Number of running agents that Provost started, including those of ended sessions.
    #[serde(default)]
    pub running_agents: usize,
    /// Resources that the machine is short of. Work that needs them waits, and is retried
    /// automatically.
    #[serde(default)]
    pub shortages: Vec<ShortageRow>,
    /// Names of environment variables that the daemon can pass to agents; values are never shown.
    pub environment: Vec<String>,
}

/// A launch, check or hook that Provost started and the ledger does not know, because its events
/// were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownHolder {
    /// The name of its directory; for a launch, its id.
    pub key: String,
    /// The session, run or team for which it was started.
    pub owner: String,
    /// Whether the ledger knows that owner.
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

/// A verifier's command that the daemon runs under a holder. Only the operator may request it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRequest {
    /// The program, as an absolute path or a bare name, and its arguments.
    pub argv: Vec<String>,
    pub directory: String,
    /// The complete environment.
    pub environment: BTreeMap<String, String>,
    pub time_limit_ms: u64,
    /// Bytes of both output streams together.
    pub output_limit: u64,
}

/// How a verifier's command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReply {
    pub ok: bool,
    pub end: VerifyEnd,
    /// The last line of its output.
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
    /// It was not started, or its end was not observed.
    Unfinished(String),
}

/// An event of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    pub seq: u64,
    pub at: i64,
    /// The id of the session or run that it concerns.
    pub session: String,
    /// Whether it concerns a `session` or a `run`.
    #[serde(default = "default_stream")]
    pub stream: String,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub data: Value,
    /// The session's state after the event, if the session was live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

fn default_stream() -> String {
    "session".to_owned()
}

/// The identity of the peer on the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    Operator,
    /// A process below this launch's holder.
    Launch(String),
}
