//! Messages to the app-server.

use std::collections::BTreeMap;

use provost_core::{
    request::{Asked, Reply, RequestKind, Scope},
    session::MessageKind,
};
use serde_json::{Value, json};

use super::talk::{THREAD, Talk, answer, message};

const APPROVALS: [Reply; 3] =
    [Reply::Approve(Scope::Once), Reply::Approve(Scope::Session), Reply::Deny];

fn asked(method: &str, params: Value) -> Asked {
    Talk::opened().asked(json!(4), method, params)
}

fn questions(ids: &[&str]) -> Asked {
    let questions: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "question": format!("{id}?")})).collect();
    asked("item/tool/requestUserInput", json!({"itemId": "i", "questions": questions}))
}

fn text(words: &str) -> Reply {
    Reply::Text(words.to_owned())
}

#[test]
fn a_message_is_a_turn_that_carries_its_key() {
    let kinds =
        [MessageKind::Instruction, MessageKind::Steer, MessageKind::Rework, MessageKind::Continue];
    for kind in kinds {
        let line = message(kind, "do\nit").unwrap();
        assert_eq!(line["method"], "turn/start");
        assert_eq!(line["params"]["threadId"], THREAD);
        assert_eq!(line["params"]["clientUserMessageId"], "key-1");
        assert_eq!(line["params"]["input"], json!([{"type": "text", "text": "do\nit"}]));
    }
    assert_eq!(message(MessageKind::Answer, "to nothing"), None);
}

#[test]
fn an_approval_is_never_a_rule_in_the_home_of_codex() {
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
fn r3_the_answer_to_a_single_question_is_any_text() {
    for words in ["Blue", "{\"answers\":{}}", "", "two\nlines", "\u{1b}[31m"] {
        let line = answer(&questions(&["color"]), &text(words), true).unwrap();
        assert_eq!(line, json!({"id": 4, "result": {"answers": {"color": {"answers": [words]}}}}));
    }
}

#[test]
fn r2_several_questions_are_answered_by_their_ids() {
    let asked = questions(&["a", "b"]);
    let given = BTreeMap::from([
        ("a".to_owned(), vec!["1".to_owned()]),
        ("b".to_owned(), vec!["2".to_owned(), "3".to_owned()]),
    ]);
    let line = answer(&asked, &Reply::Answers(given), true).unwrap();
    let answers = json!({"a": {"answers": ["1"]}, "b": {"answers": ["2", "3"]}});
    assert_eq!(line["result"], json!({"answers": answers}));
    assert_eq!(answer(&asked, &text("for which?"), true), None);
}

#[test]
fn a_tool_that_asked_gets_the_answer_as_its_output() {
    let arguments = json!({"question": "which?"});
    let params = json!({"callId": "c", "tool": "provost_ask", "arguments": arguments});
    let line = answer(&asked("item/tool/call", params), &text("{this}"), true).unwrap();
    let output = json!([{"type": "inputText", "text": "{this}"}]);
    assert_eq!(line, json!({"id": 4, "result": {"contentItems": output, "success": true}}));
}

#[test]
fn approvals_of_mcp_servers_and_of_permissions_have_their_own_forms() {
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
fn e17_an_answer_for_one_that_died_is_told_to_the_next_with_its_question() {
    let line = answer(&questions(&["color"]), &text("Blue"), false).unwrap();
    let said = line["params"]["input"][0]["text"].as_str().unwrap();
    assert_eq!(line["method"], "turn/start");
    assert_eq!(said, "You asked: color?\nThe answer: Blue");
    let approval =
        asked("item/commandExecution/requestApproval", json!({"itemId": "i", "command": "ls"}));
    for (reply, told) in [(&APPROVALS[0], "again"), (&APPROVALS[2], "denied")] {
        let line = answer(&approval, reply, false).unwrap();
        let said = line["params"]["input"][0]["text"].as_str().unwrap();
        assert!(said.contains("run ls") && said.contains(told), "{said}");
    }
}

#[test]
fn a_question_beside_the_work_is_answered_in_words_by_a_living_agent_too() {
    let asked = Asked { native: "async:call".to_owned(), ..questions(&["1", "2"]) };
    let given = [("1", "x"), ("2", "y")].map(|(id, a)| (id.to_owned(), vec![a.to_owned()]));
    let line = answer(&asked, &Reply::Answers(BTreeMap::from(given)), true).unwrap();
    let said = line["params"]["input"][0]["text"].as_str().unwrap();
    assert_eq!(said, "You asked: 1?\nThe answer: x\n\nYou asked: 2?\nThe answer: y");
}

#[test]
fn what_does_not_fit_cannot_be_said() {
    let question = questions(&["a"]);
    assert_eq!(question.kind, RequestKind::Question);
    assert_eq!(answer(&question, &Reply::Deny, true), None);
    let stranger = Asked { native: "q1".to_owned(), ..question };
    assert_eq!(answer(&stranger, &text("x"), true), None);
}
