//! Threads, turns and unexpected requests.

use provost_testkit::model::{
    self, CODE_MODE_MODEL, CodexHome, MODEL, ModelScenario, ModelServer, ServedAnswer,
};

use super::exec::{CodexVariant, exec, play, start, variants};

#[test]
fn resumed_thread_continues_with_next_turn() {
    for variant in variants() {
        let server = ModelServer::play(
            r#"
            [[thread]]
            turn = [
              { response = [{ items = [{ message = "first" }] }] },
              { response = [{ items = [{ message = "second" }] }] },
            ]
            "#,
        );
        let home = CodexHome::with_model(&server, variant.model);
        let first = exec(&home, &variant.codex, &["one"]);
        assert_eq!(first.ok().messages(), ["first"]);
        let second = exec(&home, &variant.codex, &["resume", first.thread(), "two"]);
        assert_eq!(second.ok().messages(), ["second"]);
        server.assert_all_as_scripted();
        assert_eq!(server.requests()[1].request.thread(), first.thread());
        assert_eq!(server.requests()[1].request.prompt(), "two");
    }
}

#[test]
fn sub_agents_have_their_own_threads() {
    for variant in variants() {
        let (server, ended) = play(
            r#"
            [[thread]]
            name = "child"
            when = { subagent = true, prompt = "CHILD" }
            turn = [{ response = [{ items = [{ message = "child result 42" }] }] }]
            [[thread]]
            name = "parent"
            turn = [{ response = [
              { items = [{ spawn = "CHILD task", name = "helper" }] },
              { items = [{ wait_agents = true }] },
              { items = [{ message = "parent done" }] },
              # 0.107 may tell the child's end once more, and asks the model what it says to that.
              { items = [{ message = "I know" }], repeat = "forever" },
            ] }]
            "#,
            &variant,
            &["--enable", "multi_agent", "PARENT"],
        );
        server.assert_all_as_scripted();
        assert!(ended.ok().messages().contains(&"parent done"), "{ended:#?}");
        let last = server.requests().into_iter().rfind(|one| !one.request.is_subagent());
        let seen = serde_json::to_string(last.unwrap().request.input()).unwrap();
        assert!(
            seen.contains("child result 42"),
            "the parent did not receive its child's result: {seen}"
        );
    }
}

#[test]
fn named_sub_agent_matches_by_name() {
    let Some(codex) = model::codex() else { return };
    let (server, ended) = play(
        r#"
        [[thread]]
        name = "child"
        when = { agent = "second" }
        turn = [{ response = [{ items = [{ message = "I am second" }] }] }]
        [[thread]]
        turn = [{ response = [
          { items = [{ spawn = "work", name = "second", history = true }] },
          { items = [{ wait_agents = true, timeout_ms = 20000 }] },
          { items = [{ message = "done" }] },
        ] }]
        "#,
        &CodexVariant { codex, model: CODE_MODE_MODEL },
        &["go"],
    );
    ended.ok();
    server.assert_all_as_scripted();
}

#[test]
fn unscripted_request_fails_and_is_recorded() {
    for variant in variants() {
        let (server, ended) = play(
            "[[thread]]\nwhen = { prompt = 'FIX' }\nturn = [{ response = [{}] }]",
            &variant,
            &["something else"],
        );
        ended.failure();
        let unexpected = ["request 1: no thread is scripted for the prompt \"something else\""];
        assert_eq!(server.unexpected(), unexpected);
        assert_eq!(server.left_over(), ["thread 1: taken 0 of 1 times"]);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            server.assert_all_as_scripted()
        }));
        assert!(failed.is_err());
    }
}

#[test]
fn otherwise_answers_any_request() {
    let Some(codex) = model::codex() else { return };
    let server = ModelServer::play("[otherwise]\nitems = [{ message = 'ok' }]");
    let home = CodexHome::new(&server);
    for _ in 0..2 {
        assert_eq!(exec(&home, &codex, &["hello"]).ok().messages(), ["ok"]);
    }
    server.assert_all_as_scripted();
    assert!(server.requests().iter().all(|recorded| recorded.served == ServedAnswer::Default));
}

#[test]
fn hold_lasts_until_released() {
    let Some(codex) = model::codex() else { return };
    let server = ModelServer::play(
        r#"
        [[thread]]
        turn = [{ response = [{ items = [{ hold = "door" }, { message = "the door opened" }] }] }]
        "#,
    );
    let home = CodexHome::new(&server);
    let running = start(&home, &codex, &["go"]);
    server.wait_for_hold("door");
    assert_eq!(server.open_streams(), 1);
    server.release("door");
    assert_eq!(running.end().ok().messages(), ["the door opened"]);
    server.assert_all_as_scripted();
}

#[test]
fn threads_can_be_added_while_the_server_runs() {
    let Some(codex) = model::codex() else { return };
    let server = ModelServer::play("");
    let home = CodexHome::new(&server);
    server.add(
        ModelScenario::parse(
            "[[thread]]\nturn = [{ response = [{ items = [{ message = 'late' }] }] }]",
        )
        .unwrap(),
    );
    assert_eq!(exec(&home, &codex, &["go"]).ok().messages(), ["late"]);
    server.assert_all_as_scripted();
}

#[test]
fn overflowing_conversation_is_compacted() {
    let Some(codex) = model::codex() else { return };
    let server = ModelServer::play(
        r#"
        apart = { compaction = "SUMMARY OF ALL" }
        [[thread]]
        turn = [
          { response = [{ context_overflow = true }] },
          { response = [{ items = [{ message = "smaller now" }] }] },
        ]
        "#,
    );
    let home = CodexHome::with_model(&server, MODEL);
    let first = exec(&home, &codex, &["one"]);
    first.failure();
    let second = exec(&home, &codex, &["resume", first.thread(), "two"]);
    assert_eq!(second.ok().messages().last(), Some(&"smaller now"));
    server.assert_all_as_scripted();
    let requests = server.requests();
    assert!(
        requests
            .iter()
            .any(|one| one.served == ServedAnswer::Hidden(model::RequestPurpose::Compaction))
    );
    let seen = requests.last().unwrap().request.prompts().join("\n");
    assert!(seen.contains("SUMMARY OF ALL"), "{seen}");
}
