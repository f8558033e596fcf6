//! Every kind of end of a response, and real Codex's reaction to it.

use provost_testkit::model::{self, AnswerOutcome, CodexHome, MODEL, ModelServer};

use super::exec::{CodexVariant, exec, play, start, variants};

/// Plays one response with each Codex and returns the errors of the turns.
fn failures(response: &str) -> Vec<String> {
    let scenario = format!("[[thread]]\nturn = [{{ response = [{{ {response} }}] }}]");
    let failure = |variant: &CodexVariant| {
        let (server, ended) = play(&scenario, variant, &["go"]);
        server.assert_all_as_scripted();
        ended.failure().to_owned()
    };
    variants().iter().map(failure).collect()
}

#[track_caller]
fn all_fail_with(response: &str, part: &str) {
    for failure in failures(response) {
        assert!(failure.contains(part), "no {part:?} in {failure:?}");
    }
}

#[test]
fn dropped_stream_is_a_transport_error() {
    all_fail_with(
        "items = [{ message = 'half', unfinished = true }], end = 'drop'",
        "error decoding response body",
    );
}

#[test]
fn stream_that_ends_early_is_reported() {
    all_fail_with(
        "items = [{ reasoning = 'hm' }], end = 'cut'",
        "stream closed before response.completed",
    );
}

#[test]
fn http_statuses_and_their_bodies_are_read() {
    all_fail_with(
        "http = { status = 400, body = { error = { message = 'no such thing' } } }",
        "no such thing",
    );
    all_fail_with("http = { status = 401, body = 'who are you' }", "401 Unauthorized");
    all_fail_with(
        "http = { status = 429, headers = { 'x-request-id' = 'r-1' } }",
        "exceeded retry limit, last status: 429 Too Many Requests",
    );
}

#[test]
fn usage_limit_is_reported_with_its_reset() {
    // 2030-01-02 03:04 UTC, which is far enough in the future to be shown with its date.
    for failure in failures("usage_limit = { resets_at = 1893553440, plan = 'pro' }") {
        assert!(failure.contains("usage limit"), "{failure}");
        assert!(failure.contains("Jan 2nd, 2030 3:04 AM"), "{failure}");
    }
    for failure in failures("usage_limit = { resets_in_s = 60, reset_location = 'headers' }") {
        assert!(failure.contains("usage limit"), "{failure}");
    }
}

#[test]
fn stream_failures_have_their_codes() {
    all_fail_with("context_overflow = true", "ran out of room in the model's context window");
    all_fail_with("failed = { code = 'insufficient_quota', message = 'm' }", "uota exceeded");
    all_fail_with("failed = { code = 'server_error', message = 'it broke' }", "it broke");
    all_fail_with("incomplete = 'max_output_tokens'", "max_output_tokens");
}

#[test]
fn turn_continues_after_retries() {
    for variant in variants() {
        let server = ModelServer::play(
            r#"
            [[thread]]
            turn = [{ response = [
              { http = { status = 503 } },
              { items = [{ message = "par", unfinished = true }], end = "drop" },
              { repeat = 2, failed = { code = "rate_limit_exceeded", message = "Please try again in 10ms." } },
              { items = [{ message = "recovered" }] },
            ] }]
            "#,
        );
        let home = CodexHome::with_model(&server, variant.model);
        let retry = |key: &str| format!("model_providers.scripted.{key}=5");
        let (request, stream) = (retry("request_max_retries"), retry("stream_max_retries"));
        let ended = exec(&home, &variant.codex, &["-c", &request, "-c", &stream, "go"]);
        assert_eq!(ended.ok().messages().last(), Some(&"recovered"));
        server.assert_all_as_scripted();
    }
}

#[test]
fn hanging_stream_ends_with_its_client() {
    let Some(codex) = model::codex() else { return };
    let server = ModelServer::play(
        "[[thread]]\nturn = [{ response = [{ items = [{ message = 'thinking' }], end = 'hang' }] }]",
    );
    let home = CodexHome::with_model(&server, MODEL);
    let mut running = start(&home, &codex, &["go"]);
    server.wait_for_request("the only one", |_| true);
    assert_eq!(server.open_streams(), 1);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    server
        .wait_for_request("it to end", |recorded| recorded.outcome == AnswerOutcome::Disconnected);
    assert_eq!(server.open_streams(), 0);
    server.assert_all_as_scripted();
}

#[test]
fn stopped_server_refuses_connections() {
    let Some(codex) = model::codex() else { return };
    let server = ModelServer::play("");
    let home = CodexHome::with_model(&server, MODEL);
    drop(server);
    let ended = exec(&home, &codex, &["go"]);
    assert!(ended.failure().contains("error sending request"), "{}", ended.failure());
}
