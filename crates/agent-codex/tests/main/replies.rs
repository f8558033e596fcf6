//! Messages to the app-server.

use std::collections::BTreeMap;

use provost_core::{
    request::{AgentRequest, ApprovalScope, RequestKind, RequestReply},
    session::AgentMessageKind,
};
use serde_json::{Value, json};

use super::talk::{ServerHarness, THREAD, answer, message};

const APPROVALS: [RequestReply; 3] = [
    RequestReply::Approve(ApprovalScope::Once),
    RequestReply::Approve(ApprovalScope::Session),
    RequestReply::Deny,
];

fn asked(method: &str, params: Value) -> AgentRequest {
    ServerHarness::opened().expect_request(json!(4), method, params)
}

fn questions(ids: &[&str]) -> AgentRequest {
    let questions: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "question": format!("{id}?")})).collect();
    asked("item/tool/requestUserInput", json!({"itemId": "i", "questions": questions}))
}

fn text(words: &str) -> RequestReply {
    RequestReply::Text(words.to_owned())
}

#[test]
fn a_message_is_a_turn_that_carries_its_key() {
    let kinds = [
        AgentMessageKind::Instruction,
        AgentMessageKind::Steer,
        AgentMessageKind::Rework,
        AgentMessageKind::Continue,
    ];
    for kind in kinds {
        let line = message(kind, "do\nit").unwrap();
        assert_eq!(line["method"], "turn/start");
        assert_eq!(line["params"]["threadId"], THREAD);
        assert_eq!(line["params"]["clientUserMessageId"], "key-1");
        assert_eq!(line["params"]["input"], json!([{"type": "text", "text": "do\nit"}]));
    }
    assert_eq!(message(AgentMessageKind::Answer, "to nothing"), None);
}

#[test]
fn approval_writes_no_codex_rule() {
    for method in ["item/commandExecution/requestApproval", "item/fileChange/requestApproval"] {
        let asked = asked(
            method,
            json!({"itemId": "i", "command": "touch x",
            "proposedExecpolicyAmendment": ["touch"],
            "availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {}}, "cancel"]}),
        );
        let given = APPROVALS.map(|reply| answer(&asked, &reply, true).unwrap());
        let decision = |word: &str| json!({"id": 4, "result": {"decision": word}});
        assert_eq!(given, ["accept", "acceptForSession", "decline"].map(decision));
    }
}

#[test]
fn r3_single_question_takes_any_text() {
    for words in ["Blue", "{\"answers\":{}}", "", "two\nlines", "\u{1b}[31m"] {
        let line = answer(&questions(&["color"]), &text(words), true).unwrap();
        assert_eq!(line, json!({"id": 4, "result": {"answers": {"color": {"answers": [words]}}}}));
    }
}

#[test]
fn r2_questions_are_answered_by_id() {
    let asked = questions(&["a", "b"]);
    let given = BTreeMap::from([
        ("a".to_owned(), vec!["1".to_owned()]),
        ("b".to_owned(), vec!["2".to_owned(), "3".to_owned()]),
    ]);
    let line = answer(&asked, &RequestReply::Answers(given), true).unwrap();
    let answers = json!({"a": {"answers": ["1"]}, "b": {"answers": ["2", "3"]}});
    assert_eq!(line["result"], json!({"answers": answers}));
    assert_eq!(answer(&asked, &text("for which?"), true), None);
}

#[test]
fn ask_tool_gets_answer_as_output() {
    let arguments = json!({"question": "which?"});
    let params = json!({"callId": "c", "tool": "provost_ask", "arguments": arguments});
    let line = answer(&asked("item/tool/call", params), &text("{this}"), true).unwrap();
    let output = json!([{"type": "inputText", "text": "{this}"}]);
    assert_eq!(line, json!({"id": 4, "result": {"contentItems": output, "success": true}}));
}

#[test]
fn mcp_and_permission_approvals_are_encoded() {
    let elicited = asked("mcpServer/elicitation/request", json!({"mode": "form", "message": "m"}));
    let given = APPROVALS.map(|reply| answer(&elicited, &reply, true).unwrap()["result"].clone());
    assert_eq!(given[0], json!({"action": "accept", "content": {}}));
    assert_eq!(given[1]["_meta"], json!({"persist": "session"}));
    assert_eq!(given[2], json!({"action": "decline"}));
    let wanted = json!({"fileSystem": {"write": ["/x"]}});
    let wider = asked("item/permissions/requestApproval", json!({"permissions": wanted}));
    assert_eq!(wider.subject.as_ref().unwrap().paths, ["/x"]);
    let given = APPROVALS.map(|reply| answer(&wider, &reply, true).unwrap()["result"].clone());
    assert_eq!(given[0], json!({"permissions": wanted, "scope": "turn"}));
    assert_eq!(given[1]["scope"], "session");
    assert_eq!(given[2], json!({"permissions": {}}));
}

#[test]
fn e17_late_answer_includes_its_question() {
    let line = answer(&questions(&["color"]), &text("Blue"), false).unwrap();
    let text = line["params"]["input"][0]["text"].as_str().unwrap();
    assert_eq!(line["method"], "turn/start");
    assert_eq!(text, "You asked: color?\nThe answer: Blue");
    let approval =
        asked("item/commandExecution/requestApproval", json!({"itemId": "i", "command": "ls"}));
    for (reply, part) in [(&APPROVALS[0], "again"), (&APPROVALS[2], "denied")] {
        let line = answer(&approval, reply, false).unwrap();
        let text = line["params"]["input"][0]["text"].as_str().unwrap();
        assert!(text.contains("run ls") && text.contains(part), "{text}");
    }
}

#[test]
fn message_question_is_answered_as_text() {
    let asked = AgentRequest { native: "async:call".to_owned(), ..questions(&["1", "2"]) };
    let given = [("1", "x"), ("2", "y")].map(|(id, a)| (id.to_owned(), vec![a.to_owned()]));
    let line = answer(&asked, &RequestReply::Answers(BTreeMap::from(given)), true).unwrap();
    let text = line["params"]["input"][0]["text"].as_str().unwrap();
    assert_eq!(text, "You asked: 1?\nThe answer: x\n\nYou asked: 2?\nThe answer: y");
}

#[test]
fn mismatched_reply_is_not_encoded() {
    let question = questions(&["a"]);
    assert_eq!(question.kind, RequestKind::Question);
    assert_eq!(answer(&question, &RequestReply::Deny, true), None);
    let stranger = AgentRequest { native: "q1".to_owned(), ..question };
    assert_eq!(answer(&stranger, &text("x"), true), None);
}
