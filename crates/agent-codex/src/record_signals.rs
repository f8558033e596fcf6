//! Converts Codex's own records, its rollouts and hook events, to the core's types.

use provost_agent::HookReport;
use provost_core::{
    request::{AgentRequest, ApprovalSubject, BlockingMode, RequestKind},
    session::{ContextUsage, Progress, RecordSignal, TurnEnd, Usage},
};
use serde_json::Value;

use crate::{
    hooks::{CodexHookEvent, HookCall},
    rollout::{self, LimitReset, RolloutEvent},
};

/// Codex's error code for a turn that ended because the account's limit is used up.
const USAGE_LIMIT: &str = "usage_limit_exceeded";

/// Converts a line of a rollout. Returns `None` if the line only shows activity.
pub(crate) fn from_rollout(
    event: &RolloutEvent,
    limits: Option<&rollout::AccountLimits>,
) -> Option<RecordSignal> {
    match event {
        RolloutEvent::Session(meta) => {
            Some(RecordSignal::ThreadNamed { thread: meta.thread.to_string() })
        }
        RolloutEvent::TurnStarted { turn } => {
            Some(RecordSignal::TurnStarted { turn: turn.clone() })
        }
        RolloutEvent::TurnEnded { turn, end: ended } => {
            let says = match ended {
                rollout::RecordedTurnEnd::Ok { last_message } => last_message.clone(),
                rollout::RecordedTurnEnd::Aborted { .. }
                | rollout::RecordedTurnEnd::Error { .. } => None,
            };
            let end = turn_end(ended, limits);
            Some(RecordSignal::TurnEnded { turn: turn.clone(), end, says })
        }
        RolloutEvent::UserMessage { text, .. } => {
            Some(RecordSignal::InputTaken { text: text.clone() })
        }
        RolloutEvent::Tokens(tokens) => {
            let rollout::TokenUsage { input, output, .. } = tokens.response;
            let context =
                tokens.window.map(|window| ContextUsage { used: tokens.filled(), window });
            Some(RecordSignal::UsageReported { usage: Usage { input, output }, context })
        }
        RolloutEvent::Plan(plan) => {
            let (done, total) = plan.progress();
            Some(RecordSignal::Progress(Progress { done: done as u64, total: total as u64 }))
        }
        RolloutEvent::Compacted => Some(RecordSignal::Compacted),
        RolloutEvent::Limits(_) | RolloutEvent::Alive | RolloutEvent::Unreadable { .. } => None,
    }
}

fn turn_end(end: &rollout::RecordedTurnEnd, limits: Option<&rollout::AccountLimits>) -> TurnEnd {
    match end {
        rollout::RecordedTurnEnd::Ok { .. } => TurnEnd::Ok,
        rollout::RecordedTurnEnd::Aborted { .. } => TurnEnd::Interrupted,
        rollout::RecordedTurnEnd::Error { message, kind }
            if kind.as_deref() == Some(USAGE_LIMIT) =>
        {
            TurnEnd::Limited { until_ms: limits.and_then(reset_time), detail: message.clone() }
        }
        rollout::RecordedTurnEnd::Error { message, .. } => TurnEnd::Error(message.clone()),
    }
}

/// Returns the time at which the account's fullest usage window resets, if it is known.
fn reset_time(limits: &rollout::AccountLimits) -> Option<u64> {
    let windows = [limits.primary, limits.secondary].into_iter().flatten();
    let fullest = windows.max_by(|a, b| a.used_percent.total_cmp(&b.used_percent))?;
    match fullest.reset? {
        LimitReset::At(seconds) => u64::try_from(seconds).ok()?.checked_mul(1_000),
        LimitReset::In(_) => None,
    }
}

/// Converts a hook event.
pub(crate) fn hook_report(call: HookCall) -> HookReport {
    let takes_input = matches!(
        call.event,
        CodexHookEvent::SessionStarted { .. } | CodexHookEvent::PromptSubmitted { .. }
    );
    HookReport {
        takes_input,
        from_subagent: call.subagent.is_some(),
        signals: signals(&call),
        thread: call.thread.to_string(),
    }
}

/// Returns the signals of a hook event, in the order in which they must be recorded.
fn signals(heard: &HookCall) -> Vec<RecordSignal> {
    let turn = heard.turn.clone();
    match &heard.event {
        CodexHookEvent::SessionStarted { .. } => {
            vec![RecordSignal::ThreadNamed { thread: heard.thread.to_string() }]
        }
        CodexHookEvent::PromptSubmitted { text } => vec![
            RecordSignal::ThreadNamed { thread: heard.thread.to_string() },
            RecordSignal::InputTaken { text: text.clone() },
            RecordSignal::TurnStarted { turn },
        ],
        CodexHookEvent::PermissionRequested { tool, input } => {
            vec![RecordSignal::RequestOpened(permission_request(heard, tool, input))]
        }
        CodexHookEvent::ToolEnded { .. } => vec![RecordSignal::Continued],
        CodexHookEvent::Stopped { .. } => {
            vec![RecordSignal::TurnEnded { turn, end: TurnEnd::Ok, says: None }]
        }
        CodexHookEvent::Compacting => vec![RecordSignal::Compacting],
        // The transcript contains these events as well, with positions, so that each event counts
        // only once.
        CodexHookEvent::ToolBegan { .. }
        | CodexHookEvent::Compacted
        | CodexHookEvent::SubagentStarted
        | CodexHookEvent::SubagentStopped
        | CodexHookEvent::SessionEnded { .. }
        | CodexHookEvent::Other { .. } => Vec::new(),
    }
}

fn permission_request(heard: &HookCall, tool: &str, input: &Value) -> AgentRequest {
    let text = |name: &str| input.get(name).and_then(Value::as_str).map(str::to_owned);
    let command = text("command");
    let title = command.as_ref().map_or_else(|| tool.to_owned(), |c| format!("{tool}: {c}"));
    let cwd = heard.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let subject =
        ApprovalSubject { command, cwd, reason: text("description"), ..ApprovalSubject::default() };
    let turn = heard.turn.as_deref().unwrap_or_default();
    AgentRequest {
        native: format!("permission-{turn}-{title}"),
        kind: RequestKind::Approval,
        waiting: BlockingMode::Blocking,
        title,
        questions: Vec::new(),
        subject: Some(Box::new(subject)),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        hooks::parse_hook,
        rollout::{AccountLimits, LimitUsage},
    };

    use super::*;

    fn report(json: &str) -> HookReport {
        hook_report(parse_hook(json.as_bytes()).unwrap())
    }

    fn heard(json: &str) -> Vec<RecordSignal> {
        report(json).signals
    }

    #[test]
    fn prompt_confirms_input_before_the_turn() {
        let signals = heard(
            r#"{"session_id":"a1","hook_event_name":"UserPromptSubmit","turn_id":"t","prompt":"hi"}"#,
        );
        let expected = [
            RecordSignal::ThreadNamed { thread: "a1".to_owned() },
            RecordSignal::InputTaken { text: "hi".to_owned() },
            RecordSignal::TurnStarted { turn: Some("t".to_owned()) },
        ];
        assert_eq!(signals, expected);
    }

    #[test]
    fn event_of_a_sub_agent_is_marked() {
        let stop = report(r#"{"session_id":"a1","hook_event_name":"Stop","turn_id":"t"}"#);
        let ended =
            RecordSignal::TurnEnded { turn: Some("t".to_owned()), end: TurnEnd::Ok, says: None };
        assert_eq!((stop.thread.as_str(), stop.signals), ("a1", vec![ended]));
        assert!(!stop.from_subagent && !stop.takes_input);
        let stop = r#"{"session_id":"a1","hook_event_name":"Stop","turn_id":"t","agent_id":"c3"}"#;
        assert!(report(stop).from_subagent);
    }

    #[test]
    fn permission_request_has_its_subject() {
        let signals = heard(
            r#"{"session_id":"a1","hook_event_name":"PermissionRequest","turn_id":"t","tool_name":"Bash",
                "tool_input":{"command":"rm x","description":"May I?"},"cwd":"/w"}"#,
        );
        let [RecordSignal::RequestOpened(asked)] = signals.as_slice() else {
            panic!("{signals:?}")
        };
        assert_eq!((asked.title.as_str(), asked.kind), ("Bash: rm x", RequestKind::Approval));
        let subject = asked.subject.as_deref().unwrap();
        assert_eq!(subject.reason.as_deref(), Some("May I?"));
    }

    #[test]
    fn usage_limit_is_not_a_work_error() {
        let error = |kind: &str| RolloutEvent::TurnEnded {
            turn: None,
            end: rollout::RecordedTurnEnd::Error {
                message: "no more".to_owned(),
                kind: Some(kind.to_owned()),
            },
        };
        let window = |used_percent, at| LimitUsage {
            used_percent,
            minutes: None,
            reset: Some(LimitReset::At(at)),
        };
        let limits = AccountLimits {
            id: None,
            primary: Some(window(20.0, 5)),
            secondary: Some(window(100.0, 9)),
            reached: None,
        };
        let ended = from_rollout(&error(USAGE_LIMIT), Some(&limits));
        let limited = TurnEnd::Limited { until_ms: Some(9_000), detail: "no more".to_owned() };
        assert_eq!(ended, Some(RecordSignal::TurnEnded { turn: None, end: limited, says: None }));
        let ended = from_rollout(&error("other"), Some(&limits));
        let end = TurnEnd::Error("no more".to_owned());
        assert_eq!(ended, Some(RecordSignal::TurnEnded { turn: None, end, says: None }));
    }
}
