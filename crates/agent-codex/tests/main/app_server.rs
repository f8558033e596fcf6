//! The app-server's protocol, rule by rule.

use provost_agent::{AgentInput, ConversationOptions};
use provost_agent_codex::protocol::CAPABILITIES;
use provost_core::{
    lifecycle::ClaimKind,
    request::{BlockingMode, RequestKind},
    session::{
        AgentMessageKind, AgentSettings, Progress, ReportBody, Sandbox, StreamSignal, TurnEnd,
    },
};
use serde_json::{Value, json};

use super::talk::{METHODS, ServerHarness, THREAD, encoded, message, opening};

#[test]
fn e21_thread_is_reported_once_known() {
    let mut talk = ServerHarness::opened();
    assert_eq!(talk.take_writes(), []);
}

#[test]
fn e22_new_and_resumed_thread_get_settings() {
    let given = |thread: Option<&str>| {
        let settings = AgentSettings {
            sandbox: Sandbox::ReadOnly,
            model: Some("m".to_owned()),
            effort: Some("low".to_owned()),
            network: true,
            ..AgentSettings::default()
        };
        let thread = thread.map(str::to_owned);
        let mut talk = ServerHarness::new(ConversationOptions {
            cwd: "/repo".to_owned(),
            settings,
            thread,
            zone: None,
        });
        talk.handshake("0.166.0", METHODS);
        talk.take_only_write()
    };
    for (thread, method) in [(None, "thread/start"), (Some("t"), "thread/resume")] {
        let line = given(thread);
        let params = &line["params"];
        assert_eq!(line["method"], method);
        assert_eq!(params["sandbox"], "read-only");
        assert_eq!(params["approvalPolicy"], "on-request");
        assert_eq!((&params["cwd"], &params["model"]), (&json!("/repo"), &json!("m")));
        assert_eq!(params["config"]["model_reasoning_effort"], "low");
        assert_eq!(params["config"]["sandbox_workspace_write.network_access"], true);
        assert_eq!(params["dynamicTools"].is_array(), thread.is_none());
    }
    assert_eq!(given(Some("t"))["params"]["threadId"], "t");
}

#[test]
fn r20_version_below_floor_is_refused() {
    for version in ["0.106.9", "0.63.0", "0.0.0"] {
        let mut talk = ServerHarness::new(opening());
        let Some(StreamSignal::Refused { reason }) = talk.handshake(version, METHODS) else {
            panic!()
        };
        assert!(reason.contains(version), "{reason}");
        assert_eq!(talk.take_writes(), []);
        assert_eq!(talk.turn_starts(), None);
    }
}

#[test]
fn r20_server_without_required_method_is_refused() {
    for method in ["thread/start", "thread/resume", "turn/start", "turn/interrupt"] {
        let mut talk = ServerHarness::new(opening());
        let methods = METHODS.replace(&format!("`{method}`"), "`x`");
        let Some(StreamSignal::Refused { reason }) = talk.handshake("0.166.0", &methods) else {
            panic!()
        };
        assert!(reason.contains(method), "{reason}");
        assert_eq!(talk.take_writes(), []);
    }
}

#[test]
fn r20_missing_capabilities_warn_once() {
    let mut talk = ServerHarness::new(opening());
    let Some(StreamSignal::Warned { text }) = talk.handshake("0.107.0", METHODS) else { panic!() };
    assert!(text.contains("0.107.0") && text.contains("keyed messages"), "{text}");
    assert_eq!(talk.take_only_write()["method"], "thread/start");
}

#[test]
fn r20_the_table_is_documented_by_itself() {
    let table: Vec<String> = CAPABILITIES
        .iter()
        .map(|c| format!("{} | {:?} | {:?}", c.name, c.probe, c.if_missing))
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn refused_thread_error_shows_request() {
    let mut talk = ServerHarness::new(opening());
    talk.handshake("0.166.0", METHODS);
    let refused = talk.receive(json!({"id": "p:thread", "error": {"message": "no such model"}}));
    let Some(StreamSignal::Refused { reason }) = refused else { panic!() };
    for part in ["0.166.0", "thread/start", "workspace-write", "on-request", "no such model"] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn wrong_resumed_thread_is_refused() {
    let mut talk =
        ServerHarness::new(ConversationOptions { thread: Some("mine".to_owned()), ..opening() });
    talk.handshake("0.166.0", METHODS);
    let opened = talk.receive(json!({"id": "p:thread", "result": {"thread": {"id": "other"}}}));
    assert!(matches!(opened, Some(StreamSignal::Refused { .. })));
}

#[test]
fn only_root_thread_turns_count() {
    let mut talk = ServerHarness::opened();
    let turn = || Some("turn-1".to_owned());
    assert_eq!(talk.turn_starts(), Some(StreamSignal::TurnStarted { turn: turn() }));
    let ended = StreamSignal::TurnEnded { turn: turn(), end: TurnEnd::Ok, usage: None, says: None };
    let of_child =
        |status: &str| json!({"threadId": "child", "turn": {"id": "c", "status": status}});
    assert_eq!(talk.note("turn/started", of_child("inProgress")), None);
    assert_eq!(talk.note("turn/completed", of_child("failed")), None);
    assert_eq!(talk.turn_ends("completed"), Some(ended));
}

#[test]
fn turn_end_has_last_answer() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let mut says = |thread: &str, text: &str, phase: &str| {
        let item = json!({"type": "agentMessage", "id": "m", "text": text, "phase": phase});
        let params = json!({"threadId": thread, "turnId": "turn-1", "item": item});
        assert_eq!(talk.note("item/completed", params), None);
    };
    says(THREAD, "I begin.", "commentary");
    says(THREAD, "It is written.", "final_answer");
    says("child", "A helper says this.", "final_answer");
    says(THREAD, "I tidy up.", "commentary");
    let says = |ended: Option<StreamSignal>| match ended {
        Some(StreamSignal::TurnEnded { says, .. }) => says,
        other => panic!("{other:?}"),
    };
    assert_eq!(says(talk.turn_ends("completed")).as_deref(), Some("It is written."));
    talk.turn_starts();
    assert_eq!(says(talk.turn_ends("completed")), None, "nothing was said in this one");
}

#[test]
fn r9_unknown_turn_status_is_an_error() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let Some(StreamSignal::TurnEnded { end, .. }) = talk.turn_ends("splendid") else { panic!() };
    assert!(matches!(end, TurnEnd::Error(text) if text.contains("splendid")));
}

#[test]
fn retried_error_does_not_end_turn() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let error = |retry: bool| {
        let error = json!({"message": "Reconnecting... 1/3", "additionalDetails": "lost"});
        json!({"threadId": THREAD, "turnId": "turn-1", "willRetry": retry, "error": error})
    };
    let detail = "Reconnecting... 1/3 (lost)".to_owned();
    assert_eq!(talk.note("error", error(true)), Some(StreamSignal::Retrying { detail }));
    assert_eq!(talk.note("error", error(false)), None);
    let broken = json!({"threadId": THREAD, "status": {"type": "systemError"}});
    assert_eq!(talk.note("thread/status/changed", broken), None);
}

#[test]
fn r16_result_counts_only_in_requested_turn() {
    let mut talk = ServerHarness::opened();
    let asked = message(AgentMessageKind::ResultWanted, "").unwrap();
    assert_eq!(asked["params"]["outputSchema"]["additionalProperties"], false);
    assert_eq!(says_completed(&mut talk, "turn-0"), None);
    let turn = json!({"turn": {"id": "turn-1", "status": "inProgress"}});
    assert_eq!(talk.receive(json!({"id": asked["id"], "result": turn})), None);
    assert_eq!(says_completed(&mut talk, "turn-0"), None);
    let text = Some("s".to_owned());
    let claim = ReportBody::Claim { kind: ClaimKind::Completed, text };
    assert_eq!(says_completed(&mut talk, "turn-1"), Some(StreamSignal::Reported(claim)));
}

fn says_completed(talk: &mut ServerHarness, turn: &str) -> Option<StreamSignal> {
    let text = r#"{"status":"completed","summary":"s"}"#;
    let item = json!({"type": "agentMessage", "id": "m", "text": text, "phase": "final_answer"});
    talk.note("item/completed", json!({"threadId": THREAD, "turnId": turn, "item": item}))
}

#[test]
fn f4_2_refused_message_does_not_end_turn() {
    let refusal = |key: &str, why: &str| json!({"id": key, "error": {"message": why}});
    let refused = |key: &str, why: &str, busy| {
        let (key, reason) = (key.to_owned(), why.to_owned());
        Some(StreamSignal::MessageRefused { key, reason, busy })
    };
    let mut talk = ServerHarness::opened();
    let unknown = refusal("m:instruction-1", "thread not found");
    let signal = talk.receive(unknown.clone());
    assert_eq!(signal, refused("instruction-1", "thread not found", false));
    let why = "failed to submit turn input: ActiveTurnOutputSchemaMismatch";
    let signal = talk.receive(refusal("r:result-1-0", why));
    assert_eq!(signal, refused("result-1-0", why, true), "the turn has yet to be seen");
    talk.turn_starts();
    assert_eq!(talk.receive(unknown), refused("instruction-1", "thread not found", true));
}

#[test]
fn f4_2_no_cleanup_between_goal_turns() {
    let mut talk = ServerHarness::opened();
    let goal = |status: &str| json!({"threadId": THREAD, "goal": {"status": status}});
    let over = json!({"threadId": THREAD, "turn": {"id": "turn-1", "status": "completed"}});
    assert_eq!(talk.note("thread/goal/cleared", json!({"threadId": THREAD})), None);
    talk.turn_starts();
    let signal = talk.note("thread/goal/updated", goal("active"));
    assert_eq!(signal, Some(StreamSignal::Goal { active: true }));
    let ended = talk.note("turn/completed", over.clone());
    assert!(matches!(ended, Some(StreamSignal::TurnEnded { end: TurnEnd::Ok, .. })), "{ended:?}");
    talk.turn_starts();
    let signal = talk.note("thread/goal/updated", goal("complete"));
    assert_eq!(signal, Some(StreamSignal::Goal { active: false }));
    assert_eq!(talk.note("turn/completed", over), None, "it is held back until it is cleaned");
    assert_eq!(talk.take_only_write()["method"], "thread/backgroundTerminals/clean");
}

#[test]
fn interrupt_cleans_background_terminals() {
    let interrupt = |turn| AgentInput::Interrupt { key: "interrupt-1", thread: Some(THREAD), turn };
    let line = encoded(&interrupt(Some("turn-1"))).unwrap();
    assert_eq!(line["params"], json!({"threadId": THREAD, "turnId": "turn-1"}));
    assert_eq!(encoded(&interrupt(None)), None);
    for outcome in [json!({"result": {}}), json!({"error": {"message": "no active turn"}})] {
        let mut talk = ServerHarness::opened();
        let mut answer = outcome;
        answer["id"] = line["id"].clone();
        assert_eq!(talk.receive(answer), None);
        assert_eq!(talk.take_only_write()["method"], "thread/backgroundTerminals/clean");
    }
}

#[test]
fn turn_end_waits_for_cleanup() {
    let mut talk = ServerHarness::opened();
    let completes = |talk: &mut ServerHarness, thread: &str, turn: &str| {
        let turn = json!({"id": turn, "status": "completed", "error": null});
        talk.note("turn/completed", json!({"threadId": thread, "turn": turn}))
    };
    talk.turn_starts();
    assert_eq!(completes(&mut talk, "sub-agent", "turn-9"), None);
    assert_eq!(completes(&mut talk, THREAD, "turn-1"), None);
    let cleans = talk.take_writes();
    let threads: Vec<&Value> = cleans.iter().map(|(_, line)| &line["params"]["threadId"]).collect();
    assert_eq!(threads, ["sub-agent", THREAD], "sub-agents leave things running, too");
    let answer = |at: usize| json!({"id": cleans[at].0, "error": {"message": "no such thread"}});
    assert_eq!(talk.receive(answer(0)), None);
    let turn = Some("turn-1".to_owned());
    let ended = Some(StreamSignal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None });
    assert_eq!(talk.receive(answer(1)), ended, "whether there was anything to end or not");
    assert_eq!(talk.receive(answer(1)), None, "once");
}

#[test]
fn turn_before_cleanup_answer_keeps_order() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let turn = json!({"id": "turn-1", "status": "completed", "error": null});
    assert_eq!(talk.note("turn/completed", json!({"threadId": THREAD, "turn": turn})), None);
    let next = json!({"threadId": THREAD, "turn": {"id": "turn-2"}});
    let ended = talk.note("turn/started", next);
    assert!(matches!(ended, Some(StreamSignal::TurnEnded { .. })), "{ended:?}");
    let begun = talk.answer_cleanup();
    assert_eq!(begun, Some(StreamSignal::TurnStarted { turn: Some("turn-2".to_owned()) }));
}

#[test]
fn server_without_cleanup_gets_no_request() {
    let mut talk = ServerHarness::new(opening());
    talk.handshake("0.166.0", &METHODS.replace("/clean", "/x"));
    talk.receive(json!({"id": "p:thread", "result": {"thread": {"id": THREAD}}}));
    talk.take_writes();
    talk.receive(json!({"id": "i:interrupt-1", "result": {}}));
    talk.turn_starts();
    let turn = json!({"id": "turn-1", "status": "completed", "error": null});
    let ended = talk.note("turn/completed", json!({"threadId": THREAD, "turn": turn}));
    assert!(matches!(ended, Some(StreamSignal::TurnEnded { .. })), "its turn ends at once");
    assert_eq!(talk.take_writes(), []);
}

#[test]
fn main_agent_tool_reports_are_answered() {
    let mut talk = ServerHarness::opened();
    let call =
        |tool: &str, arguments: Value| json!({"callId": "c", "tool": tool, "arguments": arguments});
    let done = json!({"status": "completed", "summary": "s"});
    let signal =
        talk.send_request(json!(0), "item/tool/call", call("provost_report", done.clone()));
    assert!(matches!(signal, Some(StreamSignal::Reported(ReportBody::Claim { .. }))));
    let reply = talk.take_only_write();
    assert_eq!((&reply["id"], &reply["result"]["success"]), (&json!(0), &json!(true)));
    let step = call("provost_progress", json!({"done": 1, "total": 2}));
    let signal = talk.send_request(json!(1), "item/tool/call", step);
    assert_eq!(signal, Some(StreamSignal::Progress(Progress { done: 1, total: 2 })));
    assert_eq!(talk.take_only_write()["id"], 1);
    for (tool, arguments) in [("provost_report", json!({})), ("other", done.clone())] {
        assert_eq!(talk.send_request(json!(2), "item/tool/call", call(tool, arguments)), None);
        assert_eq!(talk.take_only_write()["result"]["success"], false);
    }
    let mut of_child = call("provost_report", done);
    of_child["threadId"] = json!("child");
    let line = json!({"id": 3, "method": "item/tool/call", "params": of_child});
    assert_eq!(talk.receive(line), None);
    assert_eq!(talk.take_only_write()["result"]["success"], false);
}

#[test]
fn e14_every_request_is_answered() {
    let mut talk = ServerHarness::opened();
    let cases = [
        ("currentTime/read", json!({})),
        ("item/commandExecution/requestApproval", json!({})),
        ("item/fileChange/requestApproval", json!({})),
        ("item/tool/requestUserInput", json!({"questions": []})),
        ("item/tool/requestUserInput", json!({"questions": [{"question": "no id"}]})),
        (
            "item/tool/requestUserInput",
            json!({"questions": [
            {"id": "a", "question": "1"}, {"id": "a", "question": "2"}]}),
        ),
        ("item/permissions/requestApproval", json!({"permissions": {"microphone": true}})),
        ("mcpServer/elicitation/request", json!({"mode": "hologram"})),
    ];
    for (no, (method, params)) in cases.into_iter().enumerate() {
        assert_eq!(talk.send_request(json!(no), method, params.clone()), None, "{method} {params}");
        let refusal = talk.take_only_write();
        assert_eq!(refusal["id"], no, "{method}");
        assert!(refusal["error"]["message"].is_string(), "{method}");
    }
}

#[test]
fn e15_requests_over_limit_are_refused() {
    let mut talk = ServerHarness::opened();
    let ask = |talk: &mut ServerHarness, no: u64| {
        let params = json!({"itemId": format!("i{no}"), "command": format!("c{no}")});
        talk.send_request(json!(no), "item/commandExecution/requestApproval", params)
    };
    let taken = (0..200).filter(|no| ask(&mut talk, *no).is_some()).count();
    assert_eq!((taken, talk.take_writes().len()), (50, 150));
    let resolved = json!({"threadId": THREAD, "requestId": 0});
    assert!(talk.note("serverRequest/resolved", resolved).is_some());
    assert!(ask(&mut talk, 200).is_some());
    talk.turn_ends("interrupted");
    assert!(ask(&mut talk, 201).is_some());
}

#[test]
fn e15_oversized_request_is_refused() {
    let mut talk = ServerHarness::opened();
    let params = json!({"itemId": "i", "command": "x".repeat(300 << 10)});
    assert_eq!(talk.send_request(json!(0), "item/commandExecution/requestApproval", params), None);
    assert!(talk.take_only_write()["error"].is_object());
}

#[test]
fn e13_question_always_blocks() {
    let mut talk = ServerHarness::opened();
    let questions = json!([{"id": "q", "question": "?", "isSecret": true}]);
    let params = json!({"itemId": "i", "isBlocking": false, "questions": questions});
    let asked = talk.expect_request(json!(0), "item/tool/requestUserInput", params);
    assert_eq!((asked.kind, asked.waiting), (RequestKind::Question, BlockingMode::Blocking));
    assert!(asked.is_secret());
}

#[test]
fn options_only_question_is_marked() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let options = json!([{"label": "Blue", "description": ""}]);
    let question = |id: &str, other: Value, options: &Value| json!({"id": id, "question": "Which?", "isOther": other, "options": options});
    let questions = json!([
        question("free", json!(true), &options),
        question("closed", json!(false), &options),
        question("untold", Value::Null, &options),
        question("nothing", json!(false), &json!([])),
        question("null", json!(false), &Value::Null),
    ]);
    let params = json!({"itemId": "i", "questions": questions});
    let asked = talk.expect_request(json!(7), "item/tool/requestUserInput", params);
    let closed = asked.questions.iter().filter(|question| question.only_options);
    assert_eq!(closed.map(|question| question.id.as_str()).collect::<Vec<_>>(), ["closed"]);
}

#[test]
fn r10_resolved_request_is_withdrawn() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let params = json!({"itemId": "i", "command": "ls"});
    let asked = talk.expect_request(json!(7), "item/commandExecution/requestApproval", params);
    let resolved = json!({"threadId": THREAD, "requestId": 7});
    let withdrawn = Some(StreamSignal::RequestWithdrawn { native: asked.native });
    assert_eq!(talk.note("serverRequest/resolved", resolved.clone()), withdrawn);
    assert_eq!(talk.note("serverRequest/resolved", resolved), None);
}

#[test]
fn r10_ended_turn_withdraws_its_requests() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let native = |talk: &mut ServerHarness, id: u64| {
        let params = json!({"itemId": "i", "command": format!("c{id}")});
        talk.expect_request(json!(id), "item/commandExecution/requestApproval", params).native
    };
    let (first, second) = (native(&mut talk, 1), native(&mut talk, 2));
    let turn = json!({"id": "turn-1", "status": "interrupted", "error": null});
    let completed = talk.note("turn/completed", json!({"threadId": THREAD, "turn": turn}));
    assert_eq!(completed, Some(StreamSignal::RequestWithdrawn { native: first }));
    assert!(matches!(talk.answer_cleanup(), Some(StreamSignal::TurnEnded { .. })));
    let cleaned = talk.receive(json!({"id": "p:clean-1", "result": {}}));
    assert_eq!(cleaned, Some(StreamSignal::RequestWithdrawn { native: second }));
    assert_eq!(talk.receive(json!({"id": "p:clean-1", "result": {}})), None);
}

#[test]
fn message_in_open_turn_starts_no_turn() {
    let mut talk = ServerHarness::opened();
    talk.turn_starts();
    let other = json!({"threadId": THREAD, "turn": {"id": "turn-2"}});
    assert_eq!(talk.note("turn/started", other), None);
    let turn = Some("turn-1".to_owned());
    let ended = StreamSignal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None };
    assert_eq!(talk.turn_ends("completed"), Some(ended));
}

#[test]
fn r10_completed_tool_call_is_withdrawn() {
    let mut talk = ServerHarness::opened();
    let arguments = json!({"question": "which?"});
    let params = json!({"callId": "call-1", "tool": "provost_ask", "arguments": arguments});
    let asked = talk.expect_request(json!(3), "item/tool/call", params);
    let item = json!({"type": "dynamicToolCall", "id": "call-1", "status": "failed"});
    let done =
        talk.note("item/completed", json!({"threadId": THREAD, "turnId": "turn-1", "item": item}));
    assert_eq!(done, Some(StreamSignal::RequestWithdrawn { native: asked.native }));
}

#[test]
fn e17_parallel_requests_have_distinct_tokens() {
    let mut talk = ServerHarness::opened();
    let ask = |talk: &mut ServerHarness, id: Value, command: &str| {
        let params = json!({"itemId": "i", "command": command});
        talk.send_request(id, "item/commandExecution/requestApproval", params)
    };
    let native = |signal: Option<StreamSignal>| match signal {
        Some(StreamSignal::RequestOpened(asked)) => asked.native,
        other => panic!("{other:?}"),
    };
    let first = native(ask(&mut talk, json!(1), "ls"));
    assert_ne!(first, native(ask(&mut talk, json!("1"), "ls")));
    assert_eq!(ask(&mut talk, json!(1), "ls"), None);
    assert_eq!(native(ask(&mut talk, json!(1), "rm -r x")), first);
}

#[test]
fn file_approval_shows_item_diff() {
    let mut talk = ServerHarness::opened();
    let change = json!({"path": "/repo/a", "kind": {"type": "add"}, "diff": "x\n"});
    let item = json!({"type": "fileChange", "id": "f", "changes": [change]});
    let place = json!({"threadId": THREAD, "turnId": "turn-1", "item": item});
    talk.note("item/started", place);
    let params = json!({"itemId": "f", "reason": "why", "grantRoot": "/etc"});
    let asked = talk.expect_request(json!(0), "item/fileChange/requestApproval", params);
    let subject = asked.subject.unwrap();
    assert_eq!(subject.paths, ["/repo/a", "/etc"]);
    assert_eq!(subject.diff.as_deref(), Some("add /repo/a\nx\n"));
    talk.turn_ends("completed");
    let params = json!({"itemId": "f"});
    let unknown =
        talk.expect_request(json!(1), "item/fileChange/requestApproval", params).subject.unwrap();
    assert_eq!((unknown.paths.len(), unknown.diff), (0, None));
}

#[test]
fn extra_permissions_need_more_than_command_rule() {
    let mut talk = ServerHarness::opened();
    let mut subject = |id: u64, mut params: Value| {
        params["itemId"] = json!("i");
        let asked = talk.expect_request(json!(id), "item/commandExecution/requestApproval", params);
        *asked.subject.unwrap()
    };
    let typed = subject(0, json!({"kind": "writeStdin", "command": "ls"}));
    assert_eq!(typed.command, None);
    let more = json!({"network": {"enabled": true}, "fileSystem": {"write": ["/etc"]}});
    let widened = subject(1, json!({"command": "ls", "additionalPermissions": more}));
    assert_eq!(widened.network.as_deref(), Some("*"));
    assert_eq!(widened.paths, ["/etc"]);
    let odd = subject(2, json!({"command": "ls", "additionalPermissions": {"macos": {}}}));
    assert_eq!(odd.network.as_deref(), Some("*"));
    let host = subject(3, json!({"networkApprovalContext": {"host": "example.org"}}));
    assert_eq!(host.network.as_deref(), Some("example.org"));
}

#[test]
fn message_question_does_not_block() {
    let mut talk = ServerHarness::opened();
    let questions =
        json!([{"title": "Which?", "options": ["A"]}, {"title": "Else?", "options": null}]);
    let item = json!({"type": "agentMessage", "id": "call-9", "text": "…", "delivery": "async",
                      "questions": questions});
    let place = json!({"threadId": THREAD, "turnId": "turn-1", "item": item});
    assert_eq!(talk.note("item/started", place.clone()), None);
    let Some(StreamSignal::RequestOpened(asked)) = talk.note("item/completed", place) else {
        panic!()
    };
    assert_eq!((asked.native.as_str(), asked.waiting), ("async:call-9", BlockingMode::NonBlocking));
    assert_eq!(asked.questions.len(), 2);
}
