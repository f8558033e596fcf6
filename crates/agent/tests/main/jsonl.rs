//! The protocol of agents that use JSON lines.

use provost_agent::{
    AgentInput, Protocol as _,
    command::{self, CommandProtocol},
    jsonl::{self, JsonlProtocol},
};
use provost_core::{
    lifecycle::ClaimKind,
    result::ResultForm,
    session::{AgentMessageKind, ReportBody, StreamSignal, TurnEnd},
};

fn read(line: &str) -> Option<StreamSignal> {
    JsonlProtocol.read(line.as_bytes())
}

#[test]
fn only_known_ok_status_ends_turn_well() {
    let end = |line| match read(line) {
        Some(StreamSignal::TurnEnded { end, .. }) => end,
        other => panic!("{other:?}"),
    };
    assert_eq!(end(r#"{"type":"turn_ended","status":"ok"}"#), TurnEnd::Ok);
    assert_eq!(end(r#"{"type":"turn_ended","status":"interrupted"}"#), TurnEnd::Interrupted);
    for line in [
        r#"{"type":"turn_ended","status":"error","error":"x"}"#,
        r#"{"type":"turn_ended","status":"success"}"#,
        r#"{"type":"turn_ended"}"#,
    ] {
        assert!(matches!(end(line), TurnEnd::Error(_)), "{line}");
    }
    let answers = r#"{"type":"turn_ended","status":"ok","text":"it is done"}"#;
    let says = Some("it is done".to_owned());
    let ended = StreamSignal::TurnEnded { turn: None, end: TurnEnd::Ok, usage: None, says };
    assert_eq!(read(answers), Some(ended));
}

#[test]
fn non_message_lines_are_output() {
    for line in [
        "",
        "tokens used: 5",
        "{\"type\":\"done\"}",
        "{\"type\":\"claim\"}",
        "{\"type\":\"claim\",\"claim\":\"finished\"}",
        "{\"type\":\"claim\",\"claim\":\"none\"}",
        "{\"type\":\"claim\",\"claim\":\"completed\",\"launch\":\"x.l1\",\"token\":\"t\"}",
        "{\"type\":\"fact\",\"fact\":\"state\",\"value\":\"succeeded\"}",
        "{not json}",
        "[{\"type\":\"claim\",\"claim\":\"completed\"}]",
    ] {
        assert_eq!(read(line), None, "{line}");
    }
    assert_eq!(JsonlProtocol.read(b"\xff\xfe{"), None);
    assert_eq!(CommandProtocol.read(br#"{"type":"claim","claim":"completed"}"#), None);
}

#[test]
fn a_claim_is_testimony() {
    let signal = read(r#"{"type":"claim","claim":"completed","text":"all done"}"#);
    let kind = ClaimKind::Completed;
    let text = Some("all done".to_owned());
    assert_eq!(signal, Some(StreamSignal::Reported(ReportBody::Claim { kind, text })));
}

#[test]
fn encoded_message_is_one_line() {
    let text = "two\nlines \u{1b}[31m and \"quotes\"";
    let kind = AgentMessageKind::Instruction;
    let message = AgentInput::Message {
        key: "k",
        kind,
        text,
        thread: None,
        answer: None,
        form: ResultForm::Plain,
    };
    let bytes = jsonl::encode(&message).unwrap();
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 1);
    let back: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (&back["type"], &back["key"], &back["text"]),
        (&"instruction".into(), &"k".into(), &text.into())
    );
    assert_eq!(command::encode(&message), None);
}
