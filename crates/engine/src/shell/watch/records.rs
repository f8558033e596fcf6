//! Converts an agent's own records to the core's types.

use provost_core::{
    request::{Asked, RequestKind, Subject, Waiting},
    session::{Context, Progress, Recorded, TurnEnd, Usage},
};
use provost_watch::{
    hooks,
    rollout::{self, Reset, Told},
};
use serde_json::Value;

/// Codex's error code for a turn that ended because the account's limit is used up.
const USAGE_LIMIT: &str = "usage_limit_exceeded";

/// Converts a line of a rollout. `None` if it shows only activity.
pub(super) fn of_rollout(told: &Told, limits: Option<&rollout::Limits>) -> Option<Recorded> {
    match told {
        Told::Session(meta) => Some(Recorded::Named { thread: meta.thread.to_string() }),
        Told::TurnStarted { turn } => Some(Recorded::TurnStarted { turn: turn.clone() }),
        Told::TurnEnded { turn, end: ended } => {
            let says = match ended {
                rollout::TurnEnd::Ok { last_message } => last_message.clone(),
                rollout::TurnEnd::Aborted { .. } | rollout::TurnEnd::Error { .. } => None,
            };
            let end = turn_end(ended, limits);
            Some(Recorded::TurnEnded { turn: turn.clone(), end, says })
        }
        Told::UserMessage { text, .. } => Some(Recorded::Prompted { text: text.clone() }),
        Told::Tokens(tokens) => {
            let rollout::Usage { input, output, .. } = tokens.response;
            let context = tokens.window.map(|window| Context { used: tokens.filled(), window });
            Some(Recorded::Used { usage: Usage { input, output }, context })
        }
        Told::Plan(plan) => {
            let (done, total) = plan.progress();
            Some(Recorded::Progress(Progress { done: done as u64, total: total as u64 }))
        }
        Told::Compacted => Some(Recorded::Compacted),
        Told::Limits(_) | Told::Alive | Told::Unreadable { .. } => None,
    }
}

fn turn_end(end: &rollout::TurnEnd, limits: Option<&rollout::Limits>) -> TurnEnd {
    match end {
        rollout::TurnEnd::Ok { .. } => TurnEnd::Ok,
        rollout::TurnEnd::Aborted { .. } => TurnEnd::Interrupted,
        rollout::TurnEnd::Error { message, kind } if kind.as_deref() == Some(USAGE_LIMIT) => {
            TurnEnd::Limited { until_ms: limits.and_then(reset_of), detail: message.clone() }
        }
        rollout::TurnEnd::Error { message, .. } => TurnEnd::Error(message.clone()),
    }
}

/// Returns when the fullest window of an account resets, where a time is known.
fn reset_of(limits: &rollout::Limits) -> Option<u64> {
    let windows = [limits.primary, limits.secondary].into_iter().flatten();
    let fullest = windows.max_by(|a, b| a.used_percent.total_cmp(&b.used_percent))?;
    match fullest.reset? {
        Reset::At(seconds) => u64::try_from(seconds).ok()?.checked_mul(1_000),
        Reset::In(_) => None,
    }
}

/// Converts a hook event of a conversation, in the order in which the records count. Events of
/// other conversations of the same process, and of its sub-agents, are ignored.
pub(super) fn of_hook(heard: &hooks::Heard, thread: Option<&str>) -> Vec<Recorded> {
    let other = thread.is_some_and(|thread| thread != heard.thread.as_str());
    if other || heard.subagent.is_some() {
        return Vec::new();
    }
    let turn = heard.turn.clone();
    match &heard.told {
        hooks::Told::SessionStarted { .. } => {
            vec![Recorded::Named { thread: heard.thread.to_string() }]
        }
        hooks::Told::PromptSubmitted { text } => vec![
            Recorded::Named { thread: heard.thread.to_string() },
            Recorded::Prompted { text: text.clone() },
            Recorded::TurnStarted { turn },
        ],
        hooks::Told::PermissionRequested { tool, input } => {
            vec![Recorded::Asked(permission(heard, tool, input))]
        }
        hooks::Told::ToolEnded { .. } => vec![Recorded::WentOn],
        hooks::Told::Stopped { .. } => {
            vec![Recorded::TurnEnded { turn, end: TurnEnd::Ok, says: None }]
        }
        hooks::Told::Compacting => vec![Recorded::Compacting],
        // The transcript has that too, with a position by which it counts once.
        hooks::Told::ToolBegan { .. }
        | hooks::Told::Compacted
        | hooks::Told::SubagentStarted
        | hooks::Told::SubagentStopped
        | hooks::Told::SessionEnded { .. }
        | hooks::Told::Other { .. } => Vec::new(),
    }
}

fn permission(heard: &hooks::Heard, tool: &str, input: &Value) -> Asked {
    let text = |name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
    let command = text("command");
    let title = command.as_ref().map_or_else(|| tool.to_owned(), |c| format!("{tool}: {c}"));
    let cwd = heard.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let subject = Subject { command, cwd, reason: text("description"), ..Subject::default() };
    let turn = heard.turn.as_deref().unwrap_or_default();
    Asked {
        native: format!("permission-{turn}-{title}"),
        kind: RequestKind::Approval,
        waiting: Waiting::Blocking,
        title,
        questions: Vec::new(),
        subject: Some(Box::new(subject)),
    }
}

#[cfg(test)]
mod tests {
    use provost_watch::rollout::{Limits, Window};

    use super::*;

    fn heard(json: &str) -> Vec<Recorded> {
        of_hook(&hooks::read(json.as_bytes()).unwrap(), Some("a1"))
    }

    #[test]
    fn a_prompt_is_proof_of_input_before_it_is_a_turn() {
        let told = heard(
            r#"{"session_id":"a1","hook_event_name":"UserPromptSubmit","turn_id":"t","prompt":"hi"}"#,
        );
        let expected = [
            Recorded::Named { thread: "a1".to_owned() },
            Recorded::Prompted { text: "hi".to_owned() },
            Recorded::TurnStarted { turn: Some("t".to_owned()) },
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn another_conversation_and_a_sub_agent_say_nothing_of_this_one() {
        let stop = r#"{"session_id":"b2","hook_event_name":"Stop","turn_id":"t"}"#;
        assert_eq!(heard(stop), []);
        let stop = r#"{"session_id":"a1","hook_event_name":"Stop","turn_id":"t","agent_id":"c3"}"#;
        assert_eq!(heard(stop), []);
        let stop = r#"{"session_id":"a1","hook_event_name":"Stop","turn_id":"t"}"#;
        let ended =
            Recorded::TurnEnded { turn: Some("t".to_owned()), end: TurnEnd::Ok, says: None };
        assert_eq!(heard(stop), [ended]);
    }

    #[test]
    fn a_permission_tells_what_it_is_for() {
        let told = heard(
            r#"{"session_id":"a1","hook_event_name":"PermissionRequest","turn_id":"t","tool_name":"Bash",
                "tool_input":{"command":"rm x","description":"May I?"},"cwd":"/w"}"#,
        );
        let [Recorded::Asked(asked)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((asked.title.as_str(), asked.kind), ("Bash: rm x", RequestKind::Approval));
        let subject = asked.subject.as_deref().unwrap();
        assert_eq!(subject.reason.as_deref(), Some("May I?"));
    }

    #[test]
    fn an_account_without_anything_left_is_no_error_of_the_work() {
        let error = |kind: &str| Told::TurnEnded {
            turn: None,
            end: rollout::TurnEnd::Error {
                message: "no more".to_owned(),
                kind: Some(kind.to_owned()),
            },
        };
        let window =
            |used_percent, at| Window { used_percent, minutes: None, reset: Some(Reset::At(at)) };
        let limits = Limits {
            id: None,
            primary: Some(window(20.0, 5)),
            secondary: Some(window(100.0, 9)),
            reached: None,
        };
        let ended = of_rollout(&error(USAGE_LIMIT), Some(&limits));
        let limited = TurnEnd::Limited { until_ms: Some(9_000), detail: "no more".to_owned() };
        assert_eq!(ended, Some(Recorded::TurnEnded { turn: None, end: limited, says: None }));
        let ended = of_rollout(&error("other"), Some(&limits));
        let end = TurnEnd::Error("no more".to_owned());
        assert_eq!(ended, Some(Recorded::TurnEnded { turn: None, end, says: None }));
    }
}
