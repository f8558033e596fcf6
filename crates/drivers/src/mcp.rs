//! The supervisor's tools as an MCP server on standard streams, for agents that take tools no other way.
//!
//! JSON-RPC, one message per line, read leniently: a request needs no handshake before it, fields that are
//! not known spoil nothing, and notifications are passed over. Nothing is remembered between lines, and
//! whatever has an id is answered once. There is no tool to ask with: an answer could come hours later, and
//! clients give up on a call within minutes.

use provost_core::{
    session::{Membership, Settings, Testimony},
    task,
};
use serde_json::{Value, json};

use crate::{
    codex::wire::{bounded, text},
    tools::{self, Called, NOT_THE_MAIN_AGENT, NOTED, Tool},
};

/// A longer line is not read.
pub const MAX_LINE: usize = 1 << 20;

/// Under this name the server is put into an agent's configuration.
pub const NAME: &str = "provost";

/// The versions of the protocol that are spoken; they differ in nothing that is used here.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// So much of a method that is not known is repeated.
const MAX_METHOD: usize = 100;

/// Where the tools are, for clients that do not list them from the start.
const WHERE: &str = " These tools belong to the MCP server `provost`; if they are not listed, find them with tool_search.";

/// What is answered to one who asks a person.
const NO_ASKING: &str = "nobody can be asked from here: report needs_input, and say in the summary what has to be decided";

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;

/// What a line of the client comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// It wants no answer.
    Nothing,
    /// This line answers it.
    Answer(Vec<u8>),
    Call(Call),
}

/// A call of a tool that has something to say. It has to be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    id: Value,
    pub what: What,
}

/// What a call says.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    Said(Testimony),
    /// Something about the task that the agent is a member of: its answer is the task's.
    OfTask(Box<task::Call>),
}

impl Call {
    /// Gives the call's id as JSON, in which `1` and `"1"` differ.
    pub fn id(&self) -> String {
        self.id.to_string()
    }

    /// Gives the line that says that the call was taken.
    pub fn noted(&self) -> Vec<u8> {
        answer(&self.id, told(NOTED, false))
    }

    /// Gives the line that says what came of the call.
    pub fn returned(&self, text: &str, ok: bool) -> Vec<u8> {
        answer(&self.id, told(text, !ok))
    }

    /// Gives the line that says why the call came to nothing.
    pub fn refused(&self, why: &str) -> Vec<u8> {
        answer(&self.id, told(why, true))
    }
}

/// Gives what the agent is told about the tools and whom it works for.
pub fn instructions(member: Option<Membership>) -> String {
    format!("{}{WHERE}", tools::instructions(&settings(member)))
}

/// Reads a line of the client, which is given the tools of this member.
pub fn hear(line: &[u8], member: Option<Membership>) -> Heard {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Heard::Nothing;
    }
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return Heard::Answer(error(&Value::Null, PARSE_ERROR, "the line is no JSON"));
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number());
    match (id, text(&message, "method")) {
        (Some(id), Some(method)) => requested(id, method, &message["params"], member),
        // A notification, or an answer to what was never asked.
        (None, Some(_)) if message.get("id").is_none() => Heard::Nothing,
        (_, None) if message.get("result").is_some() || message.get("error").is_some() => {
            Heard::Nothing
        }
        (id, _) => {
            let why = "a request has an id, which is a string or a number, and a method";
            Heard::Answer(error(id.unwrap_or(&Value::Null), INVALID_REQUEST, why))
        }
    }
}

/// Gives the answer to a line that was too long to be read.
pub fn too_long() -> Vec<u8> {
    let why = format!("a line may have {MAX_LINE} bytes at most");
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
            let why = format!("there is no method {}", bounded(method, MAX_METHOD));
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

/// Codex tells the thread that calls and the one that all began with. Old versions tell neither.
fn is_of_a_sub_agent(about: &Value) -> bool {
    let (thread, root) = (text(about, "threadId"), text(about, "sessionId"));
    thread.zip(root).is_some_and(|(thread, root)| thread != root)
}

/// Nobody can be asked through this server.
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

    /// The answer to a message, which is one line.
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
