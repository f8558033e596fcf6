//! The parsed lines of a rollout, with the fields that Provost uses. Other fields may differ
//! between versions of Codex.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::event::{
    AccountLimits, AgentPlan, AgentPlanStep, LimitReset, LimitUsage, RecordedTurnEnd, SessionMeta,
    StepStatus, TokenReport, TokenUsage,
};
use crate::ThreadId;

/// A line with its unparsed payload.
#[derive(Debug, Deserialize)]
pub(crate) struct RolloutRecord<'a> {
    #[serde(default)]
    pub(crate) timestamp: Option<String>,
    #[serde(default)]
    pub(crate) ordinal: Option<u64>,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(borrow, default)]
    payload: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct PayloadKind {
    #[serde(rename = "type", default)]
    pub(crate) inner: Option<String>,
}

impl<'a> RolloutRecord<'a> {
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Returns the payload if it can be parsed as this type.
    pub(crate) fn payload<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.payload?.get()).ok()
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct MetaRecord {
    id: String,
    #[serde(default)]
    parent_thread_id: Option<String>,
    #[serde(default)]
    forked_from_id: Option<String>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    cli_version: Option<String>,
    #[serde(default)]
    originator: Option<String>,
    /// The origin of the thread. It is a string, or an object if Codex itself started the thread.
    #[serde(default)]
    source: serde_json::Value,
    /// The origin of the thread in newer versions, where it is always a string.
    #[serde(default)]
    thread_source: Option<String>,
    /// Records with a smaller ordinal belong to the thread from which this one was forked.
    #[serde(default)]
    pub(crate) subagent_history_start_ordinal: Option<u64>,
}

impl MetaRecord {
    pub(crate) fn session(&self) -> Option<SessionMeta> {
        let id = |text: &Option<String>| text.as_deref().and_then(ThreadId::parse);
        Some(SessionMeta {
            thread: ThreadId::parse(&self.id)?,
            parent: id(&self.parent_thread_id),
            forked_from: id(&self.forked_from_id),
            cwd: self.cwd.clone(),
            cli_version: self.cli_version.clone(),
            originator: self.originator.clone(),
            hidden: self.is_hidden(),
        })
    }

    fn is_hidden(&self) -> bool {
        let by_itself = ["subagent", "internal"].iter().any(|kind| self.source.get(kind).is_some());
        let for_people = self.thread_source.as_deref().is_none_or(|source| source == "user");
        by_itself || !for_people || self.parent_thread_id.is_some()
    }
}

/// The start or end of a turn.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TurnRecord {
    #[serde(default)]
    pub(crate) turn_id: Option<String>,
    #[serde(default)]
    pub(crate) last_agent_message: Option<String>,
    #[serde(default)]
    pub(crate) reason: Option<String>,
    #[serde(default)]
    pub(crate) error: Option<TurnFailure>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TurnFailure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    codex_error_info: Option<ErrorKind>,
}

/// The kind of an error, which is a string, or an object with details.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum ErrorKind {
    Word(String),
    With(BTreeMap<String, IgnoredAny>),
}

impl TurnFailure {
    pub(crate) fn end(self) -> RecordedTurnEnd {
        let kind = self.codex_error_info.and_then(|kind| match kind {
            ErrorKind::Word(word) => Some(word),
            ErrorKind::With(map) => map.into_keys().next(),
        });
        RecordedTurnEnd::Error { message: self.message, kind }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct TokenCount {
    #[serde(default)]
    info: Option<TokenInfo>,
    #[serde(default)]
    rate_limits: Option<RateLimits>,
}

#[derive(Debug, Deserialize)]
struct TokenInfo {
    total_token_usage: RecordedCounts,
    last_token_usage: RecordedCounts,
    #[serde(default)]
    model_context_window: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct RecordedCounts {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    reasoning_output_tokens: u64,
    #[serde(default)]
    total_tokens: u64,
}

impl From<RecordedCounts> for TokenUsage {
    fn from(counts: RecordedCounts) -> Self {
        Self {
            input: counts.input_tokens,
            cached_input: counts.cached_input_tokens,
            output: counts.output_tokens,
            reasoning_output: counts.reasoning_output_tokens,
            total: counts.total_tokens,
        }
    }
}

#[derive(Debug, Deserialize)]
struct RateLimits {
    #[serde(default)]
    limit_id: Option<String>,
    #[serde(default)]
    primary: Option<LimitWindow>,
    #[serde(default)]
    secondary: Option<LimitWindow>,
    #[serde(default)]
    rate_limit_reached_type: Option<String>,
}

#[derive(Debug, Deserialize)]
struct LimitWindow {
    used_percent: f64,
    #[serde(default)]
    window_minutes: Option<u64>,
    #[serde(default)]
    resets_at: Option<i64>,
    #[serde(default)]
    resets_in_seconds: Option<u64>,
}

impl From<LimitWindow> for LimitUsage {
    fn from(window: LimitWindow) -> Self {
        let at = window.resets_at.map(LimitReset::At);
        Self {
            used_percent: window.used_percent,
            minutes: window.window_minutes,
            reset: at.or(window.resets_in_seconds.map(LimitReset::In)),
        }
    }
}

impl TokenCount {
    pub(crate) fn into_parts(self) -> (Option<TokenReport>, Option<AccountLimits>) {
        let tokens = self.info.map(|info| TokenReport {
            response: info.last_token_usage.into(),
            total: info.total_token_usage.into(),
            window: info.model_context_window,
        });
        let limits = self.rate_limits.map(|limits| AccountLimits {
            id: limits.limit_id,
            primary: limits.primary.map(LimitUsage::from),
            secondary: limits.secondary.map(LimitUsage::from),
            reached: limits.rate_limit_reached_type,
        });
        let says_something = |limits: &AccountLimits| {
            limits.primary.is_some() || limits.secondary.is_some() || limits.reached.is_some()
        };
        (tokens, limits.filter(says_something))
    }
}

/// A user message, as recorded in the older history format.
#[derive(Debug, Deserialize)]
pub(crate) struct UserMessage {
    #[serde(default)]
    pub(crate) client_id: Option<String>,
    #[serde(default)]
    pub(crate) message: String,
}

/// A user message in the newer format, where it is a completed item.
#[derive(Debug, Deserialize)]
pub(crate) struct ItemCompleted {
    #[serde(default)]
    pub(crate) turn_id: Option<String>,
    pub(crate) item: RecordedItem,
}

#[derive(Debug, Deserialize)]
pub(crate) struct RecordedItem {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) client_id: Option<String>,
    #[serde(default)]
    content: Vec<ItemContent>,
}

#[derive(Debug, Deserialize)]
struct ItemContent {
    #[serde(default)]
    text: Option<String>,
}

impl RecordedItem {
    pub(crate) fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| content.text.as_deref());
        texts.collect::<Vec<_>>().join("\n")
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct FunctionCall {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    arguments: String,
}

#[derive(Debug, Deserialize)]
struct PlanArguments {
    plan: Vec<PlanArgument>,
}

#[derive(Debug, Deserialize)]
struct PlanArgument {
    step: String,
    #[serde(default)]
    status: String,
}

impl FunctionCall {
    pub(crate) fn plan(&self) -> Option<AgentPlan> {
        let arguments: PlanArguments = serde_json::from_str(&self.arguments).ok()?;
        let step =
            |step: PlanArgument| AgentPlanStep { status: status(&step.status), text: step.step };
        Some(AgentPlan { steps: arguments.plan.into_iter().map(step).collect() })
    }
}

fn status(word: &str) -> StepStatus {
    match word {
        "pending" => StepStatus::Pending,
        "in_progress" => StepStatus::InProgress,
        "completed" => StepStatus::Completed,
        _ => StepStatus::Unknown,
    }
}
