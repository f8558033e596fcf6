//! A scripted response on the wire: the steps of its stream, and the bytes of an event.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::request::ModelRequest;
use super::scenario::{
    CustomToolItem, Deltas, Limit, Reasoning, ResetLocation, ResetTime, Response, ResponseEnd,
    ScriptedItem, ScriptedMessage, ScriptedUsage, Shell, SpawnAgentItem, ToolCallItem, UsageLimit,
};
use super::tools::{self, ToolInvocation, Tools};
use crate::scenario::render;

/// A placeholder for reasoning that only the model's vendor can read.
const ENCRYPTED: &str = "c2NyaXB0ZWQ=";

/// One step of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum StreamStep {
    Event(Value),
    Bytes(Vec<u8>),
    Pause(Duration),
    Hold(String),
}

/// An HTTP response that is not a stream.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PlainResponse {
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: String,
}

/// Formats an event for the wire.
pub(super) fn sse(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap_or("message");
    format!("event: {kind}\ndata: {event}\n\n")
}

/// Returns the stream of a response from its first event to its last, or why this Codex cannot receive it.
pub(super) fn steps(
    response: &Response,
    usage: ScriptedUsage,
    request: &ModelRequest,
    ids: &str,
) -> Result<Vec<StreamStep>, String> {
    let id = format!("resp_{ids}");
    let created = json!({"id": id, "model": request.model()});
    let mut steps =
        vec![StreamStep::Event(json!({"type": "response.created", "response": created}))];
    let scene = ItemContext::new(request);
    for (at, item) in response.items.iter().enumerate() {
        let id = format!("{ids}_{}", at + 1);
        let why = |why: String| format!("item {}: {why}", at + 1);
        steps.extend(scene.item(item, &id).map_err(why)?);
    }
    steps.extend(last(&response.end, &id, response.usage.unwrap_or(usage)).map(StreamStep::Event));
    Ok(steps)
}

/// Returns the HTTP response, if the scripted response is not a stream.
pub(super) fn plain(response: &Response) -> Option<PlainResponse> {
    let mut plain = match &response.end {
        ResponseEnd::Http(http) => PlainResponse {
            status: http.status,
            headers: http.headers.clone(),
            body: match &http.body {
                Some(Value::String(text)) => text.clone(),
                Some(body) => body.to_string(),
                None => json!({"error": {"message": "scripted error"}}).to_string(),
            },
        },
        ResponseEnd::UsageLimit(limit) => usage_limit(limit),
        ResponseEnd::Completed
        | ResponseEnd::Drop
        | ResponseEnd::Cut
        | ResponseEnd::Hang
        | ResponseEnd::Failed { .. }
        | ResponseEnd::Incomplete(_) => return None,
    };
    plain.headers.extend(headers(response));
    Some(plain)
}

/// Returns the additional HTTP headers of a response.
pub(super) fn headers(response: &Response) -> BTreeMap<String, String> {
    let mut headers = response.headers.clone();
    for (window, limit) in &response.limits {
        headers.extend(limit_headers(window, limit));
    }
    headers
}

fn limit_headers(window: &str, limit: &Limit) -> Vec<(String, String)> {
    let name = |what: &str| format!("x-codex-{window}-{what}");
    let mut headers = vec![(name("used-percent"), limit.used_percent.to_string())];
    headers.extend(limit.window_minutes.map(|window| (name("window-minutes"), window.to_string())));
    if let Some(reset) = limit.reset {
        let (at, after) = moment(reset);
        headers.push((name("reset-at"), at.to_string()));
        headers.push((name("reset-after-seconds"), after.to_string()));
    }
    headers
}

fn usage_limit(limit: &UsageLimit) -> PlainResponse {
    let (at, after) = moment(limit.reset);
    let mut error = json!({
        "type": "usage_limit_reached",
        "message": "The usage limit has been reached",
        "plan_type": limit.plan,
    });
    if limit.reset_location != ResetLocation::Headers {
        error["resets_at"] = json!(at);
        error["resets_in_seconds"] = json!(after);
    }
    let window = Limit { used_percent: 100.0, window_minutes: Some(300), reset: Some(limit.reset) };
    let headers = if limit.reset_location == ResetLocation::Body {
        BTreeMap::new()
    } else {
        limit_headers("primary", &window).into_iter().collect()
    };
    PlainResponse { status: 429, headers, body: json!({"error": error}).to_string() }
}

/// Returns a reset time as a timestamp and as seconds from now.
#[expect(
    clippy::disallowed_methods,
    reason = "a limit relative to now, for a Codex with the same clock"
)]
fn moment(reset: ResetTime) -> (i64, i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    match reset {
        ResetTime::At(at) => (at, at.saturating_sub(now)),
        ResetTime::In(after) => (now.saturating_add(after), after),
    }
}

/// Returns the event that ends a stream, if it has one.
fn last(end: &ResponseEnd, id: &str, usage: ScriptedUsage) -> Option<Value> {
    let (kind, mut response) = match end {
        ResponseEnd::Completed => {
            ("response.completed", json!({"status": "completed", "usage": usage_json(usage)}))
        }
        ResponseEnd::Failed { code, message } => (
            "response.failed",
            json!({"status": "failed", "error": {"code": code, "message": message}}),
        ),
        ResponseEnd::Incomplete(reason) => (
            "response.incomplete",
            json!({"status": "incomplete", "incomplete_details": {"reason": reason}}),
        ),
        ResponseEnd::Drop
        | ResponseEnd::Cut
        | ResponseEnd::Hang
        | ResponseEnd::Http(_)
        | ResponseEnd::UsageLimit(_) => return None,
    };
    response["id"] = json!(id);
    Some(json!({"type": kind, "response": response}))
}

fn usage_json(usage: ScriptedUsage) -> Value {
    json!({
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    })
}

/// The context of items: the offered tools, and the values of placeholders.
struct ItemContext<'a> {
    request: &'a ModelRequest,
    tools: Tools,
    values: BTreeMap<String, String>,
}

impl<'a> ItemContext<'a> {
    fn new(request: &'a ModelRequest) -> Self {
        let values = [
            ("prompt", request.prompt()),
            ("last_output", request.last_output()),
            ("thread", request.thread().to_owned()),
            ("n", request.number.to_string()),
        ];
        let values = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Self { request, tools: Tools::from_request(request), values }
    }

    fn item(&self, item: &ScriptedItem, id: &str) -> Result<Vec<StreamStep>, String> {
        let called = match item {
            ScriptedItem::Message(message) => return Ok(self.message(message, id)),
            ScriptedItem::Json(json) => {
                let (text, phase, deltas) = (json.value.to_string(), json.phase, json.deltas);
                return Ok(
                    self.message(&ScriptedMessage { text, phase, deltas, unfinished: false }, id)
                );
            }
            ScriptedItem::Reasoning(reasoning) => return Ok(self.reasoning(reasoning, id)),
            ScriptedItem::WebSearch(query) => return Ok(vec![web_search(&query.value, id)]),
            ScriptedItem::DelayMs(delay) => return Ok(vec![pause(delay.value)]),
            ScriptedItem::Hold(hold) => return Ok(vec![StreamStep::Hold(hold.value.clone())]),
            ScriptedItem::RawItem(item) => {
                return Ok(vec![done(self.fill_placeholders(&item.value))]);
            }
            ScriptedItem::RawEvent(event) => {
                return Ok(vec![StreamStep::Event(self.fill_placeholders(&event.value))]);
            }
            ScriptedItem::RawBytes(bytes) => {
                return Ok(vec![StreamStep::Bytes(bytes.value.clone().into_bytes())]);
            }
            ScriptedItem::Shell(shell) => {
                let command = self.text(&shell.command);
                tools::shell(&Shell { command, ..shell.clone() }, &self.tools)?
            }
            ScriptedItem::Patch(patch) => tools::patch(&self.text(&patch.value), &self.tools)?,
            ScriptedItem::Plan(plan) => tools::plan(plan, &self.tools)?,
            ScriptedItem::Ask(ask) => {
                tools::ask("request_user_input", json!(ask.value), &self.tools)?
            }
            ScriptedItem::AskAsync(ask) => {
                tools::ask("request_user_input_async", json!(ask.value), &self.tools)?
            }
            ScriptedItem::Tool(call) => tools::call(
                &ToolCallItem { args: self.fill_placeholders(&call.args), ..call.clone() },
                &self.tools,
            ),
            ScriptedItem::Custom(call) => {
                tools::free_form(&CustomToolItem { input: self.text(&call.input), ..call.clone() })
            }
            ScriptedItem::Spawn(spawn) => {
                let task = self.text(&spawn.task);
                tools::spawn(&SpawnAgentItem { task, ..spawn.clone() }, &self.tools)?
            }
            ScriptedItem::WaitAgents(wait) => tools::wait_agents(wait, &self.tools, self.request)?,
        };
        Ok(vec![done(call(called, id))])
    }

    fn message(&self, message: &ScriptedMessage, id: &str) -> Vec<StreamStep> {
        let text = self.text(&message.text);
        let mut item = json!({
            "type": "message", "role": "assistant", "id": format!("msg_{id}"), "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        });
        if let Some(phase) = message.phase {
            item["phase"] = json!(phase);
        }
        let mut steps = Vec::new();
        if message.deltas.is_some() || message.unfinished {
            let mut begun = item.clone();
            begun["content"] = json!([]);
            begun["status"] = json!("in_progress");
            steps.push(added(begun));
            let delta = |piece: &str| json!({"type": "response.output_text.delta", "item_id": item["id"], "delta": piece});
            steps.extend(deltas(&text, message.deltas.unwrap_or_default(), delta));
        }
        if !message.unfinished {
            steps.push(done(item));
        }
        steps
    }

    fn reasoning(&self, reasoning: &Reasoning, id: &str) -> Vec<StreamStep> {
        let id = format!("rs_{id}");
        let summary = self.text(&reasoning.summary);
        let mut item = json!({
            "type": "reasoning", "id": id, "encrypted_content": ENCRYPTED,
            "summary": [{"type": "summary_text", "text": summary}],
        });
        if let Some(raw) = &reasoning.raw {
            item["content"] = json!([{"type": "reasoning_text", "text": raw}]);
        }
        let mut steps = Vec::new();
        if let Some(pace) = reasoning.deltas {
            steps.push(added(json!({"type": "reasoning", "id": id, "summary": []})));
            steps.push(StreamStep::Event(
                json!({"type": "response.reasoning_summary_part.added", "summary_index": 0}),
            ));
            let delta = |piece: &str| {
                json!({"type": "response.reasoning_summary_text.delta", "item_id": id,
                    "summary_index": 0, "delta": piece})
            };
            steps.extend(deltas(&summary, pace, delta));
        }
        steps.push(done(item));
        steps
    }

    fn text(&self, text: &str) -> String {
        render(text, &self.values)
    }

    /// Fills the placeholders in all texts of a value.
    fn fill_placeholders(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(parts) => parts.iter().map(|part| self.fill_placeholders(part)).collect(),
            Value::Object(parts) => Value::Object(
                parts
                    .iter()
                    .map(|(key, part)| (key.clone(), self.fill_placeholders(part)))
                    .collect(),
            ),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// Returns a call as an output item.
fn call(called: ToolInvocation, id: &str) -> Value {
    let (mut item, namespace) = match called {
        ToolInvocation::Function { name, namespace, arguments } => (
            json!({
                "type": "function_call", "id": format!("fc_{id}"), "call_id": format!("call_{id}"),
                "name": name, "arguments": arguments.to_string(),
            }),
            namespace,
        ),
        ToolInvocation::Custom { name, namespace, input } => (
            json!({
                "type": "custom_tool_call", "id": format!("ctc_{id}"), "status": "completed",
                "call_id": format!("call_{id}"), "name": name, "input": input,
            }),
            namespace,
        ),
    };
    if let Some(namespace) = namespace {
        item["namespace"] = json!(namespace);
    }
    item
}

fn deltas(text: &str, pace: Deltas, delta: impl Fn(&str) -> Value) -> Vec<StreamStep> {
    let characters: Vec<char> = text.chars().collect();
    let pieces = characters.chunks(pace.chunk.max(1)).map(String::from_iter);
    pieces.flat_map(|piece| [StreamStep::Event(delta(&piece)), pause(pace.delay_ms)]).collect()
}

fn web_search(query: &str, id: &str) -> StreamStep {
    done(json!({
        "type": "web_search_call", "id": format!("ws_{id}"), "status": "completed",
        "action": {"type": "search", "query": query},
    }))
}

fn added(item: Value) -> StreamStep {
    StreamStep::Event(json!({"type": "response.output_item.added", "item": item}))
}

fn done(item: Value) -> StreamStep {
    StreamStep::Event(json!({"type": "response.output_item.done", "item": item}))
}

fn pause(ms: u64) -> StreamStep {
    StreamStep::Pause(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ModelScenario;

    fn response(text: &str) -> Response {
        let text = format!("[[thread]]\n[[thread.turn]]\n[[thread.turn.response]]\n{text}");
        ModelScenario::parse(&text).unwrap().threads[0].turns[0].responses[0].clone()
    }

    fn wire(text: &str) -> String {
        let body = json!({"model": "m", "tools": [{"type": "function", "name": "exec_command"}],
            "input": [{"role": "user", "content": "do it"}]});
        let request = ModelRequest::new(7, BTreeMap::new(), body);
        let steps = steps(&response(text), ScriptedUsage::default(), &request, "a_7").unwrap();
        let events = steps.iter().filter_map(|step| match step {
            StreamStep::Event(event) => Some(sse(event)),
            StreamStep::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            StreamStep::Pause(_) | StreamStep::Hold(_) => None,
        });
        events.collect()
    }

    #[test]
    fn message_is_framed_by_created_and_completed() {
        assert_eq!(
            wire("items = [{ message = 'said: {{prompt}}' }]\nusage = { input = 5, output = 2 }"),
            concat!(
                "event: response.created\ndata: {\"response\":{\"id\":\"resp_a_7\",\"model\":\"m\"},",
                "\"type\":\"response.created\"}\n\n",
                "event: response.output_item.done\ndata: {\"item\":{\"content\":[{\"annotations\":[],",
                "\"text\":\"said: do it\",\"type\":\"output_text\"}],\"id\":\"msg_a_7_1\",",
                "\"role\":\"assistant\",\"status\":\"completed\",\"type\":\"message\"},",
                "\"type\":\"response.output_item.done\"}\n\n",
                "event: response.completed\ndata: {\"response\":{\"id\":\"resp_a_7\",\"status\":\"completed\",",
                "\"usage\":{\"input_tokens\":5,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":2,",
                "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":7}},",
                "\"type\":\"response.completed\"}\n\n",
            )
        );
    }

    fn kinds(text: &str) -> Vec<String> {
        let wire = wire(text);
        wire.lines()
            .filter_map(|line| line.strip_prefix("event: response."))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn deltas_split_at_characters() {
        let text = "items = [{ message = 'äöü', deltas = { chunk = 2 } }]";
        let expected = [
            "created",
            "output_item.added",
            "output_text.delta",
            "output_text.delta",
            "output_item.done",
            "completed",
        ];
        assert_eq!(kinds(text), expected);
        assert!(wire(text).contains("\"delta\":\"äö\""));
    }

    #[test]
    fn each_end_has_its_last_event() {
        for (end, last) in [
            ("end = 'drop'", "created"),
            ("end = 'cut'", "created"),
            ("end = 'hang'", "created"),
            ("failed = { code = 'c', message = 'm' }", "failed"),
            ("context_overflow = true", "failed"),
            ("incomplete = 'max_output_tokens'", "incomplete"),
            ("", "completed"),
        ] {
            assert_eq!(kinds(end).last().map(String::as_str), Some(last), "{end}");
        }
        assert!(wire("context_overflow = true").contains("\"code\":\"context_length_exceeded\""));
    }

    #[test]
    fn unfinished_text_has_only_deltas() {
        let text = "items = [{ message = 'half', unfinished = true }]\nend = 'drop'";
        assert_eq!(kinds(text), ["created", "output_item.added", "output_text.delta"]);
    }

    #[test]
    fn raw_bytes_are_sent_unchanged() {
        assert!(wire("items = [{ raw_bytes = 'data: {oops' }]").contains("\n\ndata: {oopsevent: "));
    }

    #[test]
    fn usage_limit_reset_is_sent_where_scripted() {
        let limit = |location: &str| {
            let location = format!(
                "usage_limit = {{ resets_at = 1800000000, reset_location = '{location}' }}"
            );
            let plain = plain(&response(&location)).unwrap();
            let body: Value = serde_json::from_str(&plain.body).unwrap();
            assert_eq!(
                (plain.status, &body["error"]["type"]),
                (429, &json!("usage_limit_reached"))
            );
            let header = plain.headers.get("x-codex-primary-reset-at").cloned();
            (body["error"]["resets_at"].as_i64(), header)
        };
        let at = "1800000000".to_owned();
        assert_eq!(limit("both"), (Some(1_800_000_000), Some(at.clone())));
        assert_eq!(limit("body"), (Some(1_800_000_000), None));
        assert_eq!(limit("headers"), (None, Some(at)));
    }

    #[test]
    fn rate_limits_are_response_headers() {
        let response = response(
            "rate_limits = { secondary = { used_percent = 12.5, window_minutes = 60, resets_at = 9 } }",
        );
        let headers = headers(&response);
        assert_eq!(headers["x-codex-secondary-used-percent"], "12.5");
        assert_eq!(headers["x-codex-secondary-window-minutes"], "60");
        assert_eq!(headers["x-codex-secondary-reset-at"], "9");
    }
}
