//! Questions, approvals and dynamic tools, which reach a client of the app-server.

use provost_testkit::model::{CODE_MODE_MODEL, CodexHome, ModelServer};
use serde_json::{Value, json};

use super::app_server::TestAppServer;
use super::exec::{CodexVariant, variants};

const ASKS: &str = r#"
[[thread]]
turn = [{ response = [
  { items = [{ ask = [
      { id = "color", header = "Color", question = "Which?", options = [
          { label = "Red", description = "warm" }, { label = "Blue", description = "cold" } ] },
      { id = "token", header = "Token", question = "Token?", secret = true, other = true, options = [
          { label = "None", description = "go without" }, { label = "Ask", description = "ask later" } ] },
    ] }] },
  { items = [{ message = "{{last_output}}" }] },
] }]
"#;

fn plan_mode(variant: &CodexVariant) -> Value {
    let settings =
        json!({"model": variant.model, "reasoning_effort": null, "developer_instructions": null});
    json!({"collaborationMode": {"mode": "plan", "settings": settings}})
}

#[test]
fn blocking_questions_and_answers_are_relayed() {
    for variant in variants() {
        let server = ModelServer::play(ASKS);
        let home = CodexHome::with_model(&server, variant.model);
        let mut client = TestAppServer::start(&home, &variant.codex, json!({}));
        client.turn("go", plan_mode(&variant));
        let (id, asked) = client.asked("item/tool/requestUserInput");
        let questions = &asked["questions"];
        assert_eq!(
            (&questions[0]["id"], &questions[0]["isSecret"]),
            (&json!("color"), &json!(false))
        );
        assert_eq!(questions[0]["options"][1]["label"], "Blue");
        assert_eq!(
            (&questions[1]["id"], &questions[1]["isSecret"]),
            (&json!("token"), &json!(true)),
            "{variant:?}"
        );
        client.answer(
            &id,
            json!({"answers": {"color": {"answers": ["Blue"]}, "token": {"answers": ["x"]}}}),
        );
        client.wait("the turn's end", |message| message["method"] == "turn/completed");
        let output = server.requests()[1].request.last_output();
        assert!(output.contains("Blue"), "{output}");
        server.assert_all_as_scripted();
    }
}

#[test]
fn async_question_is_an_item() {
    for variant in variants().into_iter().filter(|variant| variant.model == CODE_MODE_MODEL) {
        let server = ModelServer::play(
            r#"
            [[thread]]
            turn = [{ response = [
              { items = [{ ask_async = [{ title = "Which?", options = ["Red", "Blue"] }] }] },
              { items = [{ message = "going on" }] },
            ] }]
            "#,
        );
        let home = CodexHome::with_model(&server, variant.model);
        let mut client = TestAppServer::start(&home, &variant.codex, json!({}));
        client.turn("go", json!({}));
        let item = client
            .wait("the questions", |message| message["params"]["item"]["delivery"] == "async");
        assert_eq!(item["params"]["item"]["questions"][0]["title"], "Which?");
        assert_eq!(client.ended(), "going on");
        server.assert_all_as_scripted();
    }
}

#[test]
fn escalated_command_asks_for_approval() {
    for variant in variants() {
        let server = ModelServer::play(
            r#"
            [[thread]]
            turn = [{ response = [
              { items = [{ shell = "touch outside.txt; echo outside", escalate = true, justification = "May I go out?" }] },
              { items = [{ message = "{{last_output}}" }] },
            ] }]
            "#,
        );
        let home = CodexHome::with_model(&server, variant.model);
        let thread = json!({"approvalPolicy": "on-request", "sandbox": "workspace-write"});
        let mut client = TestAppServer::start(&home, &variant.codex, thread);
        client.turn("go", json!({}));
        let (id, asked) = client.asked("item/commandExecution/requestApproval");
        assert_eq!(asked["reason"], "May I go out?");
        assert!(asked["command"].as_str().unwrap().contains("touch outside.txt"), "{asked}");
        client.answer(&id, json!({"decision": "accept"}));
        client.wait("the turn's end", |message| message["method"] == "turn/completed");
        assert!(server.requests()[1].request.last_output().contains("outside"));
        server.assert_all_as_scripted();
    }
}

#[test]
fn dynamic_tool_is_called_with_its_arguments() {
    for variant in variants() {
        let server = ModelServer::play(
            r#"
            [[thread]]
            turn = [{ response = [
              { items = [{ tool = "report", args = { claim = "completed" } }] },
              { items = [{ message = "{{last_output}}" }] },
            ] }]
            "#,
        );
        let home = CodexHome::with_model(&server, variant.model);
        let schema = json!({"type": "object", "properties": {"claim": {"type": "string"}}, "required": ["claim"], "additionalProperties": false});
        let tool = json!({"name": "report", "description": "Reports.", "inputSchema": schema});
        let mut client =
            TestAppServer::start(&home, &variant.codex, json!({"dynamicTools": [tool]}));
        client.turn("go", json!({}));
        let (id, asked) = client.asked("item/tool/call");
        assert_eq!(
            (&asked["tool"], &asked["arguments"]),
            (&json!("report"), &json!({"claim": "completed"}))
        );
        client.answer(
            &id,
            json!({"contentItems": [{"type": "inputText", "text": "noted"}], "success": true}),
        );
        client.wait("the turn's end", |message| message["method"] == "turn/completed");
        let output = server.requests()[1].request.last_output();
        assert!(output.contains("noted"), "{variant:?}: {output}");
        server.assert_all_as_scripted();
    }
}

#[test]
fn rate_limits_of_a_response_reach_the_client() {
    for variant in variants().into_iter().filter(|variant| variant.model != CODE_MODE_MODEL) {
        let server = ModelServer::play(
            r#"
            [[thread]]
            [[thread.turn]]
            [[thread.turn.response]]
            items = [{ message = "ok" }]
            rate_limits = { primary = { used_percent = 42.5, window_minutes = 300, resets_at = 1893553440 } }
            "#,
        );
        let home = CodexHome::with_model(&server, variant.model);
        let mut client = TestAppServer::start(&home, &variant.codex, json!({}));
        client.turn("go", json!({}));
        let limits = client.wait("the limits", |message| {
            message["method"] == "account/rateLimits/updated"
                && !message["params"]["rateLimits"]["primary"].is_null()
        });
        let primary = &limits["params"]["rateLimits"]["primary"];
        assert_eq!(primary["resetsAt"], 1_893_553_440_u64, "{primary}");
        assert_eq!(primary["windowDurationMins"], 300, "{primary}");
        server.assert_all_as_scripted();
    }
}
