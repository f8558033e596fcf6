//! Requests of the server: what each asks a person for. One that cannot be understood is refused, for
//! the agent waits for an answer however bad its question was.

use std::collections::BTreeSet;

use provost_core::request::{Asked, Choice, Question, RequestKind, Subject, Waiting};
use serde_json::Value;

use super::{
    forms,
    items::{Beside, Item, OpenItems},
    native::Native,
    wire::{Id, bounded, list, text},
};

/// What is larger could not be kept or shown.
const MAX_ASKED: usize = 256 << 10;

/// So many things may be asked at once.
const MAX_QUESTIONS: usize = 50;

/// So many files may be changed by what one approval is for.
const MAX_PATHS: usize = 1000;

/// So long is a title at most.
const MAX_TITLE: usize = 200;

/// Stands for whatever the network has: no rule that names a host allows it.
const ANY_HOST: &str = "*";

pub(crate) const COMMAND: &str = "item/commandExecution/requestApproval";
pub(crate) const FILE: &str = "item/fileChange/requestApproval";
pub(crate) const QUESTIONS: &str = "item/tool/requestUserInput";
pub(crate) const ELICITATION: &str = "mcpServer/elicitation/request";
pub(crate) const PERMISSIONS: &str = "item/permissions/requestApproval";

/// Reads a request; otherwise says why it is refused.
pub(crate) fn asked(
    method: &str,
    id: &Id,
    params: &Value,
    items: &OpenItems,
) -> Result<Asked, String> {
    let asked = match method {
        COMMAND => command(id, params, items),
        FILE => file_change(id, params, items),
        QUESTIONS => questions(id, params),
        ELICITATION => forms::asked(id, params),
        PERMISSIONS => permissions(id, params),
        _ => Err(format!("{} is not known", bounded(method, MAX_TITLE))),
    }?;
    fitting(asked)
}

/// Says whether what a request is about is done if it is approved, and only then. A running command that may not reach
/// a host, or is not given input, goes on.
pub(crate) fn decides(method: &str, params: &Value) -> bool {
    let runs = matches!(text(params, "kind"), None | Some("command"));
    let begins = runs && params["networkApprovalContext"].is_null();
    method == FILE || (method == COMMAND && begins)
}

/// Gives the call of the asking tool as a question.
pub(crate) fn asked_by_tool(
    id: &Id,
    question: String,
    options: Vec<Choice>,
) -> Result<Asked, String> {
    let question = Question {
        id: "answer".to_owned(),
        header: String::new(),
        question,
        options,
        only_options: false,
        secret: false,
    };
    fitting(wait(Native::Tool(id.clone()), RequestKind::Question, vec![question]))
}

/// Gives the questions in a message. Nothing waits for them, so too much of it is merely no question.
pub(crate) fn asked_beside(item: &str, asked: &[Beside]) -> Option<Asked> {
    let question = |(no, beside): (usize, &Beside)| Question {
        id: (no + 1).to_string(),
        header: String::new(),
        question: beside.title.clone(),
        options: beside.options.iter().map(|label| choice(label, "")).collect(),
        only_options: false,
        secret: false,
    };
    let questions = asked.iter().take(MAX_QUESTIONS).enumerate().map(question).collect();
    let native = Native::Beside(item.to_owned());
    let asked = wait(native, RequestKind::Question, questions);
    fitting(Asked { waiting: Waiting::Beside, ..asked }).ok()
}

fn fitting(asked: Asked) -> Result<Asked, String> {
    let asked = Asked { title: bounded(&asked.title, MAX_TITLE), ..asked };
    let size = serde_json::to_vec(&asked).map_or(usize::MAX, |bytes| bytes.len());
    let paths = asked.subject.as_ref().map_or(0, |subject| subject.paths.len());
    match (size, paths, asked.questions.len()) {
        (size, _, _) if size > MAX_ASKED => {
            Err(format!("it is larger than the {MAX_ASKED} bytes that can be shown to a person"))
        }
        (_, paths, _) if paths > MAX_PATHS => Err(format!("it is about {paths} files")),
        (_, _, questions) if questions > MAX_QUESTIONS => {
            Err(format!("it asks {questions} things at once"))
        }
        _ => Ok(asked),
    }
}

fn command(id: &Id, params: &Value, items: &OpenItems) -> Result<Asked, String> {
    let (item_command, item_cwd) = match text(params, "itemId").and_then(|id| items.find(id)) {
        Some(Item::Command { command, cwd, .. }) => (command.as_deref(), cwd.as_deref()),
        Some(
            Item::AgentMessage { .. }
            | Item::FileChange { .. }
            | Item::Compaction { .. }
            | Item::Other { .. },
        )
        | None => (None, None),
    };
    let command = text(params, "command").or(item_command);
    let network = text(&params["networkApprovalContext"], "host");
    // Input for a terminal reads like a command and is none: no rule about commands may allow it.
    let runs = matches!(text(params, "kind"), None | Some("command"));
    let mut subject = Subject {
        command: command.filter(|_| runs).map(str::to_owned),
        cwd: text(params, "cwd").or(item_cwd).map(str::to_owned),
        reason: text(params, "reason").map(str::to_owned),
        network: network.map(str::to_owned),
        ..Subject::default()
    };
    widen(&mut subject, &params["additionalPermissions"]);
    let title = match (command, network) {
        (Some(command), _) if runs => format!("run {command}"),
        (Some(input), _) => format!("write to a running command: {input}"),
        (None, Some(host)) => format!("reach {host}"),
        (None, None) => return Err("it names no command".to_owned()),
    };
    Ok(approval(Native::Command(id.clone()), title, subject))
}

fn file_change(id: &Id, params: &Value, items: &OpenItems) -> Result<Asked, String> {
    let item = text(params, "itemId").ok_or("it names no item")?;
    let mut subject =
        Subject { reason: text(params, "reason").map(str::to_owned), ..Subject::default() };
    // Without its item nobody knows which files it is about: no rule allows it, and a person is told.
    let mut title = "change files that the agent did not name".to_owned();
    if let Some(Item::FileChange { change, .. }) = items.find(item) {
        title = format!("change {}", change.paths.join(", "));
        subject.paths.clone_from(&change.paths);
        subject.diff = Some(change.diff.clone());
    }
    if let Some(root) = text(params, "grantRoot") {
        title = format!("{title}, and from now on everything below {root}");
        subject.paths.push(root.to_owned());
    }
    Ok(approval(Native::File(id.clone()), title, subject))
}

/// Reads questions. They make the agent wait also where the server says that they do not block.
fn questions(id: &Id, params: &Value) -> Result<Asked, String> {
    let read = list(params, "questions").iter().map(question).collect::<Option<Vec<_>>>();
    let questions = read.ok_or("a question has no id or no text")?;
    let ids: BTreeSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
    match questions.len() {
        0 => Err("it asks nothing".to_owned()),
        count if count != ids.len() => Err("two questions have the same id".to_owned()),
        _ => Ok(wait(Native::Questions(id.clone()), RequestKind::Question, questions)),
    }
}

fn question(told: &Value) -> Option<Question> {
    let options = list(told, "options").iter().filter_map(|option| {
        Some(choice(text(option, "label")?, text(option, "description").unwrap_or_default()))
    });
    let options: Vec<Choice> = options.collect();
    Some(Question {
        id: text(told, "id").filter(|id| !id.is_empty())?.to_owned(),
        header: text(told, "header").unwrap_or_default().to_owned(),
        question: text(told, "question")?.to_owned(),
        // Without anything to choose from, free text is all that there is.
        only_options: told["isOther"] == false && !options.is_empty(),
        options,
        secret: told["isSecret"].as_bool().unwrap_or(false),
    })
}

fn permissions(id: &Id, params: &Value) -> Result<Asked, String> {
    let asked = params.get("permissions").filter(|asked| is_understood(asked));
    let asked = asked.ok_or("the permissions that it asks for are not understood")?;
    let mut subject = Subject {
        cwd: text(params, "cwd").map(str::to_owned),
        reason: text(params, "reason").map(str::to_owned),
        ..Subject::default()
    };
    widen(&mut subject, asked);
    let title = format!("have more permissions: {asked}");
    Ok(approval(Native::Permissions(id.clone(), asked.clone()), title, subject))
}

/// Adds what is asked for besides: files and network. What is not understood counts as the network, so
/// that no rule about files or commands alone can allow it.
fn widen(subject: &mut Subject, asked: &Value) {
    if asked.is_null() {
        return;
    }
    subject.paths.extend(paths(&asked["fileSystem"]).into_iter().flatten());
    let network = asked.get("network").is_some_and(|network| !network.is_null());
    if (network || !is_understood(asked)) && subject.network.is_none() {
        subject.network = Some(ANY_HOST.to_owned());
    }
}

fn is_understood(asked: &Value) -> bool {
    let fields = asked.as_object();
    fields.is_some_and(|fields| fields.keys().all(|key| key == "fileSystem" || key == "network"))
        && paths(&asked["fileSystem"]).is_some()
}

/// Gives all files that are asked for; none if some of them are not named by a path.
fn paths(files: &Value) -> Option<Vec<String>> {
    let plain = list(files, "read").iter().chain(list(files, "write"));
    let plain = plain.map(|path| path.as_str().map(str::to_owned));
    let entries = list(files, "entries").iter().map(|entry| {
        let path = entry.get("path").filter(|path| text(path, "type") == Some("path"))?;
        text(path, "path").map(str::to_owned)
    });
    plain.chain(entries).collect()
}

fn approval(native: Native, title: String, subject: Subject) -> Asked {
    Asked {
        title,
        subject: Some(Box::new(subject)),
        ..wait(native, RequestKind::Approval, Vec::new())
    }
}

fn wait(native: Native, kind: RequestKind, questions: Vec<Question>) -> Asked {
    let title = questions.iter().map(|q| q.question.as_str()).collect::<Vec<_>>().join(" · ");
    Asked {
        native: native.text(),
        kind,
        waiting: Waiting::Blocking,
        title,
        questions,
        subject: None,
    }
}

fn choice(label: &str, description: &str) -> Choice {
    Choice { label: label.to_owned(), description: description.to_owned() }
}
