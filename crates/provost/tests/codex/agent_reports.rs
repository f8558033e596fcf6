//! Every channel through which the agent can report, used from inside Codex and its real sandbox.

use provost_testkit::harness::provost_bin;
use serde_json::json;

use crate::codex_env::{CodexEnv, TestedCodex};

#[test]
fn tools_report_claim_progress_and_question() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = r#"
            [[thread]]
            turn = [{ response = [
              { items = [{ tool = "provost_progress", args = { done = 1, total = 2 } }] },
              { items = [{ tool = "provost_ask", args = { question = "Which colour?", options = ["red", "blue"] } }] },
              { items = [{ tool = "provost_fact", args = { kind = "artifact", value = "out/{{last_output}}" } }] },
              { items = [{ tool = "provost_report", args = { status = "completed", summary = "painted" } }] },
              { items = [{ message = "Painted." }] },
            ] }]"#;
        let Some(stage) = CodexEnv::with_version(which, scenario) else { return };
        let id = stage.spawn(&["Paint."]);
        let row = stage.wait(&id, "needs_input");
        let progress = (&row["progress"]["done"], &row["progress"]["total"]);
        assert_eq!(progress, (&json!(1), &json!(2)), "{which:?}: {row:#}");
        assert_eq!(row["requests"][0]["kind"], "question");
        stage.home.provost(&["answer", &id, "a deep blue"]).ok();
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim"], &row["claim_text"]),
            (&json!("completed"), &json!("completed"), &json!("painted")),
            "{which:?}: {row:#}"
        );
        assert!(row["facts"][0]["value"].as_str().unwrap().contains("a deep blue"), "{row:#}");
        assert!(stage.events_of(&id, "result.requested").is_empty(), "it has claimed already");
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn malformed_tool_call_is_rejected_without_claim() {
    let scenario = r#"
        [[thread]]
        turn = [
          { response = [
            { items = [{ tool = "provost_report", args = { status = "succeeded", summary = "x" } }] },
            { items = [{ message = "Well." }] },
          ] },
          { response = [{ items = [{ message = '{"status":"failed","summary":"no"}' }] }] },
        ]"#;
    let Some(stage) = CodexEnv::new(scenario) else { return };
    let id = stage.spawn(&["Claim."]);
    assert_eq!(stage.wait_sealed(&id)["claim"], "failed");
    let output = stage.model.requests()[1].request.last_output();
    assert!(output.contains("provost_report expects"), "{output}");
}

#[test]
fn report_command_in_sandbox_counts_before_turn_end() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let report =
            format!("{} report completed --message 'by hand' --json", provost_bin().display());
        let scenario = format!(
            r#"
            [[thread]]
            turn = [{{ response = [
              {{ items = [{{ shell = {report:?} }}] }},
              {{ items = [{{ message = "Reported." }}] }},
            ] }}]"#
        );
        let Some(stage) = CodexEnv::with_version(which, &scenario) else { return };
        let id = stage.spawn(&["Report."]);
        let row = stage.wait_sealed(&id);
        let output = stage.model.requests().last().unwrap().request.last_output();
        assert_eq!(
            (&row["state"], &row["claim_text"]),
            (&json!("completed"), &json!("by hand")),
            "{which:?}: {row:#}\n{output}"
        );
        assert!(
            output.contains("\"dropped\""),
            "the socket cannot be reached from there: {output}"
        );
        assert!(stage.events_of(&id, "result.requested").is_empty());
        stage.model.assert_all_as_scripted();
    }
}

#[test]
fn report_with_forged_token_is_ignored() {
    let report = format!("PROVOST_TOKEN=forged {} report completed", provost_bin().display());
    let scenario = format!(
        r#"
        [[thread]]
        turn = [
          {{ response = [
            {{ items = [{{ shell = {report:?} }}] }},
            {{ items = [{{ message = "Reported." }}] }},
          ] }},
          {{ response = [{{ items = [{{ message = '{{"status":"failed","summary":"no"}}' }}] }}] }},
        ]"#
    );
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let id = stage.spawn(&["Report."]);
    assert_eq!(stage.wait_sealed(&id)["state"], "failed");
    stage.model.assert_all_as_scripted();
}
