//! Encodes messages to the agent as lines of the app-server protocol.
//!
//! The id of each request states what its answer refers to, so that an answer means the same after
//! any restart: `m:` a message, `r:` a message that asks for a result, `i:` an interrupt, `c:` a
//! compaction.

use provost_core::{
    prompt,
    request::{Asked, Question, Reply, RequestKind, Scope},
    result::ResultForm,
    session::MessageKind,
};
use serde_json::{Value, json};

use super::{forms, native::Native, result, tools, wire};
use crate::{Answer, Saying};

pub(crate) const MESSAGE: &str = "m:";
pub(crate) const RESULT: &str = "r:";
pub(crate) const INTERRUPT: &str = "i:";
pub(crate) const COMPACT: &str = "c:";

/// Returns the line for a message, or None if it cannot be encoded.
pub(crate) fn say(what: &Saying<'_>) -> Option<Vec<u8>> {
    match *what {
        Saying::Interrupt { key, thread, turn } => {
            let params = json!({"threadId": thread?, "turnId": turn?});
            Some(wire::request(&format!("{INTERRUPT}{key}"), "turn/interrupt", params))
        }
        Saying::Returned { key, native, ok, text, thread, live, form } => {
            let native = Native::parse(native)?;
            if let (Native::Tool(id), true) = (&native, live) {
                return Some(wire::answer(id, tools::reply(text, ok)));
            }
            Some(message(key, thread?, &prompt::call_answered(text), form))
        }
        Saying::Message { key, kind, text, thread, answer, form } => match (kind, answer) {
            (MessageKind::Answer, Some(answer)) => answered(key, thread, &answer, form),
            (MessageKind::Answer, None) => None,
            (MessageKind::ResultWanted, _) => Some(result_wanted(key, thread?, form)),
            // They are encoded as an interrupt, which names the turn, and as a tool result, which
            // names the call.
            (MessageKind::Interrupt | MessageKind::Returned, _) => None,
            (MessageKind::Compact, _) => {
                let params = json!({"threadId": thread?});
                Some(wire::request(&format!("{COMPACT}{key}"), "thread/compact/start", params))
            }
            (
                MessageKind::Instruction
                | MessageKind::Steer
                | MessageKind::Nudge
                | MessageKind::Rework
                | MessageKind::Continue,
                _,
            ) => Some(message(key, thread?, text, form)),
        },
    }
}

/// Encodes a message. It starts a turn; while one is open, it joins that one.
fn message(key: &str, thread: &str, text: &str, form: ResultForm) -> Vec<u8> {
    let mut params = turn(key, thread, text);
    if form != ResultForm::Plain {
        params["outputSchema"] = result::schema(form);
    }
    wire::request(&format!("{MESSAGE}{key}"), "turn/start", params)
}

fn result_wanted(key: &str, thread: &str, form: ResultForm) -> Vec<u8> {
    let mut params = turn(key, thread, result::WANTED);
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

fn answered(
    key: &str,
    thread: Option<&str>,
    answer: &Answer<'_>,
    form: ResultForm,
) -> Option<Vec<u8>> {
    let native = Native::parse(&answer.asked.native)?;
    match (&native, answer.live) {
        (Native::Beside(_), _) | (_, false) => {
            Some(message(key, thread?, &in_words(answer.asked, answer.reply), form))
        }
        (_, true) => by_protocol(&native, answer.asked, answer.reply),
    }
}

fn by_protocol(native: &Native, asked: &Asked, reply: &Reply) -> Option<Vec<u8>> {
    let (id, result) = match native {
        Native::Command(id) | Native::File(id) => (id, json!({"decision": decision(reply)?})),
        Native::Questions(id) => (id, answers(asked, reply)?),
        Native::Tool(id) => (id, tools::reply(&only_answer(asked, reply)?, true)),
        Native::Elicitation(id) => (id, action(reply)?),
        Native::Form(id, types) => (id, forms::filled(asked, types, reply)?),
        Native::Permissions(id, wanted) => (id, granted(wanted, reply)?),
        Native::Beside(_) => return None,
    };
    Some(wire::answer(id, result))
}

/// Returns the decision. Codex's offers to write rules into its own home are never accepted.
fn decision(reply: &Reply) -> Option<&'static str> {
    match reply {
        Reply::Approve(Scope::Once) => Some("accept"),
        Reply::Approve(Scope::Session) => Some("acceptForSession"),
        Reply::Deny => Some("decline"),
        Reply::Text(_) | Reply::Answers(_) => None,
    }
}

fn answers(asked: &Asked, reply: &Reply) -> Option<Value> {
    let given = forms::given(asked, reply)?;
    let each = given.into_iter().map(|(id, answers)| (id, json!({"answers": answers})));
    Some(json!({"answers": each.collect::<serde_json::Map<String, Value>>()}))
}

fn only_answer(asked: &Asked, reply: &Reply) -> Option<String> {
    forms::given(asked, reply)?.into_values().next().map(|answers| answers.join("\n"))
}

fn action(reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Approve(Scope::Once) => Some(json!({"action": "accept", "content": {}})),
        Reply::Approve(Scope::Session) => {
            Some(json!({"action": "accept", "content": {}, "_meta": {"persist": "session"}}))
        }
        Reply::Deny => Some(json!({"action": "decline"})),
        Reply::Text(_) | Reply::Answers(_) => None,
    }
}

fn granted(wanted: &Value, reply: &Reply) -> Option<Value> {
    match reply {
        Reply::Approve(Scope::Once) => Some(json!({"permissions": wanted, "scope": "turn"})),
        Reply::Approve(Scope::Session) => Some(json!({"permissions": wanted, "scope": "session"})),
        Reply::Deny => Some(json!({"permissions": {}})),
        Reply::Text(_) | Reply::Answers(_) => None,
    }
}

/// Describes the answer together with the request, for an agent that no longer waits for it.
fn in_words(asked: &Asked, reply: &Reply) -> String {
    match (asked.kind, reply) {
        (RequestKind::Approval, Reply::Approve(_)) => format!(
            "You asked for approval to {}. It would be approved, but the request is no longer open: try it \
             again, and approval will be requested again.",
            asked.title
        ),
        (_, Reply::Approve(_)) => format!("You asked: {}. The answer is yes.", asked.title),
        (RequestKind::Dialog, Reply::Deny) => {
            format!("You asked: {}\nIt was declined: continue without it.", asked.title)
        }
        (_, Reply::Deny) => {
            format!(
                "You asked for approval to {}. It was denied: continue without it.",
                asked.title
            )
        }
        (_, Reply::Text(_) | Reply::Answers(_)) => answers_in_words(asked, reply),
    }
}

fn answers_in_words(asked: &Asked, reply: &Reply) -> String {
    let Some(given) = forms::given(asked, reply) else {
        let (Reply::Text(text), title) = (reply, &asked.title) else { return asked.title.clone() };
        return format!("You asked: {title}\nThe answer: {text}");
    };
    let each = asked.questions.iter().filter_map(|question| {
        let answer = given.get(&question.id)?.join("\n");
        Some(format!("You asked: {}\nThe answer: {answer}", words(question)))
    });
    each.collect::<Vec<_>>().join("\n\n")
}

fn words(question: &Question) -> &str {
    match question.question.as_str() {
        "" => &question.header,
        words => words,
    }
}
