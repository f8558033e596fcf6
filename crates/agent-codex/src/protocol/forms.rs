//! Requests from MCP servers: forms, and requests to approve their tools.

use std::collections::BTreeMap;

use provost_core::request::{
    AgentRequest, AnswerOption, ApprovalSubject, BlockingMode, RequestKind, RequestQuestion,
    RequestReply,
};
use serde_json::{Map, Value, json};

use super::{
    request_token::RequestToken,
    wire::{RpcId, list, text},
};

/// Parses a request from an MCP server. The error describes the part that is invalid.
pub(crate) fn parse_elicitation(id: &RpcId, params: &Value) -> Result<AgentRequest, String> {
    let is_approval = text(&params["_meta"], "codex_approval_kind").is_some();
    let fields = params["requestedSchema"]["properties"].as_object();
    match (text(params, "mode").unwrap_or("form"), fields) {
        ("form", _) if is_approval => Ok(approval(id, params, describe_parameters(params))),
        ("form", Some(fields)) if !fields.is_empty() => form(id, params, fields),
        ("form", _) => Ok(approval(id, params, None)),
        ("url", _) => Ok(approval(id, params, text(params, "url").map(str::to_owned))),
        (mode, _) => Err(format!("unknown form mode {mode:?}")),
    }
}

/// Encodes the answer to a form, in which each field has its type.
pub(crate) fn encode_form(
    asked: &AgentRequest,
    types: &Value,
    reply: &RequestReply,
) -> Option<Value> {
    if *reply == RequestReply::Deny {
        return Some(json!({"action": "decline"}));
    }
    let given = answers_by_question(asked, reply)?;
    let content = given.iter().map(|(field, values)| {
        let kind = text(types, field).unwrap_or("string");
        (field.clone(), value(kind, values))
    });
    let content: Map<String, Value> = content.collect();
    Some(json!({"action": "accept", "content": content}))
}

/// Returns the answers by question. If the reply is a plain text, it answers the only question.
pub(crate) fn answers_by_question(
    asked: &AgentRequest,
    reply: &RequestReply,
) -> Option<BTreeMap<String, Vec<String>>> {
    match (reply, asked.questions.as_slice()) {
        (RequestReply::Text(text), [only]) => {
            Some(BTreeMap::from([(only.id.clone(), vec![text.clone()])]))
        }
        (RequestReply::Answers(answers), _) => Some(answers.clone()),
        (RequestReply::Text(_) | RequestReply::Approve(_) | RequestReply::Deny, _) => None,
    }
}

fn approval(id: &RpcId, params: &Value, detail: Option<String>) -> AgentRequest {
    let description = text(&params["_meta"], "tool_description").map(str::to_owned);
    let reason = [description, detail].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let subject = ApprovalSubject {
        reason: Some(reason).filter(|r| !r.is_empty()),
        ..ApprovalSubject::default()
    };
    AgentRequest {
        native: RequestToken::Elicitation(id.clone()).encode(),
        kind: RequestKind::Approval,
        waiting: BlockingMode::Blocking,
        title: title(params),
        questions: Vec::new(),
        subject: Some(Box::new(subject)),
    }
}

fn describe_parameters(params: &Value) -> Option<String> {
    let shown = list(&params["_meta"], "tool_params_display").iter().filter_map(|parameter| {
        Some(format!("{} = {}", text(parameter, "name")?, parameter.get("value")?))
    });
    Some(shown.collect::<Vec<_>>().join(", ")).filter(|shown| !shown.is_empty())
}

fn form(id: &RpcId, params: &Value, fields: &Map<String, Value>) -> Result<AgentRequest, String> {
    let questions = fields.iter().map(|(name, field)| question(name, field)).collect();
    let typed = fields.iter().filter_map(|(name, field)| {
        let kind = text(field, "type").filter(|kind| *kind != "string")?;
        Some((name.clone(), Value::from(kind)))
    });
    let types: Map<String, Value> = typed.collect();
    let known = ["boolean", "number", "integer", "array"];
    if let Some((name, kind)) = types.iter().find(|(_, k)| !known.iter().any(|known| *k == known)) {
        return Err(format!("the field {name:?} has the unknown type {kind}"));
    }
    Ok(AgentRequest {
        native: RequestToken::Form(id.clone(), Value::Object(types)).encode(),
        kind: RequestKind::Dialog,
        waiting: BlockingMode::Blocking,
        title: title(params),
        questions,
        subject: None,
    })
}

fn title(params: &Value) -> String {
    let server = text(params, "serverName").unwrap_or("an MCP server");
    text(params, "message").map_or_else(|| format!("{server} asks"), str::to_owned)
}

fn question(name: &str, field: &Value) -> RequestQuestion {
    let options = match text(field, "type") {
        Some("boolean") => vec![choice("true", ""), choice("false", "")],
        _ => choices(field),
    };
    RequestQuestion {
        id: name.to_owned(),
        header: text(field, "title").unwrap_or(name).to_owned(),
        question: text(field, "description").unwrap_or_default().to_owned(),
        // A field that lists its values does not accept any others.
        only_options: !options.is_empty(),
        options,
        secret: false,
    }
}

/// Returns the values that a field accepts. A schema can list them in four different ways.
fn choices(field: &Value) -> Vec<AnswerOption> {
    let plain = list(field, "enum").iter().chain(list(&field["items"], "enum"));
    let titled = list(field, "oneOf").iter().chain(list(&field["items"], "anyOf"));
    let plain = plain.filter_map(|value| Some(choice(value.as_str()?, "")));
    let titled = titled.filter_map(|option| {
        Some(choice(text(option, "const")?, text(option, "title").unwrap_or_default()))
    });
    plain.chain(titled).collect()
}

fn choice(label: &str, description: &str) -> AnswerOption {
    AnswerOption { label: label.to_owned(), description: description.to_owned() }
}

/// Converts an answer to the type of its field. An answer that does not fit is passed as text,
/// because the server can describe the problem better.
fn value(kind: &str, given: &[String]) -> Value {
    let text = given.first().cloned().unwrap_or_default();
    let typed = match kind {
        "array" => Some(json!(given)),
        "boolean" => text.parse::<bool>().ok().map(Value::Bool),
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text.parse::<f64>().ok().map(Value::from),
        _ => None,
    };
    typed.unwrap_or(Value::String(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> RpcId {
        RpcId::parse("7").unwrap()
    }

    #[test]
    fn tool_approval_is_parsed_as_approval() {
        let params = json!({"serverName": "echo", "mode": "form", "message": "Allow it?",
            "_meta": {"codex_approval_kind": "mcp_tool_call", "tool_description": "Destructive",
                      "tool_params_display": [{"name": "text", "value": "boo"}]},
            "requestedSchema": {"type": "object", "properties": {}}});
        let asked = parse_elicitation(&id(), &params).unwrap();
        assert_eq!((asked.kind, asked.native.as_str()), (RequestKind::Approval, "mcp:7"));
        let subject = asked.subject.unwrap();
        assert_eq!(subject.reason.as_deref(), Some("Destructive; text = \"boo\""));
    }

    #[test]
    fn form_answers_keep_their_types() {
        let params = json!({"mode": "form", "message": "m", "requestedSchema": {"properties": {
            "name": {"type": "string"}, "port": {"type": "integer"}, "tls": {"type": "boolean"},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}}}}});
        let asked = parse_elicitation(&id(), &params).unwrap();
        assert_eq!((asked.kind, asked.questions.len()), (RequestKind::Dialog, 4));
        let Some(RequestToken::Form(_, types)) = RequestToken::parse(&asked.native) else {
            panic!()
        };
        let given = [("name", "1"), ("port", "1"), ("tls", "true"), ("tags", "a")];
        let given = given.map(|(id, value)| (id.to_owned(), vec![value.to_owned()]));
        let filled = |reply| encode_form(&asked, &types, &reply);
        assert_eq!(
            filled(RequestReply::Answers(BTreeMap::from(given))).unwrap()["content"],
            json!({"name": "1", "port": 1, "tls": true, "tags": ["a"]})
        );
        assert_eq!(filled(RequestReply::Text("for none of four".to_owned())), None);
        assert_eq!(filled(RequestReply::Deny), Some(json!({"action": "decline"})));
        let closed: Vec<bool> = asked.questions.iter().map(|q| q.only_options).collect();
        assert_eq!(closed, [false, false, true, true], "name, port, tags, tls");
    }

    #[test]
    fn unknown_form_mode_is_refused() {
        assert!(parse_elicitation(&id(), &json!({"mode": "hologram"})).is_err());
        let nested = json!({"requestedSchema": {"properties": {"x": {"type": "object"}}}});
        assert!(parse_elicitation(&id(), &nested).is_err());
    }
}
