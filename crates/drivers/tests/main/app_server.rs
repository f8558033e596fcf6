//! The app-server's protocol, rule by rule.

use provost_core::{
    lifecycle::ClaimKind,
    request::{RequestKind, Waiting},
    session::{MessageKind, Progress, Sandbox, Settings, Signal, Testimony, TurnEnd},
};
use provost_drivers::{Opening, Saying, codex::CAPABILITIES};
use serde_json::{Value, json};

use super::talk::{METHODS, THREAD, Talk, message, opening, said};

#[test]
fn e21_the_thread_is_told_as_soon_as_it_is_known() {
    let mut talk = Talk::opened();
    assert_eq!(talk.writes(), []);
}

#[test]
fn e22_the_settings_are_given_to_a_new_and_to_a_resumed_thread() {
    let given = |thread: Option<&str>| {
        let settings = Settings {
            sandbox: Sandbox::ReadOnly,
            model: Some("m".to_owned()),
            effort: Some("low".to_owned()),
            network: true,
            ..Settings::default()
        };
        let thread = thread.map(str::to_owned);
        let mut talk = Talk::new(Opening { cwd: "/repo".to_owned(), settings, thread, zone: None });
        talk.shake("0.166.0", METHODS);
        talk.write()
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
fn r20_a_version_below_the_floor_is_refused_before_any_work() {
    for version in ["0.106.9", "0.63.0", "0.0.0"] {
        let mut talk = Talk::new(opening());
        let Some(Signal::Refused { reason }) = talk.shake(version, METHODS) else { panic!() };
        assert!(reason.contains(version), "{reason}");
        assert_eq!(talk.writes(), []);
        assert_eq!(talk.turn_starts(), None);
    }
}

#[test]
fn r20_a_server_without_what_is_needed_is_refused_before_any_work() {
    for method in ["thread/start", "thread/resume", "turn/start", "turn/interrupt"] {
        let mut talk = Talk::new(opening());
        let methods = METHODS.replace(&format!("`{method}`"), "`x`");
        let Some(Signal::Refused { reason }) = talk.shake("0.166.0", &methods) else { panic!() };
        assert!(reason.contains(method), "{reason}");
        assert_eq!(talk.writes(), []);
    }
}

#[test]
fn r20_what_is_missing_is_told_once_and_the_work_goes_on() {
    let mut talk = Talk::new(opening());
    let Some(Signal::Warned { text }) = talk.shake("0.107.0", METHODS) else { panic!() };
    assert!(text.contains("0.107.0") && text.contains("keyed messages"), "{text}");
    assert_eq!(talk.write()["method"], "thread/start");
}

#[test]
fn r20_the_table_is_documented_by_itself() {
    let table: Vec<String> = CAPABILITIES
        .iter()
        .map(|c| format!("{} | {:?} | {:?}", c.name, c.found, c.without))
        .collect();
    insta::assert_snapshot!(table.join("\n"));
}

#[test]
fn a_refused_thread_is_told_with_what_was_asked_for() {
    let mut talk = Talk::new(opening());
    talk.shake("0.166.0", METHODS);
    let refused = talk.hears(json!({"id": "p:thread", "error": {"message": "no such model"}}));
    let Some(Signal::Refused { reason }) = refused else { panic!() };
    for part in ["0.166.0", "thread/start", "workspace-write", "on-request", "no such model"] {
        assert!(reason.contains(part), "{reason}");
    }
}

#[test]
fn another_thread_than_the_resumed_one_is_refused() {
    let mut talk = Talk::new(Opening { thread: Some("mine".to_owned()), ..opening() });
    talk.shake("0.166.0", METHODS);
    let opened = talk.hears(json!({"id": "p:thread", "result": {"thread": {"id": "other"}}}));
    assert!(matches!(opened, Some(Signal::Refused { .. })));
}

#[test]
fn turns_of_the_session_are_those_of_its_thread_whoever_started_them() {
    let mut talk = Talk::opened();
    let turn = || Some("turn-1".to_owned());
    assert_eq!(talk.turn_starts(), Some(Signal::TurnStarted { turn: turn() }));
    let ended = Signal::TurnEnded { turn: turn(), end: TurnEnd::Ok, usage: None, says: None };
    let of_child =
        |status: &str| json!({"threadId": "child", "turn": {"id": "c", "status": status}});
    assert_eq!(talk.note("turn/started", of_child("inProgress")), None);
    assert_eq!(talk.note("turn/completed", of_child("failed")), None);
    assert_eq!(talk.turn_ends("completed"), Some(ended));
}

#[test]
fn a_turn_ends_with_what_was_said_last_in_it_as_an_answer() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let mut says = |thread: &str, text: &str, phase: &str| {
        let item = json!({"type": "agentMessage", "id": "m", "text": text, "phase": phase});
        let told = json!({"threadId": thread, "turnId": "turn-1", "item": item});
        assert_eq!(talk.note("item/completed", told), None);
    };
    says(THREAD, "I begin.", "commentary");
    says(THREAD, "It is written.", "final_answer");
    says("child", "A helper says this.", "final_answer");
    says(THREAD, "I tidy up.", "commentary");
    let says = |ended: Option<Signal>| match ended {
        Some(Signal::TurnEnded { says, .. }) => says,
        other => panic!("{other:?}"),
    };
    assert_eq!(says(talk.turn_ends("completed")).as_deref(), Some("It is written."));
    talk.turn_starts();
    assert_eq!(says(talk.turn_ends("completed")), None, "nothing was said in this one");
}

#[test]
fn r9_an_unknown_status_of_a_turn_is_an_error() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let Some(Signal::TurnEnded { end, .. }) = talk.turn_ends("splendid") else { panic!() };
    assert!(matches!(end, TurnEnd::Error(told) if told.contains("splendid")));
}

#[test]
fn an_error_that_is_retried_is_no_end() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let error = |retry: bool| {
        let error = json!({"message": "Reconnecting... 1/3", "additionalDetails": "lost"});
        json!({"threadId": THREAD, "turnId": "turn-1", "willRetry": retry, "error": error})
    };
    let detail = "Reconnecting... 1/3 (lost)".to_owned();
    assert_eq!(talk.note("error", error(true)), Some(Signal::Retrying { detail }));
    assert_eq!(talk.note("error", error(false)), None);
    let broken = json!({"threadId": THREAD, "status": {"type": "systemError"}});
    assert_eq!(talk.note("thread/status/changed", broken), None);
}

#[test]
fn r16_a_result_is_asked_for_by_a_schema_and_believed_from_that_turn_alone() {
    let mut talk = Talk::opened();
    let asked = message(MessageKind::ResultWanted, "").unwrap();
    assert_eq!(asked["params"]["outputSchema"]["additionalProperties"], false);
    assert_eq!(says_completed(&mut talk, "turn-0"), None);
    let turn = json!({"turn": {"id": "turn-1", "status": "inProgress"}});
    assert_eq!(talk.hears(json!({"id": asked["id"], "result": turn})), None);
    assert_eq!(says_completed(&mut talk, "turn-0"), None);
    let text = Some("s".to_owned());
    let claim = Testimony::Claim { kind: ClaimKind::Completed, text };
    assert_eq!(says_completed(&mut talk, "turn-1"), Some(Signal::Said(claim)));
}

fn says_completed(talk: &mut Talk, turn: &str) -> Option<Signal> {
    let text = r#"{"status":"completed","summary":"s"}"#;
    let item = json!({"type": "agentMessage", "id": "m", "text": text, "phase": "final_answer"});
    talk.note("item/completed", json!({"threadId": THREAD, "turnId": turn, "item": item}))
}

#[test]
fn f4_2_refused_message_is_no_end_of_a_turn() {
    let refusal = |key: &str, why: &str| json!({"id": key, "error": {"message": why}});
    let refused = |key: &str, why: &str, busy| {
        let (key, reason) = (key.to_owned(), why.to_owned());
        Some(Signal::MessageRefused { key, reason, busy })
    };
    let mut talk = Talk::opened();
    let unknown = refusal("m:instruction-1", "thread not found");
    let told = talk.hears(unknown.clone());
    assert_eq!(told, refused("instruction-1", "thread not found", false));
    let why = "failed to submit turn input: ActiveTurnOutputSchemaMismatch";
    let told = talk.hears(refusal("r:result-1-0", why));
    assert_eq!(told, refused("result-1-0", why, true), "the turn has yet to be seen");
    talk.turn_starts();
    assert_eq!(talk.hears(unknown), refused("instruction-1", "thread not found", true));
}

#[test]
fn f4_2_between_turns_of_a_goal_nothing_is_cleaned() {
    let mut talk = Talk::opened();
    let goal = |status: &str| json!({"threadId": THREAD, "goal": {"status": status}});
    let over = json!({"threadId": THREAD, "turn": {"id": "turn-1", "status": "completed"}});
    assert_eq!(talk.note("thread/goal/cleared", json!({"threadId": THREAD})), None);
    talk.turn_starts();
    let told = talk.note("thread/goal/updated", goal("active"));
    assert_eq!(told, Some(Signal::Goal { active: true }));
    let ended = talk.note("turn/completed", over.clone());
    assert!(matches!(ended, Some(Signal::TurnEnded { end: TurnEnd::Ok, .. })), "{ended:?}");
    talk.turn_starts();
    let told = talk.note("thread/goal/updated", goal("complete"));
    assert_eq!(told, Some(Signal::Goal { active: false }));
    assert_eq!(talk.note("turn/completed", over), None, "it is held back until it is cleaned");
    assert_eq!(talk.write()["method"], "thread/backgroundTerminals/clean");
}

#[test]
fn an_interrupt_is_followed_by_the_cleaning_of_background_terminals() {
    let interrupt = |turn| Saying::Interrupt { key: "interrupt-1", thread: Some(THREAD), turn };
    let line = said(&interrupt(Some("turn-1"))).unwrap();
    assert_eq!(line["params"], json!({"threadId": THREAD, "turnId": "turn-1"}));
    assert_eq!(said(&interrupt(None)), None);
    for outcome in [json!({"result": {}}), json!({"error": {"message": "no active turn"}})] {
        let mut talk = Talk::opened();
        let mut answer = outcome;
        answer["id"] = line["id"].clone();
        assert_eq!(talk.hears(answer), None);
        assert_eq!(talk.write()["method"], "thread/backgroundTerminals/clean");
    }
}

#[test]
fn a_turn_is_over_when_what_it_left_running_is_ended() {
    let mut talk = Talk::opened();
    let completes = |talk: &mut Talk, thread: &str, turn: &str| {
        let turn = json!({"id": turn, "status": "completed", "error": null});
        talk.note("turn/completed", json!({"threadId": thread, "turn": turn}))
    };
    talk.turn_starts();
    assert_eq!(completes(&mut talk, "sub-agent", "turn-9"), None);
    assert_eq!(completes(&mut talk, THREAD, "turn-1"), None);
    let cleans = talk.writes();
    let threads: Vec<&Value> = cleans.iter().map(|(_, line)| &line["params"]["threadId"]).collect();
    assert_eq!(threads, ["sub-agent", THREAD], "sub-agents leave things running, too");
    let answer = |at: usize| json!({"id": cleans[at].0, "error": {"message": "no such thread"}});
    assert_eq!(talk.hears(answer(0)), None);
    let turn = Some("turn-1".to_owned());
    let ended = Some(Signal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None });
    assert_eq!(talk.hears(answer(1)), ended, "whether there was anything to end or not");
    assert_eq!(talk.hears(answer(1)), None, "once");
}

#[test]
fn a_turn_that_begins_before_the_cleaning_is_answered_comes_after_the_one_before() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let turn = json!({"id": "turn-1", "status": "completed", "error": null});
    assert_eq!(talk.note("turn/completed", json!({"threadId": THREAD, "turn": turn})), None);
    let next = json!({"threadId": THREAD, "turn": {"id": "turn-2"}});
    let ended = talk.note("turn/started", next);
    assert!(matches!(ended, Some(Signal::TurnEnded { .. })), "{ended:?}");
    let begun = talk.cleans();
    assert_eq!(begun, Some(Signal::TurnStarted { turn: Some("turn-2".to_owned()) }));
}

#[test]
fn a_server_that_cannot_clean_is_not_told_to() {
    let mut talk = Talk::new(opening());
    talk.shake("0.166.0", &METHODS.replace("/clean", "/x"));
    talk.hears(json!({"id": "p:thread", "result": {"thread": {"id": THREAD}}}));
    talk.writes();
    talk.hears(json!({"id": "i:interrupt-1", "result": {}}));
    talk.turn_starts();
    let turn = json!({"id": "turn-1", "status": "completed", "error": null});
    let ended = talk.note("turn/completed", json!({"threadId": THREAD, "turn": turn}));
    assert!(matches!(ended, Some(Signal::TurnEnded { .. })), "its turn ends at once");
    assert_eq!(talk.writes(), []);
}

#[test]
fn tools_report_for_the_main_agent_and_are_answered_at_once() {
    let mut talk = Talk::opened();
    let call =
        |tool: &str, arguments: Value| json!({"callId": "c", "tool": tool, "arguments": arguments});
    let done = json!({"status": "completed", "summary": "s"});
    let said = talk.asks(json!(0), "item/tool/call", call("provost_report", done.clone()));
    assert!(matches!(said, Some(Signal::Said(Testimony::Claim { .. }))));
    let reply = talk.write();
    assert_eq!((&reply["id"], &reply["result"]["success"]), (&json!(0), &json!(true)));
    let step = call("provost_progress", json!({"done": 1, "total": 2}));
    let told = talk.asks(json!(1), "item/tool/call", step);
    assert_eq!(told, Some(Signal::Progress(Progress { done: 1, total: 2 })));
    assert_eq!(talk.write()["id"], 1);
    for (tool, arguments) in [("provost_report", json!({})), ("other", done.clone())] {
        assert_eq!(talk.asks(json!(2), "item/tool/call", call(tool, arguments)), None);
        assert_eq!(talk.write()["result"]["success"], false);
    }
    let mut of_child = call("provost_report", done);
    of_child["threadId"] = json!("child");
    let line = json!({"id": 3, "method": "item/tool/call", "params": of_child});
    assert_eq!(talk.hears(line), None);
    assert_eq!(talk.write()["result"]["success"], false);
}

#[test]
fn e14_every_request_is_answered_also_unknown_and_malformed_ones() {
    let mut talk = Talk::opened();
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
        assert_eq!(talk.asks(json!(no), method, params.clone()), None, "{method} {params}");
        let refusal = talk.write();
        assert_eq!(refusal["id"], no, "{method}");
        assert!(refusal["error"]["message"].is_string(), "{method}");
    }
}

#[test]
fn e15_more_requests_than_can_be_kept_are_refused_and_room_is_made_again() {
    let mut talk = Talk::opened();
    let ask = |talk: &mut Talk, no: u64| {
        let params = json!({"itemId": format!("i{no}"), "command": format!("c{no}")});
        talk.asks(json!(no), "item/commandExecution/requestApproval", params)
    };
    let taken = (0..200).filter(|no| ask(&mut talk, *no).is_some()).count();
    assert_eq!((taken, talk.writes().len()), (50, 150));
    let resolved = json!({"threadId": THREAD, "requestId": 0});
    assert!(talk.note("serverRequest/resolved", resolved).is_some());
    assert!(ask(&mut talk, 200).is_some());
    talk.turn_ends("interrupted");
    assert!(ask(&mut talk, 201).is_some());
}

#[test]
fn e15_what_is_too_large_to_be_shown_is_refused() {
    let mut talk = Talk::opened();
    let params = json!({"itemId": "i", "command": "x".repeat(300 << 10)});
    assert_eq!(talk.asks(json!(0), "item/commandExecution/requestApproval", params), None);
    assert!(talk.write()["error"].is_object());
}

#[test]
fn e13_a_question_makes_the_agent_wait_also_where_it_is_said_not_to_block() {
    let mut talk = Talk::opened();
    let questions = json!([{"id": "q", "question": "?", "isSecret": true}]);
    let params = json!({"itemId": "i", "isBlocking": false, "questions": questions});
    let asked = talk.asked(json!(0), "item/tool/requestUserInput", params);
    assert_eq!((asked.kind, asked.waiting), (RequestKind::Question, Waiting::Blocking));
    assert!(asked.is_secret());
}

#[test]
fn a_question_that_takes_only_its_options_says_so() {
    let mut talk = Talk::opened();
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
    let asked = talk.asked(json!(7), "item/tool/requestUserInput", params);
    let closed = asked.questions.iter().filter(|question| question.only_options);
    assert_eq!(closed.map(|question| question.id.as_str()).collect::<Vec<_>>(), ["closed"]);
}

#[test]
fn r10_a_request_that_is_over_is_withdrawn() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let params = json!({"itemId": "i", "command": "ls"});
    let asked = talk.asked(json!(7), "item/commandExecution/requestApproval", params);
    let resolved = json!({"threadId": THREAD, "requestId": 7});
    let withdrawn = Some(Signal::Withdrawn { native: asked.native });
    assert_eq!(talk.note("serverRequest/resolved", resolved.clone()), withdrawn);
    assert_eq!(talk.note("serverRequest/resolved", resolved), None);
}

#[test]
fn r10_the_requests_of_an_ended_turn_are_withdrawn_one_by_one() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let native = |talk: &mut Talk, id: u64| {
        let params = json!({"itemId": "i", "command": format!("c{id}")});
        talk.asked(json!(id), "item/commandExecution/requestApproval", params).native
    };
    let (first, second) = (native(&mut talk, 1), native(&mut talk, 2));
    let turn = json!({"id": "turn-1", "status": "interrupted", "error": null});
    let completed = talk.note("turn/completed", json!({"threadId": THREAD, "turn": turn}));
    assert_eq!(completed, Some(Signal::Withdrawn { native: first }));
    assert!(matches!(talk.cleans(), Some(Signal::TurnEnded { .. })));
    let cleaned = talk.hears(json!({"id": "p:clean-1", "result": {}}));
    assert_eq!(cleaned, Some(Signal::Withdrawn { native: second }));
    assert_eq!(talk.hears(json!({"id": "p:clean-1", "result": {}})), None);
}

#[test]
fn a_message_for_an_open_turn_begins_no_other_one() {
    let mut talk = Talk::opened();
    talk.turn_starts();
    let other = json!({"threadId": THREAD, "turn": {"id": "turn-2"}});
    assert_eq!(talk.note("turn/started", other), None);
    let turn = Some("turn-1".to_owned());
    let ended = Signal::TurnEnded { turn, end: TurnEnd::Ok, usage: None, says: None };
    assert_eq!(talk.turn_ends("completed"), Some(ended));
}

#[test]
fn r10_a_tool_call_that_completed_without_an_answer_is_withdrawn() {
    let mut talk = Talk::opened();
    let arguments = json!({"question": "which?"});
    let params = json!({"callId": "call-1", "tool": "provost_ask", "arguments": arguments});
    let asked = talk.asked(json!(3), "item/tool/call", params);
    let item = json!({"type": "dynamicToolCall", "id": "call-1", "status": "failed"});
    let done =
        talk.note("item/completed", json!({"threadId": THREAD, "turnId": "turn-1", "item": item}));
    assert_eq!(done, Some(Signal::Withdrawn { native: asked.native }));
}

#[test]
fn e17_parallel_requests_have_names_of_their_own_and_a_repeated_one_is_the_same() {
    let mut talk = Talk::opened();
    let ask = |talk: &mut Talk, id: Value, command: &str| {
        let params = json!({"itemId": "i", "command": command});
        talk.asks(id, "item/commandExecution/requestApproval", params)
    };
    let native = |signal: Option<Signal>| match signal {
        Some(Signal::Asked(asked)) => asked.native,
        other => panic!("{other:?}"),
    };
    let first = native(ask(&mut talk, json!(1), "ls"));
    assert_ne!(first, native(ask(&mut talk, json!("1"), "ls")));
    assert_eq!(ask(&mut talk, json!(1), "ls"), None);
    assert_eq!(native(ask(&mut talk, json!(1), "rm -r x")), first);
}

#[test]
fn a_file_approval_shows_the_diff_of_its_item() {
    let mut talk = Talk::opened();
    let change = json!({"path": "/repo/a", "kind": {"type": "add"}, "diff": "x\n"});
    let item = json!({"type": "fileChange", "id": "f", "changes": [change]});
    let place = json!({"threadId": THREAD, "turnId": "turn-1", "item": item});
    talk.note("item/started", place);
    let params = json!({"itemId": "f", "reason": "why", "grantRoot": "/etc"});
    let asked = talk.asked(json!(0), "item/fileChange/requestApproval", params);
    let subject = asked.subject.unwrap();
    assert_eq!(subject.paths, ["/repo/a", "/etc"]);
    assert_eq!(subject.diff.as_deref(), Some("add /repo/a\nx\n"));
    talk.turn_ends("completed");
    let params = json!({"itemId": "f"});
    let unknown = talk.asked(json!(1), "item/fileChange/requestApproval", params).subject.unwrap();
    assert_eq!((unknown.paths.len(), unknown.diff), (0, None));
}

#[test]
fn no_rule_about_commands_can_allow_what_is_more_than_a_command() {
    let mut talk = Talk::opened();
    let mut subject = |id: u64, mut params: Value| {
        params["itemId"] = json!("i");
        let asked = talk.asked(json!(id), "item/commandExecution/requestApproval", params);
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
fn a_question_in_a_message_is_asked_beside_the_work() {
    let mut talk = Talk::opened();
    let questions =
        json!([{"title": "Which?", "options": ["A"]}, {"title": "Else?", "options": null}]);
    let item = json!({"type": "agentMessage", "id": "call-9", "text": "…", "delivery": "async",
                      "questions": questions});
    let place = json!({"threadId": THREAD, "turnId": "turn-1", "item": item});
    assert_eq!(talk.note("item/started", place.clone()), None);
    let Some(Signal::Asked(asked)) = talk.note("item/completed", place) else { panic!() };
    assert_eq!((asked.native.as_str(), asked.waiting), ("async:call-9", Waiting::Beside));
    assert_eq!(asked.questions.len(), 2);
}
