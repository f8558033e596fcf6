//! `codex exec --json`, which executes one instruction and reports JSON lines.
//!
//! In this mode, Codex does not ask questions and does not accept input. An `error` line does not
//! end a turn; only `turn.completed` and `turn.failed` do. If the process exits without either, the
//! outcome of its work is unknown.

use provost_core::session::{StreamSignal, TurnEnd, Usage};
use serde_json::Value;

use super::{
    rate_limit_reset, turn_end,
    wire::{bounded, text},
};
use provost_agent::{ConversationOptions, Protocol};

/// Prefixes of messages that report an account limit. Codex does not report an error code for it.
const LIMITED: &[&str] = &[
    "You\u{2019}ve hit your usage limit",
    "You've hit your usage limit",
    "exceeded retry limit, last status: 429",
    "rate limit exceeded",
];

/// The prefix of a message which reports that a request to the model is being retried.
const RETRYING: &str = "Reconnecting...";

/// The maximum number of bytes to keep from a message.
const MAX_DETAIL: usize = 4 << 10;

/// The state of the protocol with one `codex exec` process.
#[derive(Debug)]
pub(crate) struct ExecProtocol {
    opening: ConversationOptions,
    /// Whether Codex opened a conversation other than the one to resume.
    wrong_thread: bool,
    /// The usage of the thread at the end of its last turn.
    total: Usage,
    /// The last message in the current turn.
    last_answer: Option<String>,
    /// The time at which the current line was printed. The lines themselves have no timestamps.
    now_ms: Option<u64>,
}

impl ExecProtocol {
    pub(crate) fn new(opening: ConversationOptions) -> ExecProtocol {
        ExecProtocol {
            opening,
            wrong_thread: false,
            total: Usage::default(),
            last_answer: None,
            now_ms: None,
        }
    }

    /// Handles the start of the thread. Codex does not reject an unknown thread id, but silently
    /// starts a new conversation.
    fn started(&mut self, thread: Option<&str>) -> StreamSignal {
        match (&self.opening.thread, thread) {
            (Some(wanted), got) if got != Some(wanted) => {
                self.wrong_thread = true;
                let got = got.unwrap_or("an unnamed one");
                let reason = format!("codex opened the thread {got} instead of {wanted}");
                StreamSignal::Refused { reason: bounded(&reason, MAX_DETAIL) }
            }
            (_, thread) => StreamSignal::Ready { thread: thread.map(str::to_owned) },
        }
    }

    /// Handles the end of a turn. Codex reports usage as the thread's total. The total of a resumed
    /// thread includes an unknown amount of earlier usage, so the first report is counted in full.
    fn completed(&mut self, usage: &Value) -> StreamSignal {
        let tokens = |key: &str| usage[key].as_u64().unwrap_or(0);
        let total = Usage { input: tokens("input_tokens"), output: tokens("output_tokens") };
        let before = std::mem::replace(&mut self.total, total);
        let took = Usage {
            input: total.input.saturating_sub(before.input),
            output: total.output.saturating_sub(before.output),
        };
        let says = self.last_answer.take();
        StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: Some(took), says }
    }

    fn failed(&self, error: &Value) -> TurnEnd {
        let detail = turn_end::describe_error(error);
        if !LIMITED.iter().any(|begins| detail.starts_with(begins)) {
            return TurnEnd::Error(detail);
        }
        let zone = self.opening.zone.as_ref();
        let until_ms =
            self.now_ms.and_then(|now| rate_limit_reset::parse_reset(&detail, now, zone));
        TurnEnd::Limited { until_ms, detail }
    }
}

impl Protocol for ExecProtocol {
    fn set_clock(&mut self, wall_ms: u64) {
        self.now_ms = Some(wall_ms);
    }

    fn read(&mut self, line: &[u8]) -> Option<StreamSignal> {
        let line = line.trim_ascii();
        if self.wrong_thread || !line.starts_with(b"{") {
            return None;
        }
        let line: Value = serde_json::from_slice(line).ok()?;
        match text(&line, "type")? {
            "thread.started" => Some(self.started(text(&line, "thread_id"))),
            "turn.started" => {
                self.last_answer = None;
                Some(StreamSignal::TurnStarted { turn: None })
            }
            "item.completed" if text(&line["item"], "type") == Some("agent_message") => {
                self.last_answer = text(&line["item"], "text").map(str::to_owned);
                None
            }
            "turn.completed" => Some(self.completed(&line["usage"])),
            "turn.failed" => Some(StreamSignal::TurnEnded {
                turn: None,
                end: self.failed(&line["error"]),
                usage: None,
                says: None,
            }),
            "error" => retrying(&line),
            _ => None,
        }
    }

    fn needs_full_journal(&self) -> bool {
        true
    }
}

fn retrying(error: &Value) -> Option<StreamSignal> {
    let message = text(error, "message").filter(|message| message.starts_with(RETRYING))?;
    Some(StreamSignal::Retrying { detail: bounded(message, MAX_DETAIL) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exec(thread: Option<&str>) -> ExecProtocol {
        ExecProtocol::new(ConversationOptions {
            thread: thread.map(str::to_owned),
            ..ConversationOptions::default()
        })
    }

    #[test]
    fn wrong_resumed_thread_is_refused() {
        let mut exec = exec(Some("a"));
        let started = exec.read(br#"{"type":"thread.started","thread_id":"b"}"#);
        assert!(matches!(started, Some(StreamSignal::Refused { .. })));
        assert_eq!(exec.read(br#"{"type":"turn.completed","usage":{}}"#), None);
    }

    #[test]
    fn turn_end_has_last_message() {
        let mut exec = exec(None);
        let mut says = |lines: &[&str]| {
            let signal = lines.iter().filter_map(|line| exec.read(line.as_bytes())).last();
            match signal {
                Some(StreamSignal::TurnEnded { says, .. }) => says,
                other => panic!("{other:?}"),
            }
        };
        let message_line = |text: &str| {
            format!(
                r#"{{"type":"item.completed","item":{{"type":"agent_message","text":"{text}"}}}}"#
            )
        };
        let over = r#"{"type":"turn.completed","usage":{}}"#;
        assert_eq!(
            says(&[&message_line("one"), &message_line("two"), over]).as_deref(),
            Some("two")
        );
        assert_eq!(says(&[r#"{"type":"turn.started"}"#, over]), None);
        let long = "x".repeat(9_000);
        assert_eq!(
            says(&[&message_line(&long), over]),
            Some(long),
            "how much of it is kept is decided once"
        );
    }

    #[test]
    fn e24_usage_is_counted_per_turn() {
        let mut exec = exec(None);
        let mut took = |total: u64| {
            let line = format!(
                r#"{{"type":"turn.completed","usage":{{"input_tokens":{total},"output_tokens":1}}}}"#
            );
            match exec.read(line.as_bytes()) {
                Some(StreamSignal::TurnEnded { end: TurnEnd::Ok, usage: Some(usage), .. }) => usage,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(took(100), Usage { input: 100, output: 1 });
        assert_eq!(took(250), Usage { input: 150, output: 0 });
    }

    #[test]
    fn f4_3_exec_limit_reports_reset_time() {
        let line = r#"{"type":"turn.failed","error":{"message":"You've hit your usage limit. Try again in 5s."}}"#;
        let mut exec = exec(None);
        let until = |exec: &mut ExecProtocol| match exec.read(line.as_bytes()) {
            Some(StreamSignal::TurnEnded { end: TurnEnd::Limited { until_ms, .. }, .. }) => {
                until_ms
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(until(&mut exec), None, "five seconds from when?");
        exec.set_clock(1_000);
        assert_eq!(until(&mut exec), Some(6_000));
    }

    #[test]
    fn error_line_does_not_end_turn() {
        let mut exec = exec(None);
        let retried = exec.read(br#"{"type":"error","message":"Reconnecting... 1/3"}"#);
        assert!(matches!(retried, Some(StreamSignal::Retrying { .. })));
        assert_eq!(exec.read(br#"{"type":"error","message":"bad"}"#), None);
        assert_eq!(exec.read(br#"{"type":"item.completed","item":{"type":"error"}}"#), None);
    }
}
