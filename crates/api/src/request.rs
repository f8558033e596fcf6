//! Requests to the daemon.

use std::collections::BTreeMap;

use provost_core::lifecycle::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Extensible, Hint, ShortageRow};

/// Opens a session. `spec` has the domain's own format and was resolved by the command line.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenSessionRequest {
    /// The id for the session, if the caller created one. It must be a UUID version 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub spec: Value,
}

/// Sends a message to the agent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SendRequest {
    pub text: String,
    /// Whether to end the open attempt and use this message as the next instruction.
    #[serde(default)]
    pub supersede: bool,
}

/// Interrupts the agent's turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct InterruptRequest {
    /// The message to send to the agent next.
    #[serde(default)]
    pub text: Option<String>,
}

/// A tool call with which a member acts on its team.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallRequest {
    /// The caller's id for the call, unique within its launch.
    pub id: String,
    /// The call, in the domain's own format.
    pub call: Value,
    /// The calling launch and its token. Needed if the calling process does not identify the
    /// launch.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

/// The result of a tool call.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CallReply {
    pub ok: bool,
    /// The id of the caller's session.
    pub id: String,
    /// Whether the team's rules accepted the call.
    pub accepted: bool,
    /// The response for the agent, as JSON.
    pub answer: String,
}

/// Cancels the work.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CancelRequest {
    pub because: String,
}

/// Resolves a session with an outcome that the operator chooses.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ResolveRequest {
    /// The outcome: accepted, failed or cancelled.
    pub to: String,
    pub because: String,
}

/// Answers an agent's request. Exactly one of `text`, `answers` and `decision` is set.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct AnswerRequest {
    pub request: String,
    pub revision: u32,
    /// The answer to a single question, passed on verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The answers to several questions, by question id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<BTreeMap<String, Vec<String>>>,
    /// The decision on an approval request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<ApprovalDecision>,
}

/// The decision on an approval request.
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

/// Raises the limits of a session. Omitted limits do not change.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct LimitRequest {
    /// Maximum number of bytes of output to keep per launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Maximum number of tokens for the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Maximum number of turns for the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
}

/// A report about a session by its agent or by the operator: a claim, a fact and its value, or
/// progress.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ReportRequest {
    /// The reporting launch. If it is missing, the operator is reporting about `session`.
    #[serde(default)]
    pub launch: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
    #[serde(default)]
    pub session: Option<String>,
    /// The claim: working, needs_input, completed or failed.
    #[serde(default)]
    pub claim: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    /// The kind of the fact: branch, pr or artifact.
    #[serde(default)]
    pub fact: Option<String>,
    #[serde(default)]
    pub value: Option<String>,
    /// The progress of the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressReport>,
    /// The input of one of the agent's hooks, in the agent's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<serde_json::Value>,
}

/// The progress of the work, measured in steps that the agent chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgressReport {
    pub done: u64,
    /// The total amount of work, which is at least `done`.
    pub total: u64,
}

/// Moves closed streams into the archive.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ArchiveRequest {
    /// Whether to archive. Otherwise, the reply only counts what would be archived.
    #[serde(default)]
    pub apply: bool,
    /// The minimum age of a stream, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<i64>,
}

/// Collects the files of closed sessions, runs and teams.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct GcRequest {
    /// Whether to remove anything. Otherwise, the reply only lists what would be removed.
    #[serde(default)]
    pub apply: bool,
    /// The minimum age of the data, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub older_than_ms: Option<i64>,
    /// If set, only these runs are collected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Vec<String>>,
}

/// The result of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReportReply {
    pub ok: bool,
    /// The status of the report: applied, recorded or recorded_late.
    pub status: String,
    pub id: String,
    pub state: Extensible<State>,
    pub sealed: bool,
    /// Commands to run next.
    pub next: Vec<Hint>,
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
    /// The reason why the daemon is read-only, if it is.
    pub read_only: Option<String>,
    /// A description of the ledger's loss, if the operator has not accepted the loss yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger_loss: Option<String>,
    /// Running holders that are not in the ledger.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_holders: Vec<UnknownHolder>,
    pub live_sessions: usize,
    /// Number of running agents that Provost started, including those of ended sessions.
    #[serde(default)]
    pub running_agents: usize,
    /// Resources that are in short supply on the machine. Work that needs them is postponed and
    /// retried automatically.
    #[serde(default)]
    pub shortages: Vec<ShortageRow>,
    /// Names of the environment variables that the daemon can pass to agents. Values are never
    /// shown.
    pub environment: Vec<String>,
}

/// A launch, check or hook that Provost started but that is not in the ledger, because its events
/// were lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnknownHolder {
    /// The name of the holder's directory, which is the launch id for a launch.
    pub key: String,
    /// The session, run or team for which the holder was started.
    pub owner: String,
    /// Whether the holder's owner is in the ledger.
    #[serde(default)]
    pub owner_known: bool,
    pub alive: bool,
    /// The pid of the holder's command.
    pub pid: Option<u32>,
    pub command: String,
    pub directory: String,
    /// The time at which the process was started, in milliseconds since the epoch.
    pub started_at: Option<i64>,
}

/// A verifier command for the daemon to run under a holder. Only the operator may request this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyRequest {
    /// The program, as an absolute path or a bare name, and its arguments.
    pub argv: Vec<String>,
    pub directory: String,
    /// The complete environment.
    pub environment: BTreeMap<String, String>,
    pub time_limit_ms: u64,
    /// Maximum number of bytes in both output streams combined.
    pub output_limit: u64,
}

/// The result of a verifier command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReply {
    pub ok: bool,
    pub end: VerifyEnd,
    /// The last line of the command's output.
    pub printed: String,
}

/// The way a verifier command ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerifyEnd {
    Exit(i32),
    Signal(i32),
    TimeLimit,
    OutputLimit,
    /// The command was not started, or its exit was not observed.
    Unfinished(String),
}

/// An event in the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventRow {
    pub seq: u64,
    pub at: i64,
    /// The id of the session or run that the event concerns.
    pub session: String,
    /// Whether the event concerns a `session` or a `run`.
    #[serde(default = "default_stream")]
    pub stream: String,
    pub version: u64,
    pub kind: String,
    pub actor: String,
    pub data: Value,
    /// The session's state after the event, if the session was live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Extensible<State>>,
}

fn default_stream() -> String {
    "session".to_owned()
}

/// The identity of the process that connected to the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    Operator,
    /// A process below the holder of this launch.
    Launch(String),
}
