//! Encodes messages to the agent as lines of the app-server protocol.
//!
//! The id of each request shows the subject of the response, so that the response can be
//! interpreted even after a restart: `m:` for a message, `r:` for a message that asks for a result,
//! `i:` for an interrupt, `c:` for a compaction.

use provost_core::{
    prompt,
    request::{AgentRequest, ApprovalScope, RequestKind, RequestQuestion, RequestReply},
    result::ResultForm,
    session::AgentMessageKind,
};
use serde_json::{Value, json};

use super::{forms, request_token::RequestToken, result, tools, wire};
use provost_agent::{AgentInput, RequestAnswer};

pub(crate) const MESSAGE: &str = "m:";
pub(crate) const RESULT: &str = "r:";
pub(crate) const INTERRUPT: &str = "i:";
pub(crate) const COMPACT: &str = "c:";

/// Returns the line for a message, or `None` if it cannot be encoded.
pub(crate) fn encode(what: &AgentInput<'_>) -> Option<Vec<u8>> {
    match *what {
        AgentInput::Interrupt { key, thread, turn } => {
            let params = json!({"threadId": thread?, "turnId": turn?});
            Some(wire::request(&format!("{INTERRUPT}{key}"), "turn/interrupt", params))
        }
        AgentInput::ToolResult { key, native, ok, text, thread, live, form } => {
            let native = RequestToken::parse(native)?;
            if let (RequestToken::Tool(id), true) = (&native, live) {
                return Some(wire::answer(id, tools::reply(text, ok)));
            }
            Some(message(key, thread?, &prompt::call_answered(text), form))
        }
        AgentInput::Message { key, kind, text, thread, answer, form } => match (kind, answer) {
            (AgentMessageKind::Answer, Some(answer)) => encode_answer(key, thread, &answer, form),
            (AgentMessageKind::Answer, None) => None,
            (AgentMessageKind::ResultWanted, _) => Some(result_wanted(key, thread?, form)),
            // An interrupt and a tool result have their own encodings, which contain the turn or
            // the call.
            (AgentMessageKind::Interrupt | AgentMessageKind::Returned, _) => None,
            (AgentMessageKind::Compact, _) => {
                let params = json!({"threadId": thread?});
                Some(wire::request(&format!("{COMPACT}{key}"), "thread/compact/start", params))
            }
            (
                AgentMessageKind::Instruction
                | AgentMessageKind::Steer
                | AgentMessageKind::Nudge
                | AgentMessageKind::Rework
                | AgentMessageKind::Continue,
                _,
            ) => Some(message(key, thread?, text, form)),
        },
    }
}

/// Encodes a message, which starts a turn or joins the current one.
fn message(key: &str, thread: &str, text: &str, form: ResultForm) -> Vec<u8> {
    let mut params = turn(key, thread, text);
    if form != ResultForm::Plain {
        params["outputSchema"] = result::schema(form);
    }
    wire::request(&format!("{MESSAGE}{key}"), "turn/start", params)
}

fn result_wanted(key: &str, thread: &str, form: ResultForm) -> Vec<u8> {
    let mut params = turn(key, thread, result::RESULT_REQUEST);
    params["outputSchema"] = result::schema(form);
    wire::request(&format!("{RESULT}{key}"), "turn/start", params)
}

fn turn(key: &str, thread: &str, text: &str) -> Value {
    json!({
        "threadId": thread,
        "input": [{"type": "text", "text": text}],
        "clientUserMessageId": key,
    })
}

fn encode_answer(
    key: &str,
    thread: Option<&str>,
    answer: &RequestAnswer<'_>,
    form: ResultForm,
) -> Option<Vec<u8>> {
    let native = RequestToken::parse(&answer.asked.native)?;
    match (&native, answer.live) {
        (RequestToken::MessageQuestion(_), _) | (_, false) => {
            Some(message(key, thread?, &describe_answer(answer.asked, answer.reply), form))
        }
        (_, true) => encode_reply(&native, answer.asked, answer.reply),
    }
}

fn encode_reply(
    native: &RequestToken,
    asked: &AgentRequest,
    reply: &RequestReply,
) -> Option<Vec<u8>> {
    let (id, result) = match native {
        RequestToken::Command(id) | RequestToken::File(id) => {
            (id, json!({"decision": decision(reply)?}))
        }
        RequestToken::Questions(id) => (id, answers(asked, reply)?),
        RequestToken::Tool(id) => (id, tools::reply(&single_answer(asked, reply)?, true)),
        RequestToken::Elicitation(id) => (id, action(reply)?),
        RequestToken::Form(id, types) => (id, forms::encode_form(asked, types, reply)?),
        RequestToken::Permissions(id, wanted) => (id, permission_grant(wanted, reply)?),
        RequestToken::MessageQuestion(_) => return None,
    };
    Some(wire::answer(id, result))
}

/// Returns Codex's term for a decision. Codex's offers to write rules to its own home are never
/// accepted.
fn decision(reply: &RequestReply) -> Option<&'static str> {
    match reply {
        RequestReply::Approve(ApprovalScope::Once) => Some("accept"),
        RequestReply::Approve(ApprovalScope::Session) => Some("acceptForSession"),
        RequestReply::Deny => Some("decline"),
        RequestReply::Text(_) | RequestReply::Answers(_) => None,
    }
}

fn answers(asked: &AgentRequest, reply: &RequestReply) -> Option<Value> {
    let given = forms::answers_by_question(asked, reply)?;
    let each = given.into_iter().map(|(id, answers)| (id, json!({"answers": answers})));
    Some(json!({"answers": each.collect::<serde_json::Map<String, Value>>()}))
}

fn single_answer(asked: &AgentRequest, reply: &RequestReply) -> Option<String> {
    forms::answers_by_question(asked, reply)?.into_values().next().map(|answers| answers.join("\n"))
}

fn action(reply: &RequestReply) -> Option<Value> {
    match reply {
        RequestReply::Approve(ApprovalScope::Once) => {
            Some(json!({"action": "accept", "content": {}}))
        }
        RequestReply::Approve(ApprovalScope::Session) => {
            Some(json!({"action": "accept", "content": {}, "_meta": {"persist": "session"}}))
        }
        RequestReply::Deny => Some(json!({"action": "decline"})),
        RequestReply::Text(_) | RequestReply::Answers(_) => None,
    }
}

fn permission_grant(wanted: &Value, reply: &RequestReply) -> Option<Value> {
    match reply {
        RequestReply::Approve(ApprovalScope::Once) => {
            Some(json!({"permissions": wanted, "scope": "turn"}))
        }
        RequestReply::Approve(ApprovalScope::Session) => {
            Some(json!({"permissions": wanted, "scope": "session"}))
        }
        RequestReply::Deny => Some(json!({"permissions": {}})),
        RequestReply::Text(_) | RequestReply::Answers(_) => None,
    }
}

/// Describes the answer together with the request, for an agent that is no longer waiting for the
/// answer.
fn describe_answer(asked: &AgentRequest, reply: &RequestReply) -> String {
    match (asked.kind, reply) {
        (RequestKind::Approval, RequestReply::Approve(_)) => format!(
            "You asked for approval to {}. It would be approved, but the request is no longer open: try it \
             again, and approval will be requested again.",
            asked.title
        ),
        (_, RequestReply::Approve(_)) => format!("You asked: {}. The answer is yes.", asked.title),
        (RequestKind::Dialog, RequestReply::Deny) => {
            format!("You asked: {}\nIt was declined: continue without it.", asked.title)
        }
        (_, RequestReply::Deny) => {
            format!(
                "You asked for approval to {}. It was denied: continue without it.",
                asked.title
            )
        }
        (_, RequestReply::Text(_) | RequestReply::Answers(_)) => describe_answers(asked, reply),
    }
}

fn describe_answers(asked: &AgentRequest, reply: &RequestReply) -> String {
    let Some(given) = forms::answers_by_question(asked, reply) else {
        let (RequestReply::Text(text), title) = (reply, &asked.title) else {
            return asked.title.clone();
        };
        return format!("You asked: {title}\nThe answer: {text}");
    };
    let each = asked.questions.iter().filter_map(|question| {
        let answer = given.get(&question.id)?.join("\n");
        Some(format!("You asked: {}\nThe answer: {answer}", question_text(question)))
    });
    each.collect::<Vec<_>>().join("\n\n")
}

fn question_text(question: &RequestQuestion) -> &str {
    match question.question.as_str() {
        "" => &question.header,
        words => words,
    }
}
