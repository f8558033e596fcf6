//! Renders lines from Codex as readable text. The result may contain control characters from the
//! agent, so the caller must escape it for the terminal.
//!
//! | mark | meaning |
//! |---|---|
//! | `──` | a change of the conversation, such as a new turn |
//! | `>` | a message from the user |
//! | `$` | a command that the agent ran, with the end of its output |
//! | `±` | changed files |
//! | `·` | a call of a tool |
//! | `?` | a request that waits for an answer |
//! | `[x]`, `[>]`, `[ ]` | a finished, current or later step of a plan |

use serde_json::Value;

use super::{
    handshake::PROBE,
    turn_end,
    wire::{RpcMessage, list, text},
};

/// The number of lines to show from the end of a command's output.
const TAIL: usize = 10;

/// The maximum length of a line of a command, of its output, of a plan's step or of a request, in
/// characters. Messages are not shortened.
const MAX_LINE: usize = 400;

/// Renders a line from the app-server. Returns `None` if the line should not be shown.
pub(crate) fn render_app_server(line: &[u8]) -> Option<String> {
    match RpcMessage::read(line)? {
        RpcMessage::Notification { method, params, .. } => render_notification(&method, &params),
        RpcMessage::Request { method, params, .. } => Some(render_request(&method, &params)),
        // The server always rejects the probe, which is sent only to find out the supported
        // methods.
        RpcMessage::Answer { outcome: Err(why), id } if id.as_own_id() != Some(PROBE) => {
            Some(format!("refused: {}", one_line(&why)))
        }
        RpcMessage::Answer { .. } => None,
    }
}

/// Renders a line from `codex exec`. Returns `None` if the line should not be shown.
pub(crate) fn render_exec(line: &[u8]) -> Option<String> {
    let line: Value = serde_json::from_slice(line.trim_ascii()).ok()?;
    match text(&line, "type")? {
        "thread.started" => Some(format!("── thread {}", text(&line, "thread_id")?)),
        "turn.started" => Some("── turn started".to_owned()),
        "turn.completed" => Some("── turn completed".to_owned()),
        "turn.failed" => {
            Some(format!("── turn failed: {}", turn_end::describe_error(&line["error"])))
        }
        "error" => Some(format!("error: {}", text(&line, "message")?)),
        "item.completed" => render_exec_item(&line["item"]),
        _ => None,
    }
}

fn render_notification(method: &str, params: &Value) -> Option<String> {
    match method {
        "item/completed" => render_item(&params["item"]),
        "turn/started" => Some("── turn started".to_owned()),
        "turn/completed" => Some(render_turn_end(&params["turn"])),
        "turn/plan/updated" => {
            render_plan(list(params, "plan"), "step", |step| text(step, "status"))
        }
        "error" => Some(format!("error: {}", turn_end::describe_error(&params["error"]))),
        "warning" | "guardianWarning" => Some(format!("warning: {}", text(params, "message")?)),
        "configWarning" | "deprecationNotice" => {
            Some(format!("warning: {}", text(params, "summary")?))
        }
        "thread/compacted" => Some("── the conversation was compacted".to_owned()),
        _ => None,
    }
}

fn render_turn_end(turn: &Value) -> String {
    let status = text(turn, "status").unwrap_or("ended");
    match turn.get("error").filter(|error| !error.is_null()) {
        None => format!("── turn {status}"),
        Some(error) => format!("── turn {status}: {}", turn_end::describe_error(error)),
    }
}

fn render_request(method: &str, params: &Value) -> String {
    let about = text(params, "command")
        .or(text(params, "message"))
        .or(text(params, "tool"))
        .or(text(&params["questions"][0], "question"))
        .or(text(params, "reason"));
    match about {
        Some(about) => format!("? {method}: {}", one_line(about)),
        None => format!("? {method}"),
    }
}

fn render_item(item: &Value) -> Option<String> {
    match text(item, "type")? {
        "agentMessage" | "plan" => non_empty(text(item, "text")?),
        "userMessage" => {
            let texts = list(item, "content").iter().filter_map(|part| text(part, "text"));
            non_empty(&texts.collect::<Vec<_>>().join("\n")).map(|written| format!("> {written}"))
        }
        "reasoning" => {
            let summary = list(item, "summary").iter().filter_map(Value::as_str);
            non_empty(&summary.collect::<Vec<_>>().join("\n"))
        }
        "commandExecution" => Some(render_command(item, "exitCode", "aggregatedOutput")),
        "fileChange" => Some(render_changes(item, |change| text(&change["kind"], "type"))),
        "mcpToolCall" | "dynamicToolCall" | "collabAgentToolCall" => Some(render_tool_call(item)),
        "subAgentActivity" => {
            let agent = text(item, "agentPath").unwrap_or("sub-agent");
            Some(format!("{agent} {}", text(item, "kind").unwrap_or("works")))
        }
        "webSearch" => Some(format!("searched the web: {}", text(item, "query")?)),
        "contextCompaction" => Some("── the conversation was compacted".to_owned()),
        _ => None,
    }
}

fn render_exec_item(item: &Value) -> Option<String> {
    match text(item, "type")? {
        "agent_message" | "reasoning" => non_empty(text(item, "text")?),
        "command_execution" => Some(render_command(item, "exit_code", "aggregated_output")),
        "file_change" => Some(render_changes(item, |change| text(change, "kind"))),
        "todo_list" => {
            let done = |step: &Value| step["completed"].as_bool().unwrap_or(false);
            render_plan(list(item, "items"), "text", |step| done(step).then_some("completed"))
        }
        // An item of this type does not end the turn. Errors that do are lines of type `error`.
        "error" => Some(format!("warning: {}", text(item, "message")?)),
        "mcp_tool_call" | "collab_tool_call" => Some(render_tool_call(item)),
        "web_search" => Some(format!("searched the web: {}", text(item, "query")?)),
        _ => None,
    }
}

fn non_empty(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn render_command(item: &Value, exit: &str, output: &str) -> String {
    let ended = match (item[exit].as_i64(), text(item, "status")) {
        (Some(0), _) => String::new(),
        (Some(code), _) => format!("  [exit {code}]"),
        (None, status) => format!("  [{}]", status.unwrap_or("no exit code")),
    };
    let command = one_line(text(item, "command").unwrap_or("?"));
    format!("$ {command}{ended}{}", tail(text(item, output).unwrap_or_default()))
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let skipped = lines.len().saturating_sub(TAIL);
    let before = (skipped > 0).then(|| format!("\n  … {skipped} earlier lines"));
    let kept = lines[skipped..].iter().map(|line| format!("\n  {}", cut(line)));
    before.into_iter().chain(kept).collect()
}

fn render_changes<'a>(item: &'a Value, kind: impl Fn(&'a Value) -> Option<&'a str>) -> String {
    let changed = list(item, "changes").iter().map(|change| {
        format!("{} {}", kind(change).unwrap_or("change"), text(change, "path").unwrap_or("?"))
    });
    let failed = match text(item, "status") {
        None | Some("completed") => String::new(),
        Some(status) => format!("  [{status}]"),
    };
    format!("± {}{failed}", changed.collect::<Vec<_>>().join(", "))
}

fn render_plan<'a>(
    steps: &'a [Value],
    words: &str,
    status: impl Fn(&'a Value) -> Option<&'a str>,
) -> Option<String> {
    let render_step = |step: &'a Value| {
        let mark = match status(step) {
            Some("completed") => "x",
            Some("inProgress") => ">",
            _ => " ",
        };
        format!("[{mark}] {}", one_line(text(step, words).unwrap_or("?")))
    };
    let steps: Vec<String> = steps.iter().map(render_step).collect();
    (!steps.is_empty()).then(|| steps.join("\n"))
}

fn render_tool_call(item: &Value) -> String {
    let status = text(item, "status").unwrap_or_default();
    let server = text(item, "server").map(|server| format!("{server}.")).unwrap_or_default();
    format!("· {server}{} {status}", text(item, "tool").unwrap_or("tool"))
}

fn one_line(text: &str) -> String {
    cut(&text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}
