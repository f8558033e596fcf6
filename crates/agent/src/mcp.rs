//! The supervisor's tools as an MCP server on standard streams, for agents that accept tools only
//! through MCP.
//!
//! The protocol is JSON-RPC with one message per line. The server is lenient: it does not require a
//! handshake, and ignores unknown fields and notifications. It keeps no state between lines, and
//! responds once to each message that has an id. It offers no tool to ask the user, because an
//! answer could take hours, and clients give up on a call within minutes.

use provost_core::{
    session::{AgentSettings, ReportBody, TeamMembership},
    team,
};
use serde_json::{Value, json};

use crate::{
    fields::{bounded, text},
    tools::{self, ACCEPTED, NOT_THE_MAIN_AGENT, ParsedCall, ToolDefinition},
};

/// The maximum length of a line. A longer one is rejected.
pub const MAX_LINE: usize = 1 << 20;

/// The name of the server in an agent's configuration.
pub const NAME: &str = "provost";

/// The supported protocol versions. Their differences do not matter here.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The maximum number of bytes of an unknown method name to quote in an error.
const MAX_METHOD: usize = 100;

/// A hint for clients that do not list the tools from the start.
const TOOL_LOCATION: &str = " These tools belong to the MCP server `provost`; if they are not listed, find them with tool_search.";

/// The response to a call that would ask the user.
const ASK_UNAVAILABLE: &str =
    "the user cannot be asked from here: report needs_input and put the question in the summary";

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;

/// The result of handling one line from the client.
#[derive(Clone, Debug, PartialEq)]
pub enum McpOutcome {
    /// The line needs no response.
    NoReply,
    /// The response to write.
    Reply(Vec<u8>),
    Call(McpCall),
}

/// A valid tool call that needs a response.
#[derive(Clone, Debug, PartialEq)]
pub struct McpCall {
    id: Value,
    pub content: McpCallContent,
}

/// The content of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum McpCallContent {
    Testimony(ReportBody),
    /// A call about the agent's team. The team's rules determine the response.
    TeamCall(Box<team::MemberCall>),
}

impl McpCall {
    /// Returns the call's id as JSON, in which `1` and `"1"` differ.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Returns the line that acknowledges the call.
    pub fn acknowledge(&self) -> Vec<u8> {
        answer(&self.id, tool_result(ACCEPTED, false))
    }

    /// Returns the line with the call's result.
    pub fn result(&self, text: &str, ok: bool) -> Vec<u8> {
        answer(&self.id, tool_result(text, !ok))
    }

    /// Returns the line that rejects the call.
    pub fn rejection(&self, why: &str) -> Vec<u8> {
        answer(&self.id, tool_result(why, true))
    }
}

/// Returns the instructions that describe the supervisor and its tools.
pub fn instructions(member: Option<TeamMembership>) -> String {
    format!("{}{TOOL_LOCATION}", tools::instructions(&settings(member)))
}

/// Handles a line from the client. The client has the tools of the given team member.
pub fn handle_line(line: &[u8], member: Option<TeamMembership>) -> McpOutcome {
    let line = line.trim_ascii();
    if line.is_empty() {
        return McpOutcome::NoReply;
    }
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return McpOutcome::Reply(error(&Value::Null, PARSE_ERROR, "the line is not valid JSON"));
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number());
    match (id, text(&message, "method")) {
        (Some(id), Some(method)) => handle_request(id, method, &message["params"], member),
        // The line is a notification, or a response to a request that was never made.
        (None, Some(_)) if message.get("id").is_none() => McpOutcome::NoReply,
        (_, None) if message.get("result").is_some() || message.get("error").is_some() => {
            McpOutcome::NoReply
        }
        (id, _) => {
            let why = "a request needs a method and an id that is a string or a number";
            McpOutcome::Reply(error(id.unwrap_or(&Value::Null), INVALID_REQUEST, why))
        }
    }
}

/// Returns the response to a line that is too long.
pub fn line_too_long() -> Vec<u8> {
    let why = format!("the line is longer than {MAX_LINE} bytes");
    error(&Value::Null, INVALID_REQUEST, &why)
}

fn handle_request(
    id: &Value,
    method: &str,
    params: &Value,
    member: Option<TeamMembership>,
) -> McpOutcome {
    let result = match method {
        "initialize" => initialize_result(params, member),
        "ping" => json!({}),
        "tools/list" => {
            let offered = tools::available_tools(&settings(member));
            json!({"tools": offered.into_iter().map(spec).collect::<Value>()})
        }
        "tools/call" => return handle_call(id, params),
        _ => {
            let why = format!("unknown method {}", bounded(method, MAX_METHOD));
            return McpOutcome::Reply(error(id, METHOD_NOT_FOUND, &why));
        }
    };
    McpOutcome::Reply(answer(id, result))
}

fn initialize_result(params: &Value, member: Option<TeamMembership>) -> Value {
    let wanted = text(params, "protocolVersion");
    let version = VERSIONS.into_iter().find(|version| Some(*version) == wanted);
    json!({
        "protocolVersion": version.unwrap_or(VERSIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": NAME, "title": "Provost", "version": env!("CARGO_PKG_VERSION")},
        "instructions": instructions(member),
    })
}

fn spec(ToolDefinition { name, description, schema }: ToolDefinition) -> Value {
    json!({"name": name, "description": description, "inputSchema": schema})
}

fn handle_call(id: &Value, params: &Value) -> McpOutcome {
    let called = tools::parse_call(text(params, "name").unwrap_or_default(), &params["arguments"]);
    let refusal = match called {
        Err(expected) => expected,
        Ok(_) if is_from_sub_agent(&params["_meta"]) => NOT_THE_MAIN_AGENT.to_owned(),
        Ok(ParsedCall::Question { .. }) => ASK_UNAVAILABLE.to_owned(),
        Ok(ParsedCall::Testimony(report)) => {
            return accept_call(id, McpCallContent::Testimony(report));
        }
        Ok(ParsedCall::Progress(progress)) => {
            return accept_call(id, McpCallContent::Testimony(ReportBody::Progress(progress)));
        }
        Ok(ParsedCall::TeamCall(call)) => {
            return accept_call(id, McpCallContent::TeamCall(Box::new(call)));
        }
    };
    McpOutcome::Reply(answer(id, tool_result(&refusal, true)))
}

fn accept_call(id: &Value, what: McpCallContent) -> McpOutcome {
    McpOutcome::Call(McpCall { id: id.clone(), content: what })
}

/// Whether a call comes from a sub-agent, which an agent may show by the calling thread and the root
/// thread.
fn is_from_sub_agent(about: &Value) -> bool {
    let (thread, root) = (text(about, "threadId"), text(about, "sessionId"));
    thread.zip(root).is_some_and(|(thread, root)| thread != root)
}

/// Returns settings that do not allow questions, because the server cannot ask the user.
fn settings(member: Option<TeamMembership>) -> AgentSettings {
    AgentSettings { questions: false, member, ..AgentSettings::default() }
}

fn tool_result(text: &str, is_error: bool) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": is_error})
}

fn answer(id: &Value, result: Value) -> Vec<u8> {
    line(json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

fn error(id: &Value, code: i64, message: &str) -> Vec<u8> {
    line(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
}

fn line(message: Value) -> Vec<u8> {
    let mut line = message.to_string().into_bytes();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use provost_core::{lifecycle::ClaimKind, session::Progress};

    use super::*;

    fn heard(message: &Value) -> McpOutcome {
        handle_line(message.to_string().as_bytes(), None)
    }

    /// Returns the response to a message, which is one line.
    #[track_caller]
    fn answered(message: &Value) -> Value {
        let McpOutcome::Reply(line) = heard(message) else { panic!("{message}") };
        read(&line)
    }

    #[track_caller]
    fn read(line: &[u8]) -> Value {
        assert!(line.ends_with(b"\n") && line.iter().filter(|byte| **byte == b'\n').count() == 1);
        serde_json::from_slice(line).unwrap()
    }

    fn request(method: &str, params: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    }

    fn call(tool: &str, arguments: Value) -> Value {
        request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    #[test]
    fn initialize_answers_known_client_version() {
        for (asked, spoken) in [
            (json!("2025-06-18"), "2025-06-18"),
            (json!("2024-11-05"), "2024-11-05"),
            (json!("1999-01-01"), "2025-11-25"),
            (Value::Null, "2025-11-25"),
        ] {
            let reply = answered(&request("initialize", json!({"protocolVersion": asked})));
            assert_eq!((&reply["id"], &reply["jsonrpc"]), (&json!(7), &json!("2.0")));
            assert_eq!(reply["result"]["protocolVersion"], spoken);
            assert!(reply["result"]["capabilities"]["tools"].is_object());
            let instructions = reply["result"]["instructions"].as_str().unwrap();
            assert!(
                instructions.contains("provost_report") && !instructions.contains("provost_ask")
            );
        }
        assert_eq!(answered(&request("ping", Value::Null))["result"], json!({}));
    }

    #[test]
    fn mcp_tools_omit_ask() {
        let listed = &answered(&request("tools/list", Value::Null))["result"]["tools"];
        let quiet = AgentSettings { questions: false, ..AgentSettings::default() };
        let expected: Vec<Value> = tools::available_tools(&quiet)
            .into_iter()
            .map(|ToolDefinition { name, description, schema }| {
                json!({"name": name, "description": description, "inputSchema": schema})
            })
            .collect();
        assert_eq!(listed, &json!(expected));
        assert_eq!(listed.as_array().unwrap().len(), 3);
        assert_eq!(listed[0]["name"], "provost_report");
    }

    #[test]
    fn call_is_answered_under_its_id() {
        let message = call("provost_report", json!({"status": "completed", "summary": "s"}));
        let McpOutcome::Call(called) = heard(&message) else { panic!() };
        let (kind, text) = (ClaimKind::Completed, Some("s".to_owned()));
        assert_eq!(called.content, McpCallContent::Testimony(ReportBody::Claim { kind, text }));
        let noted = json!({"content": [{"type": "text", "text": "Noted."}], "isError": false});
        assert_eq!(read(&called.acknowledge())["result"], noted);
        assert_eq!(read(&called.rejection("no"))["result"]["isError"], true);
        let mut message = call("provost_progress", json!({"done": 1, "total": 2}));
        message["id"] = json!("seven\n");
        let McpOutcome::Call(progress) = heard(&message) else { panic!() };
        let progress_report = ReportBody::Progress(Progress { done: 1, total: 2 });
        assert_eq!(progress.content, McpCallContent::Testimony(progress_report));
        assert_eq!(read(&progress.acknowledge())["id"], "seven\n");
        assert_ne!(progress.id(), called.id());
    }

    #[test]
    fn malformed_call_error_names_expected_fields() {
        for (message, expected) in [
            (call("provost_report", json!({"status": "done"})), "provost_report expects"),
            (call("provost_progress", Value::Null), "provost_progress expects"),
            (call("other", json!({})), "there is no such tool"),
            (request("tools/call", Value::Null), "there is no such tool"),
            (call("provost_ask", json!({"question": "q?"})), "report needs_input"),
        ] {
            let reply = answered(&message);
            assert_eq!(reply["result"]["isError"], true, "{reply}");
            let text = reply["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn sub_agent_calls_are_rejected() {
        let of = |about: Value| {
            let mut message = call("provost_progress", json!({"done": 1, "total": 2}));
            message["params"]["_meta"] = about;
            heard(&message)
        };
        let is_taken = |about: Value| matches!(of(about), McpOutcome::Call(_));
        assert!(is_taken(json!({"threadId": "a", "sessionId": "a"})));
        assert!(is_taken(json!({"threadId": "a"})));
        assert!(!is_taken(json!({"threadId": "b", "sessionId": "a"})));
    }

    #[test]
    fn only_messages_with_id_are_answered() {
        for (message, code) in [
            (request("resources/list", Value::Null), METHOD_NOT_FOUND),
            (json!({"id": 7}), INVALID_REQUEST),
            (json!({"id": {}, "method": "ping"}), INVALID_REQUEST),
            (json!({"id": null, "method": "ping"}), INVALID_REQUEST),
            (json!([request("ping", Value::Null)]), INVALID_REQUEST),
            (json!("ping"), INVALID_REQUEST),
        ] {
            assert_eq!(answered(&message)["error"]["code"], code, "{message}");
        }
        let McpOutcome::Reply(reply) = handle_line(b"{\"id\":", None) else { panic!() };
        assert_eq!(read(&reply)["error"]["code"], PARSE_ERROR);
        assert!(read(&line_too_long())["id"].is_null());
        for quiet in [
            json!({"method": "notifications/initialized"}),
            json!({"method": "notifications/cancelled", "params": {"requestId": 7}}),
            json!({"id": 1, "result": {}}),
            json!({"id": 1, "error": {"code": 1, "message": "x"}}),
        ] {
            assert_eq!(heard(&quiet), McpOutcome::NoReply, "{quiet}");
        }
        assert_eq!(handle_line(b" \r\n", None), McpOutcome::NoReply);
    }
}
