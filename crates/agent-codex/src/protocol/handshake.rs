//! The handshake: it greets the server, probes the server's methods, and opens the thread.

use provost_core::session::{AgentSettings, Approvals, Sandbox};
use serde_json::{Map, Value, json};

use super::{capabilities::CodexVersion, tools, wire};
use provost_agent::{ConversationOptions, ProtocolWrite, tools::instructions};

pub(crate) const HELLO: &str = "p:hello";
pub(crate) const READY: &str = "p:ready";
pub(crate) const PROBE: &str = "p:probe";
pub(crate) const THREAD: &str = "p:thread";

/// A method that no server has. When a server rejects it, it lists the existing methods.
const PROBE_METHOD: &str = "provost/probe";

/// Notifications that the server is asked not to send. They are deltas of content that follows in
/// full. Old versions send everything in two formats, so the most frequent notifications of the
/// second format are listed too.
const IGNORED_NOTIFICATIONS: &[&str] = &[
    "item/agentMessage/delta",
    "item/plan/delta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/summaryPartAdded",
    "item/reasoning/textDelta",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "turn/diff/updated",
    "codex/event/agent_message_delta",
    "codex/event/agent_message_content_delta",
    "codex/event/agent_reasoning_delta",
    "codex/event/reasoning_content_delta",
    "codex/event/exec_command_output_delta",
    "codex/event/turn_diff",
];

pub(crate) fn hello() -> ProtocolWrite {
    let params = json!({
        "clientInfo": {"name": "provost", "title": "Provost", "version": env!("CARGO_PKG_VERSION")},
        "capabilities": {"experimentalApi": true, "optOutNotificationMethods": IGNORED_NOTIFICATIONS},
    });
    write(HELLO, wire::request(HELLO, "initialize", params))
}

pub(crate) fn ready() -> ProtocolWrite {
    write(READY, wire::notification_line("initialized"))
}

pub(crate) fn probe() -> ProtocolWrite {
    write(PROBE, wire::request(PROBE, PROBE_METHOD, json!({})))
}

/// Starts or resumes the conversation. The settings are sent in both cases, because a resumed
/// conversation would otherwise keep its last settings, which another client may have changed.
pub(crate) fn thread(opening: &ConversationOptions) -> ProtocolWrite {
    let mut params = settings(opening);
    match &opening.thread {
        Some(thread) => {
            params.insert("threadId".to_owned(), json!(thread));
            params.insert("excludeTurns".to_owned(), json!(true));
        }
        // A resumed conversation still has its tools, because Codex has stored them.
        None => {
            params.insert("dynamicTools".to_owned(), tools::specs(&opening.settings));
        }
    }
    write(THREAD, wire::request(THREAD, thread_method(opening), Value::Object(params)))
}

/// Describes the server's reason for rejecting the request to open the conversation.
pub(crate) fn describe_rejection(
    version: CodexVersion,
    opening: &ConversationOptions,
    why: &str,
) -> String {
    let AgentSettings { model, effort, sandbox: what, approvals: when, .. } = &opening.settings;
    let named = |name: &str, value: &Option<String>| match value {
        Some(value) => format!(", {name} {value}"),
        None => String::new(),
    };
    format!(
        "codex {version} refused {} (sandbox {}, approvals {}{}{}{}): {why}",
        thread_method(opening),
        sandbox(*what),
        approvals(*when),
        named("model", model),
        named("effort", effort),
        named("thread", &opening.thread),
    )
}

fn thread_method(opening: &ConversationOptions) -> &'static str {
    match opening.thread {
        Some(_) => "thread/resume",
        None => "thread/start",
    }
}

fn settings(opening: &ConversationOptions) -> Map<String, Value> {
    let settings = &opening.settings;
    let mut params = Map::new();
    let mut set = |key: &str, value: Value| params.insert(key.to_owned(), value);
    set("cwd", json!(opening.cwd));
    set("sandbox", json!(sandbox(settings.sandbox)));
    set("approvalPolicy", json!(approvals(settings.approvals)));
    set("developerInstructions", json!(instructions(settings)));
    set("config", config(settings));
    if let Some(model) = &settings.model {
        set("model", json!(model));
    }
    params
}

fn config(settings: &AgentSettings) -> Value {
    let mut config = json!({
        "sandbox_workspace_write.network_access": settings.network,
        "features.default_mode_request_user_input": settings.questions,
        "suppress_unstable_features_warning": true,
    });
    if let Some(multi_agent) = &settings.multi_agent {
        config["features.multi_agent"] = json!(multi_agent.on);
    }
    if let Some(effort) = &settings.effort {
        config["model_reasoning_effort"] = json!(effort);
    }
    config
}

/// Returns Codex's name for a sandbox, which is the same in all supported versions.
fn sandbox(sandbox: Sandbox) -> &'static str {
    match sandbox {
        Sandbox::ReadOnly => "read-only",
        Sandbox::WorkspaceWrite => "workspace-write",
        Sandbox::FullAccess => "danger-full-access",
    }
}

fn approvals(approvals: Approvals) -> &'static str {
    match approvals {
        Approvals::Untrusted => "untrusted",
        Approvals::OnRequest => "on-request",
        Approvals::Never => "never",
    }
}

fn write(key: &str, line: Vec<u8>) -> ProtocolWrite {
    ProtocolWrite { key: key.to_owned(), line }
}
