//! The types of a model's scenario: threads, their turns, the model's responses and their items.
//!
//! A turn is Codex's turn. A response answers one request of a turn, so a turn has one response per
//! model call. [`super::parse`] reads all of this from TOML.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// The default size of a delta in characters. `chunk` overrides it.
const CHUNK: usize = 12;

/// All answers of a model.
#[derive(Debug, Clone, Default)]
pub struct ModelScenario {
    pub description: String,
    /// The usage of responses that set none.
    pub usage: ScriptedUsage,
    /// The answer to requests that match no thread. Without a default answer, such requests are
    /// refused as unexpected.
    pub default_response: Option<Response>,
    pub hidden_answers: HiddenAnswers,
    pub threads: Vec<ScriptedThread>,
}

/// Answers to hidden requests, which do not use up a turn.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HiddenAnswers {
    /// The title of a task, which the terminal interface requests.
    pub title: String,
    /// The summary of a compacted conversation.
    pub compaction: String,
}

impl Default for HiddenAnswers {
    fn default() -> Self {
        Self {
            title: "Scripted task".to_owned(),
            compaction: "A summary of the conversation so far.".to_owned(),
        }
    }
}

/// The answers to one of Codex's threads.
#[derive(Debug, Clone)]
pub struct ScriptedThread {
    /// The name of the thread in records and errors.
    pub name: String,
    pub when: ThreadSelector,
    /// The number of threads that get the answers.
    pub repeat: RepeatCount,
    pub turns: Vec<ScriptedTurn>,
}

/// Selects a thread. All given conditions must hold for the first request of the thread. Without
/// conditions it selects the next thread that a user started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadSelector {
    /// A part of the newest message to the model.
    pub prompt: Option<String>,
    /// The number of the thread in order of appearance, including sub-agents.
    pub number: Option<usize>,
    /// Whether the thread is a sub-agent's. False by default, unless `agent` is given.
    pub subagent: Option<bool>,
    /// The name of a sub-agent, if Codex reports it (not in 0.107).
    pub agent: Option<String>,
    /// The model's name.
    pub model: Option<String>,
}

/// The answers within one turn.
#[derive(Debug, Clone)]
pub struct ScriptedTurn {
    /// A part of the message that starts the turn. A turn with this condition is used whenever it
    /// matches; the others are used in order.
    pub when: Option<String>,
    pub responses: Vec<Response>,
    pub repeat: RepeatCount,
}

/// The number of repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepeatCount {
    Times(u32),
    /// Any number of times, including none. Only the last element of its kind can repeat forever.
    Forever,
}

impl Default for RepeatCount {
    fn default() -> Self {
        Self::Times(1)
    }
}

/// The answer to one request.
#[derive(Debug, Clone, Default)]
pub struct Response {
    /// The pause before the status line.
    pub delay_ms: u64,
    pub headers: BTreeMap<String, String>,
    /// The account's limits, by the names of their windows. They are sent in headers.
    pub limits: Vec<(String, Limit)>,
    pub items: Vec<ScriptedItem>,
    pub usage: Option<ScriptedUsage>,
    pub end: ResponseEnd,
    pub repeat: RepeatCount,
}

/// The end of a response.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum ResponseEnd {
    #[default]
    Completed,
    /// The connection is reset.
    Drop,
    /// The stream ends properly, but before `response.completed`.
    Cut,
    /// Nothing more arrives until the client disconnects.
    Hang,
    /// The stream ends with the event `response.failed`.
    Failed { code: String, message: String },
    /// The stream ends with the event `response.incomplete`, which gives this reason.
    Incomplete(String),
    /// An HTTP status instead of a stream.
    Http(Http),
    /// HTTP 429 as Codex expects it for a usage limit.
    UsageLimit(UsageLimit),
}

/// An HTTP status instead of a stream.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    pub status: u16,
    /// The body. A string is sent unchanged, any other value as JSON.
    #[serde(default)]
    pub body: Option<Value>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// A usage limit and its reset time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageLimit {
    pub reset: ResetTime,
    pub plan: String,
    pub reset_location: ResetLocation,
}

/// The place in a response where the reset time of a usage limit is sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResetLocation {
    #[default]
    Both,
    Body,
    Headers,
}

/// A time: in seconds since 1970, or relative to the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetTime {
    At(i64),
    In(i64),
}

/// A window of the account's limits, as an ordinary response reports it in its headers.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    pub used_percent: f64,
    pub window_minutes: Option<u32>,
    pub reset: Option<ResetTime>,
}

/// The token usage that a response reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScriptedUsage {
    pub input: u64,
    pub cached: u64,
    pub output: u64,
    pub reasoning: u64,
}

impl Default for ScriptedUsage {
    fn default() -> Self {
        Self { input: 100, cached: 0, output: 20, reasoning: 0 }
    }
}

/// One item of a response. The variant's name in snake case is the key in the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptedItem {
    Message(ScriptedMessage),
    /// A message whose text is this value: a structured output.
    Json(JsonMessage),
    Reasoning(Reasoning),
    /// A command, run with the tool that this Codex offers for it.
    Shell(Shell),
    Patch(Valued<String>),
    Plan(PlanItem),
    /// Questions that block until they are answered.
    Ask(Valued<Vec<ScriptedQuestion>>),
    /// Questions that do not block.
    AskAsync(Valued<Vec<AsyncQuestion>>),
    /// A call of any tool by its name, such as a dynamic tool.
    Tool(ToolCallItem),
    /// A call of a free-form tool by its name.
    Custom(CustomToolItem),
    Spawn(SpawnAgentItem),
    /// Waits for the sub-agents of this thread.
    WaitAgents(WaitAgents),
    WebSearch(Valued<String>),
    /// A pause within the stream.
    DelayMs(Valued<u64>),
    /// A wait until the test releases the hold.
    Hold(Valued<String>),
    /// Any output item.
    RawItem(Valued<Value>),
    /// Any event of the stream.
    RawEvent(Valued<Value>),
    /// Text that is written to the connection unchanged.
    RawBytes(Valued<String>),
}

/// The keys that name items, with the additional keys of each.
pub(super) const ITEMS: &[(&str, &[&str])] = &[
    ("message", &["phase", "deltas", "unfinished"]),
    ("json", &["phase", "deltas"]),
    ("reasoning", &["raw", "deltas"]),
    (
        "shell",
        &["workdir", "escalate", "justification", "prefix_rule", "yield_time_ms", "login", "tty"],
    ),
    ("patch", &[]),
    ("plan", &["explanation"]),
    ("ask", &[]),
    ("ask_async", &[]),
    ("tool", &["args", "namespace"]),
    ("custom", &["input", "namespace"]),
    ("spawn", &["name", "history"]),
    ("wait_agents", &["timeout_ms"]),
    ("web_search", &[]),
    ("delay_ms", &[]),
    ("hold", &[]),
    ("raw_item", &[]),
    ("raw_event", &[]),
    ("raw_bytes", &[]),
];

/// An item without additional keys.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Valued<T> {
    pub value: T,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ScriptedMessage {
    #[serde(rename = "value")]
    pub text: String,
    pub phase: Option<MessagePhase>,
    pub deltas: Option<Deltas>,
    /// Whether the finished message is left out after the deltas.
    #[serde(default)]
    pub unfinished: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct JsonMessage {
    pub value: Value,
    pub phase: Option<MessagePhase>,
    pub deltas: Option<Deltas>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePhase {
    Commentary,
    FinalAnswer,
}

/// The way in which a text is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Deltas {
    /// The number of characters per delta.
    pub chunk: usize,
    pub delay_ms: u64,
}

impl Default for Deltas {
    fn default() -> Self {
        Self { chunk: CHUNK, delay_ms: 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Reasoning {
    #[serde(rename = "value")]
    pub summary: String,
    /// The reasoning itself, in addition to its summary.
    pub raw: Option<String>,
    pub deltas: Option<Deltas>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Shell {
    #[serde(rename = "value")]
    pub command: String,
    pub workdir: Option<String>,
    /// Whether the command asks to run outside the sandbox.
    #[serde(default)]
    pub escalate: bool,
    pub justification: Option<String>,
    pub prefix_rule: Option<Vec<String>>,
    pub yield_time_ms: Option<u64>,
    pub login: Option<bool>,
    pub tty: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct PlanItem {
    #[serde(rename = "value")]
    pub steps: Vec<PlanItemStep>,
    pub explanation: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlanItemStep {
    pub step: String,
    pub status: PlanStatus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanStatus {
    Pending,
    InProgress,
    Completed,
}

/// A question of `request_user_input`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedQuestion {
    pub id: String,
    pub header: String,
    pub question: String,
    #[serde(default)]
    pub options: Vec<QuestionOption>,
    #[serde(default, rename(serialize = "isSecret"))]
    pub secret: bool,
    #[serde(default, rename(serialize = "isOther"))]
    pub other: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionOption {
    pub label: String,
    #[serde(default)]
    pub description: String,
}

/// A question of `request_user_input_async`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct AsyncQuestion {
    pub title: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolCallItem {
    #[serde(rename = "value")]
    pub tool: String,
    #[serde(default = "no_arguments")]
    pub args: Value,
    pub namespace: Option<String>,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct CustomToolItem {
    #[serde(rename = "value")]
    pub tool: String,
    #[serde(default)]
    pub input: String,
    pub namespace: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SpawnAgentItem {
    #[serde(rename = "value")]
    pub task: String,
    /// The sub-agent's name, if Codex lets the model choose it.
    #[serde(default = "helper")]
    pub name: String,
    /// Whether the sub-agent gets the history of its parent.
    #[serde(default)]
    pub history: bool,
}

fn helper() -> String {
    "helper".to_owned()
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct WaitAgents {
    #[serde(rename = "value")]
    pub wait: TrueFlag,
    pub timeout_ms: Option<u64>,
}

/// A key that can only be `true`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "bool")]
pub struct TrueFlag;

impl TryFrom<bool> for TrueFlag {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value { Ok(Self) } else { Err("only `true` is allowed here") }
    }
}
