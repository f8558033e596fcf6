//! The protocol of the toy agent: one line per message, which begins with a verb.

use provost_agent::{AgentInput, Protocol};
use provost_core::{
    lifecycle::ClaimKind,
    request::{AgentRequest, BlockingMode, RequestKind, RequestQuestion, RequestReply},
    session::{AgentMessageKind, ReportBody, StreamSignal, TurnEnd},
};

/// The protocol has no state, because each line is a complete message.
#[derive(Debug)]
pub(crate) struct ToyProtocol;

impl Protocol for ToyProtocol {
    fn read(&mut self, line: &[u8]) -> Option<StreamSignal> {
        let line = std::str::from_utf8(line).ok()?.trim_end();
        let (verb, rest) = split(line);
        match verb {
            "hello" => Some(StreamSignal::Ready { thread: Some(rest.to_owned()) }),
            "begin" => Some(StreamSignal::TurnStarted { turn: Some(rest.to_owned()) }),
            "ask" => Some(StreamSignal::RequestOpened(question(rest))),
            "done" => Some(StreamSignal::Reported(ReportBody::Claim {
                kind: ClaimKind::Completed,
                text: Some(rest.to_owned()),
            })),
            "end" => {
                let (turn, says) = split(rest);
                Some(StreamSignal::TurnEnded {
                    turn: Some(turn.to_owned()),
                    end: TurnEnd::Ok,
                    usage: None,
                    says: Some(says.to_owned()),
                })
            }
            _ => None,
        }
    }
}

/// Encodes a message to the agent. It knows no tools, and cannot be steered or compacted.
pub(crate) fn encode(input: &AgentInput<'_>) -> Option<Vec<u8>> {
    let line = match input {
        AgentInput::Message { answer: Some(answer), .. } => {
            let text = match answer.reply {
                RequestReply::Text(text) => text,
                RequestReply::Answers(_) | RequestReply::Approve(_) | RequestReply::Deny => {
                    return None;
                }
            };
            format!("reply {} {}", answer.asked.native, one_line(text))
        }
        AgentInput::Message { kind: AgentMessageKind::Instruction, text, .. } => {
            format!("do {}", one_line(text))
        }
        AgentInput::Message { .. } | AgentInput::ToolResult { .. } => return None,
        AgentInput::Interrupt { .. } => "stop".to_owned(),
    };
    Some(format!("{line}\n").into_bytes())
}

/// Renders a line of the agent's output as text.
pub(crate) fn render(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line.trim_ascii_end()).into_owned();
    match split(&line) {
        ("said", text) => Some(text.to_owned()),
        ("hello" | "begin" | "ask" | "done" | "end", _) => None,
        _ => Some(line),
    }
}

fn question(text: &str) -> AgentRequest {
    let (native, question) = split(text);
    let question = RequestQuestion {
        id: "answer".to_owned(),
        header: String::new(),
        question: question.to_owned(),
        options: Vec::new(),
        only_options: false,
        secret: false,
    };
    AgentRequest {
        native: native.to_owned(),
        kind: RequestKind::Question,
        waiting: BlockingMode::Blocking,
        title: question.question.clone(),
        questions: vec![question],
        subject: None,
    }
}

fn split(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_lines_are_plain_output() {
        assert_eq!(ToyProtocol.read(b"beginning"), None);
        assert_eq!(ToyProtocol.read(b"\xff"), None);
        assert_eq!(render(b"said hi\n").as_deref(), Some("hi"));
        assert_eq!(render(b"begin 1\n"), None);
        assert_eq!(render(b"hm\n").as_deref(), Some("hm"));
    }
}
