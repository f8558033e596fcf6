//! Every kind of item with real Codex, in each form in which it offers its tools.

use provost_testkit::model::{self, CODE_MODE_MODEL, MODEL};

use super::exec::{CodexVariant, play, variants};

#[test]
fn common_items_work_in_every_codex() {
    for variant in variants() {
        let (server, ended) = play(
            r#"
            usage = { input = 1000, cached = 900, output = 40, reasoning = 7 }
            [[thread]]
            [[thread.turn]]
            [[thread.turn.response]]
            items = [
              { reasoning = "**Reading** the file" },
              { message = "I look first.", phase = "commentary" },
              { shell = "cat README.md" },
            ]
            [[thread.turn.response]]
            usage = { input = 10, output = 3 }
            items = [{ patch = """
            *** Begin Patch
            *** Update File: README.md
            @@
            -# Sample
            +# Changed
            *** End Patch""" }]
            [[thread.turn.response]]
            items = [{ message = "Done with {{prompt}}.", phase = "final_answer" }]
            "#
            .replace("            ", "")
            .as_str(),
            &variant,
            &["the task"],
        );
        ended.ok();
        server.assert_all_as_scripted();
        assert_eq!(ended.items("reasoning")[0]["text"], "**Reading** the file");
        assert_eq!(ended.messages(), ["I look first.", "Done with the task."]);
        let command = ended.items("command_execution")[0];
        assert!(command["command"].as_str().unwrap().contains("cat README.md"), "{command}");
        assert!(
            command["aggregated_output"].as_str().unwrap().ends_with("# Sample\n"),
            "{command}"
        );
        assert_eq!(ended.items("file_change")[0]["status"], "completed");
        assert_eq!(
            (&ended.usage()["input_tokens"], &ended.usage()["output_tokens"]),
            (&2010.into(), &83.into())
        );
        assert!(server.requests()[1].request.last_output().contains("# Sample"));
        assert_eq!(server.requests()[0].request.model(), variant.model);
    }
}

#[test]
fn patch_without_tool_uses_a_command() {
    let Some(codex) = model::old_codex() else { return };
    let (server, ended) = play(
        r#"
        [[thread]]
        turn = [{ response = [
          { items = [{ patch = "*** Begin Patch\n*** Add File: new.txt\n+new\n*** End Patch" }] },
          { items = [{ message = "done" }] },
        ] }]
        "#,
        &CodexVariant { codex, model: MODEL },
        &["go"],
    );
    assert!(!server.requests()[0].request.tools().contains(&"apply_patch".to_owned()));
    assert_eq!(ended.ok().items("file_change")[0]["changes"][0]["kind"], "add");
    server.assert_all_as_scripted();
}

#[test]
fn command_runs_with_scripted_options() {
    for variant in variants() {
        let (server, ended) = play(
            r#"
            [[thread]]
            turn = [{ response = [
              { items = [{ shell = "pwd; echo $0", workdir = "/usr", yield_time_ms = 9000, login = false }] },
              { items = [{ shell = "true", escalate = true, justification = "May I?" }] },
              { items = [{ message = "{{last_output}}" }] },
            ] }]
            "#,
            &variant,
            &["go"],
        );
        ended.ok();
        server.assert_all_as_scripted();
        assert!(
            ended.items("command_execution")[0]["aggregated_output"]
                .as_str()
                .unwrap()
                .contains("/usr\n")
        );
        // `codex exec` never asks, so Codex reports to the model that questions are not allowed.
        let message = ended.messages()[0];
        assert!(message.contains("approval policy is Never"), "{variant:?}: {message}");
    }
}

#[test]
fn plans_are_shown_where_supported() {
    for variant in variants() {
        let (server, ended) = play(
            r#"
            [[thread]]
            turn = [{ response = [
              { items = [{ plan = [
                  { step = "look", status = "completed" },
                  { step = "write", status = "in_progress" },
                ], explanation = "why" }] },
              { items = [{ message = "planned" }] },
            ] }]
            "#,
            &variant,
            &["-c", "tools.update_plan.enabled=true", "go"],
        );
        ended.ok();
        server.assert_all_as_scripted();
        let plan = &ended.items("todo_list")[0]["items"];
        assert_eq!((&plan[0]["text"], &plan[0]["completed"]), (&"look".into(), &true.into()));
        assert_eq!((&plan[1]["text"], &plan[1]["completed"]), (&"write".into(), &false.into()));
    }
}

#[test]
fn missing_tool_is_an_error() {
    let Some(codex) = model::codex() else { return };
    let (server, ended) = play(
        "[[thread]]\nturn = [{ response = [{ items = [{ plan = [] }] }] }]",
        &CodexVariant { codex, model: MODEL },
        &["go"],
    );
    ended.failure();
    let unexpected = server.unexpected();
    assert_eq!(unexpected.len(), 1, "{unexpected:?}");
    assert!(
        unexpected[0].contains("request 1: item 1: Codex offers no tool for plans"),
        "{unexpected:?}"
    );
}

#[test]
fn structured_output_matches_the_schema() {
    for variant in variants() {
        let schema = r#"{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}"#;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), schema).unwrap();
        let (server, ended) = play(
            "[[thread]]\nturn = [{ response = [{ items = [{ json = { ok = true } }] }] }]",
            &variant,
            &["--output-schema", file.path().to_str().unwrap(), "go"],
        );
        assert_eq!(ended.ok().messages(), [r#"{"ok":true}"#]);
        let asked = &server.requests()[0].request.body["text"]["format"];
        assert_eq!(asked["schema"]["required"][0], "ok", "{asked}");
    }
}

#[test]
fn deltas_and_delays_make_one_message() {
    for variant in variants() {
        let (server, ended) = play(
            r#"
            [[thread]]
            turn = [{ response = [{ delay_ms = 20, items = [
              { reasoning = "slow thoughts", deltas = { chunk = 4 } },
              { delay_ms = 20 },
              { message = "piece by piece", deltas = { chunk = 3, delay_ms = 1 } },
            ] }] }]
            "#,
            &variant,
            &["go"],
        );
        assert_eq!(ended.ok().messages(), ["piece by piece"]);
        server.assert_all_as_scripted();
    }
}

#[test]
fn searches_and_raw_items_are_passed_on() {
    for variant in variants() {
        let (server, ended) = play(
            r#"
            [[thread]]
            turn = [{ response = [{ items = [
              { web_search = "what is it" },
              { raw_bytes = ": a comment\n\ndata: not json\n\n" },
              { raw_event = { type = "response.unheard_of" } },
              { raw_item = { type = "message", role = "assistant", content = [{ type = "output_text", text = "raw {{n}}" }] } },
            ] }] }]
            "#,
            &variant,
            &["go"],
        );
        assert_eq!(ended.ok().messages(), ["raw 1"]);
        assert_eq!(ended.items("web_search")[0]["query"], "what is it");
        server.assert_all_as_scripted();
    }
}

#[test]
fn async_question_is_shown_as_a_message() {
    let Some(codex) = model::codex() else { return };
    let (server, ended) = play(
        r#"
        [[thread]]
        turn = [{ response = [
          { items = [{ ask_async = [{ title = "Which?", options = ["Red", "Blue"] }, { title = "Why?" }] }] },
          { items = [{ message = "{{last_output}}" }] },
        ] }]
        "#,
        &CodexVariant { codex, model: CODE_MODE_MODEL },
        &["go"],
    );
    assert_eq!(ended.ok().messages(), ["Which?\n- Red\n- Blue\n\nWhy?", r#"{"accepted":true}"#]);
    server.assert_all_as_scripted();
}

#[test]
fn custom_call_is_passed_unchanged() {
    let Some(codex) = model::codex() else { return };
    let (server, ended) = play(
        r#"
        [[thread]]
        turn = [{ response = [
          { items = [{ custom = "exec", input = "text('2 + 2 = ' + (2 + 2))" }] },
          { items = [{ tool = "no_such_tool", args = { a = 1 } }] },
          { items = [{ message = "{{last_output}}" }] },
        ] }]
        "#,
        &CodexVariant { codex, model: CODE_MODE_MODEL },
        &["go"],
    );
    assert!(server.requests()[1].request.last_output().contains("2 + 2 = 4"));
    assert_eq!(ended.ok().messages(), ["unsupported call: no_such_tool"]);
}
