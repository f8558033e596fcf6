//! A request from Codex to the model: the parts that matching, playing and tests use.

use std::collections::BTreeMap;

use serde_json::Value;

/// The start of a request for a task title, which the terminal interface sends in a hidden thread.
const TITLE_PROMPT: &str = "Generate a concise, single-line task title";
/// The start of a compaction request, for versions of Codex that do not name the kind of request.
const COMPACTION_PROMPT: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION";
/// The headers that name the thread, the newest version's first.
const THREAD_HEADERS: &[&str] = &["thread-id", "thread_id", "session-id", "session_id"];

/// One request to the model.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The number of the request among all requests, starting at 1.
    pub number: usize,
    /// The headers, keyed by lower-case names.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    /// Codex's metadata about the turn, from a header or the body.
    metadata: Value,
}

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestPurpose {
    /// A step of a turn.
    Turn,
    /// The title of a task.
    Title,
    /// A summary of the conversation.
    Compaction,
}

impl ModelRequest {
    pub(super) fn new(number: usize, headers: BTreeMap<String, String>, body: Value) -> Self {
        let in_body = || body["client_metadata"]["x-codex-turn-metadata"].as_str();
        let metadata = headers.get("x-codex-turn-metadata").map(String::as_str).or_else(in_body);
        let metadata = metadata.and_then(|text| serde_json::from_str(text).ok());
        Self { number, headers, body, metadata: metadata.unwrap_or_default() }
    }

    pub fn kind(&self) -> RequestPurpose {
        let prompt = self.prompt();
        if prompt.starts_with(TITLE_PROMPT) {
            RequestPurpose::Title
        } else if self.metadata["request_kind"] == "compaction"
            || prompt.starts_with(COMPACTION_PROMPT)
        {
            RequestPurpose::Compaction
        } else {
            RequestPurpose::Turn
        }
    }

    /// Returns the id of the thread.
    pub fn thread(&self) -> &str {
        let header = THREAD_HEADERS.iter().find_map(|name| self.headers.get(*name));
        header.map(String::as_str).or(self.body["prompt_cache_key"].as_str()).unwrap_or_default()
    }

    /// Returns the id of the turn.
    pub fn turn(&self) -> Option<&str> {
        self.metadata["turn_id"].as_str()
    }

    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Whether a sub-agent sent the request.
    pub fn is_subagent(&self) -> bool {
        self.headers.contains_key("x-openai-subagent")
    }

    /// Returns the last part of a sub-agent's path, if Codex sends it.
    pub fn agent(&self) -> Option<&str> {
        if !self.is_subagent() {
            return None;
        }
        self.metadata["agent_name"].as_str()?.rsplit('/').next()
    }

    /// Returns the newest message of a user or of another agent.
    pub fn prompt(&self) -> String {
        self.prompts().pop().unwrap_or_default()
    }

    /// Returns all messages of users and other agents, including those that Codex adds in their name.
    pub fn prompts(&self) -> Vec<String> {
        let is_prompt = |item: &&Value| item["role"] == "user" || item["type"] == "agent_message";
        self.input().iter().filter(is_prompt).map(|item| text_of(&item["content"])).collect()
    }

    /// Returns the outputs of tools with the ids of their calls, oldest first.
    pub fn outputs(&self) -> Vec<(String, String)> {
        let is_output =
            |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
        let outputs = self.input().iter().filter(is_output);
        outputs
            .map(|item| {
                let call = item["call_id"].as_str().unwrap_or_default().to_owned();
                (call, text_of(&item["output"]))
            })
            .collect()
    }

    /// Returns the text of the newest tool output.
    pub fn last_output(&self) -> String {
        self.outputs().pop().map(|(_, text)| text).unwrap_or_default()
    }

    /// Returns the names of all offered tools, with their namespaces.
    pub fn tools(&self) -> Vec<String> {
        super::tools::Tools::from_request(self).names()
    }

    /// Returns the items of the conversation.
    pub fn input(&self) -> &[Value] {
        self.body["input"].as_array().map(Vec::as_slice).unwrap_or_default()
    }
}

/// Returns all text in a content value: a string, parts, or an object with one of them.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(text_of).collect::<Vec<_>>().join("\n"),
        Value::Object(part) => ["text", "content", "output", "encrypted_content"]
            .iter()
            .filter_map(|key| part.get(*key))
            .map(text_of)
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn request(headers: &[(&str, &str)], body: Value) -> ModelRequest {
        let headers =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        ModelRequest::new(1, headers, body)
    }

    #[test]
    fn headers_of_both_versions_are_parsed() {
        let new = request(
            &[
                ("thread-id", "t"),
                ("session-id", "s"),
                ("x-openai-subagent", "collab_spawn"),
                ("x-codex-turn-metadata", r#"{"turn_id":"u","agent_name":"/root/helper"}"#),
            ],
            json!({}),
        );
        assert_eq!((new.thread(), new.turn(), new.agent()), ("t", Some("u"), Some("helper")));
        let old = request(
            &[("session_id", "s"), ("x-codex-turn-metadata", r#"{"turn_id":"u"}"#)],
            json!({}),
        );
        assert_eq!((old.thread(), old.turn(), old.agent()), ("s", Some("u"), None));
    }

    #[test]
    fn prompt_is_newest_user_or_agent_message() {
        let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]});
        let mail = json!({"type": "agent_message", "content": [
            {"type": "input_text", "text": "Payload:"}, {"type": "encrypted_content", "encrypted_content": "help"}]});
        let output = json!({"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "out"}]});
        let asked = request(&[], json!({"input": [user, mail, output]}));
        assert_eq!(asked.prompts(), ["do it", "Payload:\nhelp"]);
        assert_eq!(asked.outputs(), [("c".to_owned(), "out".to_owned())]);
    }

    #[test]
    fn hidden_requests_are_recognized() {
        let purpose =
            |text: &str| request(&[], json!({"input": [{"role": "user", "content": text}]})).kind();
        assert_eq!(
            purpose("Generate a concise, single-line task title for this"),
            RequestPurpose::Title
        );
        assert_eq!(
            purpose("You are performing a CONTEXT CHECKPOINT COMPACTION."),
            RequestPurpose::Compaction
        );
        assert_eq!(purpose("anything"), RequestPurpose::Turn);
        let headers = [("x-codex-turn-metadata", r#"{"request_kind":"compaction"}"#)];
        assert_eq!(request(&headers, json!({})).kind(), RequestPurpose::Compaction);
    }
}
