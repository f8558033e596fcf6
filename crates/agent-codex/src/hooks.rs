//! Parses the input of Codex hooks, which is JSON on the standard input of a command.
//!
//! Hooks are fast and exact, but no hook runs when a turn fails, is interrupted or is killed.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::ThreadId;

/// The events for which hooks are installed: their names in the configuration, and in hook keys.
const EVENTS: [(&str, &str); 11] = [
    ("SessionStart", "session_start"),
    ("UserPromptSubmit", "user_prompt_submit"),
    ("PreToolUse", "pre_tool_use"),
    ("PermissionRequest", "permission_request"),
    ("PostToolUse", "post_tool_use"),
    ("PreCompact", "pre_compact"),
    ("PostCompact", "post_compact"),
    ("SubagentStart", "subagent_start"),
    ("SubagentStop", "subagent_stop"),
    ("Stop", "stop"),
    ("SessionEnd", "session_end"),
];
/// The timeout of a hook in seconds, which is the maximum that Codex allows at the end of a
/// session.
const TIMEOUT: u64 = 3;
/// The name that Codex uses for the source of `-c` settings.
const SESSION_FLAGS: &str = "/<session-flags>/config.toml";

/// One call of a hook.
#[derive(Debug, Clone, PartialEq)]
pub struct HookCall {
    pub thread: ThreadId,
    pub turn: Option<String>,
    /// The rollout of the thread.
    pub transcript: Option<PathBuf>,
    pub cwd: Option<PathBuf>,
    /// The sub-agent that made the call, if any. It has its own thread, and its turns do not count
    /// as turns of the session.
    pub subagent: Option<Subagent>,
    pub event: CodexHookEvent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subagent {
    pub id: String,
    pub kind: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum CodexHookEvent {
    SessionStarted {
        source: Option<String>,
    },
    PromptSubmitted {
        text: String,
    },
    PermissionRequested {
        tool: String,
        input: Value,
    },
    ToolBegan {
        tool: String,
        call: Option<String>,
        input: Value,
    },
    ToolEnded {
        tool: String,
        call: Option<String>,
    },
    Compacting,
    Compacted,
    SubagentStarted,
    SubagentStopped,
    /// The turn succeeded.
    Stopped {
        last_message: Option<String>,
    },
    SessionEnded {
        reason: Option<String>,
    },
    /// An event that this version of Provost does not know.
    Other {
        event: String,
    },
}

/// The reason why a hook's input could not be parsed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the hook's input is not a JSON object with an event and a session")]
    Shape(#[source] serde_json::Error),
    #[error("the hook's input has the invalid session id {0:?}")]
    Thread(String),
}

/// Parses the input of a hook.
pub fn parse_hook(input: &[u8]) -> Result<HookCall, Error> {
    let input: HookInput = serde_json::from_slice(input).map_err(Error::Shape)?;
    let Some(thread) = ThreadId::parse(&input.session_id) else {
        return Err(Error::Thread(input.session_id));
    };
    Ok(HookCall {
        thread,
        turn: input.turn_id.clone(),
        transcript: input.transcript_path.clone(),
        cwd: input.cwd.clone(),
        subagent: input.agent_id.clone().map(|id| Subagent { id, kind: input.agent_type.clone() }),
        event: hook_event(input),
    })
}

fn hook_event(input: HookInput) -> CodexHookEvent {
    let tool = input.tool_name.unwrap_or_default();
    match input.hook_event_name.as_str() {
        "SessionStart" => CodexHookEvent::SessionStarted { source: input.source },
        "UserPromptSubmit" => {
            CodexHookEvent::PromptSubmitted { text: input.prompt.unwrap_or_default() }
        }
        "PermissionRequest" => {
            CodexHookEvent::PermissionRequested { tool, input: input.tool_input }
        }
        "PreToolUse" => {
            CodexHookEvent::ToolBegan { tool, call: input.tool_use_id, input: input.tool_input }
        }
        "PostToolUse" => CodexHookEvent::ToolEnded { tool, call: input.tool_use_id },
        "PreCompact" => CodexHookEvent::Compacting,
        "PostCompact" => CodexHookEvent::Compacted,
        "SubagentStart" => CodexHookEvent::SubagentStarted,
        "SubagentStop" => CodexHookEvent::SubagentStopped,
        "Stop" => CodexHookEvent::Stopped { last_message: input.last_assistant_message },
        "SessionEnd" => CodexHookEvent::SessionEnded { reason: input.reason },
        _ => CodexHookEvent::Other { event: input.hook_event_name },
    }
}

#[derive(Debug, Deserialize)]
struct HookInput {
    session_id: String,
    hook_event_name: String,
    #[serde(default)]
    turn_id: Option<String>,
    #[serde(default)]
    transcript_path: Option<PathBuf>,
    #[serde(default)]
    cwd: Option<PathBuf>,
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    agent_type: Option<String>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    tool_input: Value,
    #[serde(default)]
    tool_use_id: Option<String>,
    #[serde(default)]
    last_assistant_message: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

/// Returns the arguments that configure a shell command for each event, for one launch of Codex.
///
/// Codex does not run an unreviewed hook, whether it comes from the command line or from a file:
/// the TUI asks the user, and all other modes skip the hook. Therefore Provost's hooks are trusted
/// by their hash, for this launch only. Nothing is written to disk, and hooks from the repository
/// or from other tools still need the user's approval.
pub fn launch_arguments(command: &str) -> Vec<String> {
    let hooks = EVENTS.iter().map(|(event, _)| {
        let command = quote_toml(command);
        format!(
            "hooks.{event}=[{{hooks=[{{type=\"command\",command={command},timeout={TIMEOUT}}}]}}]"
        )
    });
    let states = EVENTS.iter().map(|(_, key)| {
        let hash = hook_hash(key, command);
        format!("\"{SESSION_FLAGS}:{key}:0:0\"={{enabled=true,trusted_hash=\"{hash}\"}}")
    });
    let states = format!("hooks.state={{{}}}", states.collect::<Vec<_>>().join(","));
    hooks.chain([states]).flat_map(|value| ["-c".to_owned(), value]).collect()
}

/// Returns the hash by which Codex identifies a hook, computed over its definition as JSON with
/// sorted keys.
fn hook_hash(event: &str, command: &str) -> String {
    let hook = serde_json::json!({"async": false, "command": command, "timeout": TIMEOUT, "type": "command"});
    let identity = serde_json::json!({"event_name": event, "hooks": [hook]});
    let digest = Sha256::digest(identity.to_string());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Quotes a text as a TOML string.
fn quote_toml(text: &str) -> String {
    let mut quoted = String::from('"');
    for char in text.chars() {
        match char {
            '"' | '\\' => quoted.extend(['\\', char]),
            char if char.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(char))),
            char => quoted.push(char),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(name: &str) -> Vec<HookCall> {
        let path = format!("{}/tests/fixtures/hooks/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| parse_hook(line.as_bytes()).unwrap()).collect()
    }

    #[test]
    fn session_hooks_are_parsed_in_order() {
        let heard = heard("session");
        let first = &heard[0];
        assert_eq!(first.thread.as_str(), "01a1e08b-614a-7c61-a49a-d6ec86726bf8");
        assert!(
            first.transcript.as_ref().unwrap().ends_with(
                "rollout-2026-11-15T18-49-53-01a1e08b-614a-7c61-a49a-d6ec86726bf8.jsonl"
            )
        );
        assert_eq!(first.event, CodexHookEvent::SessionStarted { source: Some("startup".into()) });
        assert_eq!(heard[1].event, CodexHookEvent::PromptSubmitted { text: "HELLO one".into() });
        assert_eq!(heard[1].turn.as_deref(), Some("01a1e08b-640d-70a0-9e51-78a46de3d154"));
        assert_eq!(
            heard[2].event,
            CodexHookEvent::Stopped { last_message: Some("Hello from the model.".into()) }
        );
        assert_eq!(
            heard.last().unwrap().event,
            CodexHookEvent::SessionEnded { reason: Some("other".into()) }
        );
        assert!(heard.iter().all(|heard| heard.subagent.is_none()));
    }

    #[test]
    fn tool_and_permission_hooks_are_parsed() {
        let heard = heard("session");
        let call = Some("call_9996d8d1be6e46bd82f7".to_owned());
        let input = serde_json::json!({"command": "sleep 2; ls"});
        assert_eq!(
            heard[4].event,
            CodexHookEvent::ToolBegan { tool: "Bash".into(), call: call.clone(), input }
        );
        assert_eq!(heard[5].event, CodexHookEvent::ToolEnded { tool: "Bash".into(), call });
        let input = serde_json::json!({"command": "touch /scratch/tui-esc", "description": "May I write outside?"});
        assert_eq!(
            heard[9].event,
            CodexHookEvent::PermissionRequested { tool: "Bash".into(), input }
        );
    }

    #[test]
    fn sub_agent_hooks_are_marked() {
        let input = br#"{"session_id":"a1","hook_event_name":"SubagentStop","agent_id":"b2","agent_type":"worker","turn_id":"t"}"#;
        let heard = parse_hook(input).unwrap();
        assert_eq!(heard.event, CodexHookEvent::SubagentStopped);
        assert_eq!(heard.subagent, Some(Subagent { id: "b2".into(), kind: Some("worker".into()) }));
    }

    #[test]
    fn bad_hook_input_is_an_error() {
        assert!(matches!(parse_hook(b"[]"), Err(Error::Shape(_))));
        assert!(matches!(parse_hook(b"{\"session_id\":\"a\"}"), Err(Error::Shape(_))));
        assert!(matches!(
            parse_hook(br#"{"session_id":"../a","hook_event_name":"Stop"}"#),
            Err(Error::Thread(_))
        ));
        let heard = parse_hook(br#"{"session_id":"a","hook_event_name":"New"}"#).unwrap();
        assert_eq!(heard.event, CodexHookEvent::Other { event: "New".into() });
    }

    #[test]
    fn a_command_is_quoted_for_toml() {
        let arguments = launch_arguments("a \"b\" \\ \n");
        assert_eq!(arguments.len(), 2 * EVENTS.len() + 2);
        assert_eq!(arguments[0], "-c");
        let expected = r#"hooks.SessionStart=[{hooks=[{type="command",command="a \"b\" \\ \u000A",timeout=3}]}]"#;
        assert_eq!(arguments[1], expected);
    }

    #[test]
    fn hook_hash_matches_codex() {
        let expected = "sha256:6125a83af5b2a49d339b56a14c3bfc74e142b2bb9297e292ad9be61de0aed526";
        assert_eq!(hook_hash("session_end", "cat >> \"/tmp/a b\""), expected);
    }
}
