//! Requests from the server to the user. A request that cannot be parsed is rejected, because the
//! agent would otherwise wait for an answer forever.

use std::collections::BTreeSet;

use provost_core::request::{
    AgentRequest, AnswerOption, ApprovalSubject, BlockingMode, RequestKind, RequestQuestion,
};
use serde_json::Value;

use super::{
    forms,
    items::{MessageQuestion, OpenItems, TurnItem},
    request_token::RequestToken,
    wire::{RpcId, bounded, list, text},
};

/// The maximum size of a request, in bytes. A larger one could not be stored or shown.
const MAX_ASKED: usize = 256 << 10;

/// The maximum number of questions in a request.
const MAX_QUESTIONS: usize = 50;

/// The maximum number of files in one approval.
const MAX_PATHS: usize = 1000;

/// The maximum length of a title.
const MAX_TITLE: usize = 200;

/// The wildcard for any host. It matches no rule that specifies a host.
const ANY_HOST: &str = "*";

pub(crate) const COMMAND: &str = "item/commandExecution/requestApproval";
pub(crate) const FILE: &str = "item/fileChange/requestApproval";
pub(crate) const QUESTIONS: &str = "item/tool/requestUserInput";
pub(crate) const ELICITATION: &str = "mcpServer/elicitation/request";
pub(crate) const PERMISSIONS: &str = "item/permissions/requestApproval";

/// Parses a request. The error is the reason for rejecting it.
pub(crate) fn parse_request(
    method: &str,
    id: &RpcId,
    params: &Value,
    items: &OpenItems,
) -> Result<AgentRequest, String> {
    let asked = match method {
        COMMAND => command(id, params, items),
        FILE => file_change(id, params, items),
        QUESTIONS => questions(id, params),
        ELICITATION => forms::parse_elicitation(id, params),
        PERMISSIONS => permissions(id, params),
        _ => Err(format!("unknown method {}", bounded(method, MAX_TITLE))),
    }?;
    check_limits(asked)
}

/// Whether the subject of a request is carried out if and only if it is approved. By contrast, a
/// running command continues even if access to a host, or input, is denied.
pub(crate) fn decides_item(method: &str, params: &Value) -> bool {
    let runs = matches!(text(params, "kind"), None | Some("command"));
    let begins = runs && params["networkApprovalContext"].is_null();
    method == FILE || (method == COMMAND && begins)
}

/// Converts a call to the tool that asks the user into a question.
pub(crate) fn question_from_tool(
    id: &RpcId,
    question: String,
    options: Vec<AnswerOption>,
) -> Result<AgentRequest, String> {
    let question = RequestQuestion {
        id: "answer".to_owned(),
        header: String::new(),
        question,
        options,
        only_options: false,
        secret: false,
    };
    check_limits(new_request(RequestToken::Tool(id.clone()), RequestKind::Question, vec![question]))
}

/// Converts the questions in a message. They do not block the agent, so questions beyond the limit
/// are dropped.
pub(crate) fn question_from_message(item: &str, asked: &[MessageQuestion]) -> Option<AgentRequest> {
    let question = |(no, beside): (usize, &MessageQuestion)| RequestQuestion {
        id: (no + 1).to_string(),
        header: String::new(),
        question: beside.title.clone(),
        options: beside.options.iter().map(|label| choice(label, "")).collect(),
        only_options: false,
        secret: false,
    };
    let questions = asked.iter().take(MAX_QUESTIONS).enumerate().map(question).collect();
    let native = RequestToken::MessageQuestion(item.to_owned());
    let asked = new_request(native, RequestKind::Question, questions);
    check_limits(AgentRequest { waiting: BlockingMode::NonBlocking, ..asked }).ok()
}

fn check_limits(asked: AgentRequest) -> Result<AgentRequest, String> {
    let asked = AgentRequest { title: bounded(&asked.title, MAX_TITLE), ..asked };
    let size = serde_json::to_vec(&asked).map_or(usize::MAX, |bytes| bytes.len());
    let paths = asked.subject.as_ref().map_or(0, |subject| subject.paths.len());
    match (size, paths, asked.questions.len()) {
        (size, _, _) if size > MAX_ASKED => {
            Err(format!("the request is larger than the limit of {MAX_ASKED} bytes"))
        }
        (_, paths, _) if paths > MAX_PATHS => {
            Err(format!("the request covers {paths} files; the limit is {MAX_PATHS}"))
        }
        (_, _, questions) if questions > MAX_QUESTIONS => {
            Err(format!("the request has {questions} questions; the limit is {MAX_QUESTIONS}"))
        }
        _ => Ok(asked),
    }
}

fn command(id: &RpcId, params: &Value, items: &OpenItems) -> Result<AgentRequest, String> {
    let (item_command, item_cwd) = match text(params, "itemId").and_then(|id| items.find(id)) {
        Some(TurnItem::Command { command, cwd, .. }) => (command.as_deref(), cwd.as_deref()),
        Some(
            TurnItem::AgentMessage { .. }
            | TurnItem::FileChange { .. }
            | TurnItem::Compaction { .. }
            | TurnItem::Other { .. },
        )
        | None => (None, None),
    };
    let command = text(params, "command").or(item_command);
    let network = text(&params["networkApprovalContext"], "host");
    // Input to a terminal looks like a command but is not one, so no rule about commands may allow
    // it.
    let runs = matches!(text(params, "kind"), None | Some("command"));
    let mut subject = ApprovalSubject {
        command: if runs { command.map(str::to_owned) } else { None },
        cwd: text(params, "cwd").or(item_cwd).map(str::to_owned),
        reason: text(params, "reason").map(str::to_owned),
        network: network.map(str::to_owned),
        ..ApprovalSubject::default()
    };
    add_permissions(&mut subject, &params["additionalPermissions"]);
    let title = match (command, network) {
        (Some(command), _) if runs => format!("run {command}"),
        (Some(input), _) => format!("write to a running command: {input}"),
        (None, Some(host)) => format!("reach {host}"),
        (None, None) => return Err("the request contains no command".to_owned()),
    };
    Ok(approval(RequestToken::Command(id.clone()), title, subject))
}

fn file_change(id: &RpcId, params: &Value, items: &OpenItems) -> Result<AgentRequest, String> {
    let item = text(params, "itemId").ok_or("the request refers to no item")?;
    let mut subject = ApprovalSubject {
        reason: text(params, "reason").map(str::to_owned),
        ..ApprovalSubject::default()
    };
    // If the item is missing, the files that the request concerns are unknown. Therefore no rule
    // allows the request, and its title shows the reason to the user.
    let mut title = "change files that the agent did not name".to_owned();
    if let Some(TurnItem::FileChange { change, .. }) = items.find(item) {
        title = format!("change {}", change.paths.join(", "));
        subject.paths.clone_from(&change.paths);
        subject.diff = Some(change.diff.clone());
    }
    if let Some(root) = text(params, "grantRoot") {
        title = format!("{title}, and from now on everything below {root}");
        subject.paths.push(root.to_owned());
    }
    Ok(approval(RequestToken::File(id.clone()), title, subject))
}

/// Parses questions. They are treated as blocking even if the server reports otherwise.
fn questions(id: &RpcId, params: &Value) -> Result<AgentRequest, String> {
    let read = list(params, "questions").iter().map(question).collect::<Option<Vec<_>>>();
    let questions = read.ok_or("a question has no id or no text")?;
    let ids: BTreeSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    match questions.len() {
        0 => Err("the request has no questions".to_owned()),
        count if count != ids.len() => Err("two questions have the same id".to_owned()),
        _ => Ok(new_request(RequestToken::Questions(id.clone()), RequestKind::Question, questions)),
    }
}

fn question(question_json: &Value) -> Option<RequestQuestion> {
    let options = list(question_json, "options").iter().filter_map(|option| {
        Some(choice(text(option, "label")?, text(option, "description").unwrap_or_default()))
    });
    let options: Vec<AnswerOption> = options.collect();
    Some(RequestQuestion {
        id: text(question_json, "id").filter(|id| !id.is_empty())?.to_owned(),
        header: text(question_json, "header").unwrap_or_default().to_owned(),
        question: text(question_json, "question")?.to_owned(),
        // Without options, free text is the only possible answer.
        only_options: question_json["isOther"] == false && !options.is_empty(),
        options,
        secret: question_json["isSecret"].as_bool().unwrap_or(false),
    })
}

fn permissions(id: &RpcId, params: &Value) -> Result<AgentRequest, String> {
    let asked = params.get("permissions").filter(|asked| has_known_permissions(asked));
    let asked = asked.ok_or("the requested permissions are unknown")?;
    let mut subject = ApprovalSubject {
        cwd: text(params, "cwd").map(str::to_owned),
        reason: text(params, "reason").map(str::to_owned),
        ..ApprovalSubject::default()
    };
    add_permissions(&mut subject, asked);
    let title = format!("have more permissions: {asked}");
    Ok(approval(RequestToken::Permissions(id.clone(), asked.clone()), title, subject))
}

/// Adds requested permissions for files and the network. Unknown permissions are treated as network
/// access, so that no rule that covers only files or commands can allow them.
fn add_permissions(subject: &mut ApprovalSubject, asked: &Value) {
    if asked.is_null() {
        return;
    }
    subject.paths.extend(paths(&asked["fileSystem"]).into_iter().flatten());
    let network = asked.get("network").is_some_and(|network| !network.is_null());
    if (network || !has_known_permissions(asked)) && subject.network.is_none() {
        subject.network = Some(ANY_HOST.to_owned());
    }
}

fn has_known_permissions(asked: &Value) -> bool {
    let fields = asked.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| key == "fileSystem" || key == "network"))
        && paths(&asked["fileSystem"]).is_some()
}

/// Returns all requested files, or `None` if one of them is not given as a path.
fn paths(files: &Value) -> Option<Vec<String>> {
    let plain = list(files, "read").iter().chain(list(files, "write"));
    let plain = plain.map(|path| path.as_str().map(str::to_owned));
    let entries = list(files, "entries").iter().map(|entry| {
        let path = entry.get("path").filter(|path| text(path, "type") == Some("path"))?;
        text(path, "path").map(str::to_owned)
    });
    plain.chain(entries).collect()
}

fn approval(native: RequestToken, title: String, subject: ApprovalSubject) -> AgentRequest {
    AgentRequest {
        title,
        subject: Some(Box::new(subject)),
        ..new_request(native, RequestKind::Approval, Vec::new())
    }
}

fn new_request(
    native: RequestToken,
    kind: RequestKind,
    questions: Vec<RequestQuestion>,
) -> AgentRequest {
    let title = questions.iter().map(|q| q.question.as_str()).collect::<Vec<_>>().join(" · ");
    AgentRequest {
        native: native.encode(),
        kind,
        waiting: BlockingMode::Blocking,
        title,
        questions,
        subject: None,
    }
}

fn choice(label: &str, description: &str) -> AnswerOption {
    AnswerOption { label: label.to_owned(), description: description.to_owned() }
}
