//! The supervisor's tools as an MCP server on standard streams, for agents that accept tools only
//! that way.
//!
//! JSON-RPC, one message per line, read leniently: a request needs no prior handshake, unknown
//! fields are ignored, and notifications are skipped. The server keeps no state between lines, and
//! answers each message with an id once. It has no tool to ask the user: an answer could take
//! hours, and clients give up on a call within minutes.

use provost_core::{
    session::{Membership, Settings, Testimony},
    task,
};
use serde_json::{Value, json};

use crate::{
    codex::wire::{bounded, text},
    tools::{self, Called, NOT_THE_MAIN_AGENT, NOTED, Tool},
};

/// Maximum length of a line. A longer one is rejected.
pub const MAX_LINE: usize = 1 << 20;

/// The name of the server in an agent's configuration.
pub const NAME: &str = "provost";

/// The supported protocol versions; their differences do not matter here.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Maximum bytes of an unknown method's name that an error quotes.
const MAX_METHOD: usize = 100;

/// Where to find the tools, for clients that do not list them from the start.
const WHERE: &str = " These tools belong to the MCP server `provost`; if they are not listed, find them with tool_search.";

/// The answer to a call that would ask the user.
const NO_ASKING: &str =
    "the user cannot be asked from here: report needs_input and put the question in the summary";

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;

/// The result of handling one line of the client.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// The line needs no answer.
    Nothing,
    /// The answer to write.
    Answer(Vec<u8>),
    Call(Call),
}

/// A valid call of a tool. It has to be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    id: Value,
    pub what: What,
}

/// The content of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Said(Testimony),
    /// A call about the agent's team; the team's rules produce the answer.
    OfTask(Box<task::Call>),
}

impl Call {
    /// Returns the call's id as JSON, in which `1` and `"1"` differ.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Returns the line that acknowledges the call.
    pub fn noted(&self) -> Vec<u8> {
        answer(&self.id, told(NOTED, false))
    }

    /// Returns the line with the call's result.
    pub fn returned(&self, text: &str, ok: bool) -> Vec<u8> {
        answer(&self.id, told(text, !ok))
    }

    /// Returns the line that rejects the call.
    pub fn refused(&self, why: &str) -> Vec<u8> {
        answer(&self.id, told(why, true))
    }
}

/// Returns the instructions about the supervisor and its tools.
pub fn instructions(member: Option<Membership>) -> String {
    format!("{}{WHERE}", tools::instructions(&settings(member)))
}

/// Handles a line of the client, which has the tools of this member.
pub fn hear(line: &[u8], member: Option<Membership>) -> Heard {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Heard::Nothing;
    }
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return Heard::Answer(error(&Value::Null, PARSE_ERROR, "the line is not valid JSON"));
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number());
    match (id, text(&message, "method")) {
        (Some(id), Some(method)) => requested(id, method, &message["params"], member),
        // A notification, or an answer to a request that was never made.
        (None, Some(_)) if message.get("id").is_none() => Heard::Nothing,
        (_, None) if message.get("result").is_some() || message.get("error").is_some() => {
            Heard::Nothing
        }
        (id, _) => {
            let why = "a request needs a method and an id that is a string or a number";
            Heard::Answer(error(id.unwrap_or(&Value::Null), INVALID_REQUEST, why))
        }
    }
}

/// Returns the answer to a line that exceeds the limit.
pub fn too_long() -> Vec<u8> {
    let why = format!("the line is longer than {MAX_LINE} bytes");
    error(&Value::Null, INVALID_REQUEST, &why)
}

fn requested(id: &Value, method: &str, params: &Value, member: Option<Membership>) -> Heard {
    let result = match method {
        "initialize" => hello(params, member),
        "ping" => json!({}),
        "tools/list" => {
            let offered = tools::offered(&settings(member));
            json!({"tools": offered.into_iter().map(spec).collect::<Value>()})
        }
        "tools/call" => return called(id, params),
        _ => {
            let why = format!("unknown method {}", bounded(method, MAX_METHOD));
            return Heard::Answer(error(id, METHOD_NOT_FOUND, &why));
        }
    };
    Heard::Answer(answer(id, result))
}

fn hello(params: &Value, member: Option<Membership>) -> Value {
    let wanted = text(params, "protocolVersion");
    let version = VERSIONS.into_iter().find(|version| Some(*version) == wanted);
    json!({
        "protocolVersion": version.unwrap_or(VERSIONS[0]),
        "capabilities": {"tools": {}},
        "serverInfo": {"name": NAME, "title": "Provost", "version": env!("CARGO_PKG_VERSION")},
        "instructions": instructions(member),
    })
}

fn spec(Tool { name, description, schema }: Tool) -> Value {
    json!({"name": name, "description": description, "inputSchema": schema})
}

fn called(id: &Value, params: &Value) -> Heard {
    let called = tools::call(text(params, "name").unwrap_or_default(), &params["arguments"]);
    let refusal = match called {
        Err(expected) => expected,
        Ok(_) if is_of_a_sub_agent(&params["_meta"]) => NOT_THE_MAIN_AGENT.to_owned(),
        Ok(Called::Asked { .. }) => NO_ASKING.to_owned(),
        Ok(Called::Said(said)) => return heard(id, What::Said(said)),
        Ok(Called::Progress(progress)) => {
            return heard(id, What::Said(Testimony::Progress(progress)));
        }
        Ok(Called::OfTask(call)) => return heard(id, What::OfTask(Box::new(call))),
    };
    Heard::Answer(answer(id, told(&refusal, true)))
}

fn heard(id: &Value, what: What) -> Heard {
    Heard::Call(Call { id: id.clone(), what })
}

/// Codex names the calling thread and the root thread. Old versions name neither.
fn is_of_a_sub_agent(about: &Value) -> bool {
    let (thread, root) = (text(about, "threadId"), text(about, "sessionId"));
    thread.zip(root).is_some_and(|(thread, root)| thread != root)
}

/// Returns settings without questions: the server cannot ask the user.
fn settings(member: Option<Membership>) -> Settings {
    Settings { questions: false, member, ..Settings::default() }
}

fn told(text: &str, is_error: bool) -> Value {
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

    fn heard(message: &Value) -> Heard {
        hear(message.to_string().as_bytes(), None)
    }

    /// Returns the answer to a message, which is one line.
    #[track_caller]
    fn answered(message: &Value) -> Value {
        let Heard::Answer(line) = heard(message) else { panic!("{message}") };
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
    fn a_hello_is_answered_in_the_clients_version_if_it_is_known() {
        for (asked, spoken) in [
            (json!("2025-06-18"), "2025-06-18"),
            (json!("2024-11-05"), "2024-11-05"),
            (json!("1999-01-01"), "2025-11-25"),
            (Value::Null, "2025-11-25"),
        ] {
            let told = answered(&request("initialize", json!({"protocolVersion": asked})));
            assert_eq!((&told["id"], &told["jsonrpc"]), (&json!(7), &json!("2.0")));
            assert_eq!(told["result"]["protocolVersion"], spoken);
            assert!(told["result"]["capabilities"]["tools"].is_object());
            let instructions = told["result"]["instructions"].as_str().unwrap();
            assert!(
                instructions.contains("provost_report") && !instructions.contains("provost_ask")
            );
        }
        assert_eq!(answered(&request("ping", Value::Null))["result"], json!({}));
    }

    #[test]
    fn the_tools_are_those_of_the_other_channel_but_for_asking() {
        let listed = &answered(&request("tools/list", Value::Null))["result"]["tools"];
        let quiet = Settings { questions: false, ..Settings::default() };
        let expected: Vec<Value> = tools::offered(&quiet)
            .into_iter()
            .map(|Tool { name, description, schema }| {
                json!({"name": name, "description": description, "inputSchema": schema})
            })
            .collect();
        assert_eq!(listed, &json!(expected));
        assert_eq!(listed.as_array().unwrap().len(), 3);
        assert_eq!(listed[0]["name"], "provost_report");
    }

    #[test]
    fn a_call_says_something_and_is_answered_under_its_id() {
        let message = call("provost_report", json!({"status": "completed", "summary": "s"}));
        let Heard::Call(report) = heard(&message) else { panic!() };
        let (kind, text) = (ClaimKind::Completed, Some("s".to_owned()));
        assert_eq!(report.what, What::Said(Testimony::Claim { kind, text }));
        let noted = json!({"content": [{"type": "text", "text": "Noted."}], "isError": false});
        assert_eq!(read(&report.noted())["result"], noted);
        assert_eq!(read(&report.refused("no"))["result"]["isError"], true);
        let mut message = call("provost_progress", json!({"done": 1, "total": 2}));
        message["id"] = json!("seven\n");
        let Heard::Call(progress) = heard(&message) else { panic!() };
        let told = Testimony::Progress(Progress { done: 1, total: 2 });
        assert_eq!(progress.what, What::Said(told));
        assert_eq!(read(&progress.noted())["id"], "seven\n");
        assert_ne!(progress.id(), report.id());
    }

    #[test]
    fn a_malformed_call_is_told_what_was_expected() {
        for (message, expected) in [
            (call("provost_report", json!({"status": "done"})), "provost_report expects"),
            (call("provost_progress", Value::Null), "provost_progress expects"),
            (call("other", json!({})), "there is no such tool"),
            (request("tools/call", Value::Null), "there is no such tool"),
            (call("provost_ask", json!({"question": "q?"})), "report needs_input"),
        ] {
            let told = answered(&message);
            assert_eq!(told["result"]["isError"], true, "{told}");
            let text = told["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn a_sub_agent_does_not_report() {
        let of = |about: Value| {
            let mut message = call("provost_progress", json!({"done": 1, "total": 2}));
            message["params"]["_meta"] = about;
            heard(&message)
        };
        let is_taken = |about: Value| matches!(of(about), Heard::Call(_));
        assert!(is_taken(json!({"threadId": "a", "sessionId": "a"})));
        assert!(is_taken(json!({"threadId": "a"})));
        assert!(!is_taken(json!({"threadId": "b", "sessionId": "a"})));
    }

    #[test]
    fn whatever_has_an_id_is_answered_and_nothing_else() {
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
        let Heard::Answer(told) = hear(b"{\"id\":", None) else { panic!() };
        assert_eq!(read(&told)["error"]["code"], PARSE_ERROR);
        assert!(read(&too_long())["id"].is_null());
        for quiet in [
            json!({"method": "notifications/initialized"}),
            json!({"method": "notifications/cancelled", "params": {"requestId": 7}}),
            json!({"id": 1, "result": {}}),
            json!({"id": 1, "error": {"code": 1, "message": "x"}}),
        ] {
            assert_eq!(heard(&quiet), Heard::Nothing, "{quiet}");
        }
        assert_eq!(hear(b" \r\n", None), Heard::Nothing);
    }
}
