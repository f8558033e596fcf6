//! One-shot work reports through the MCP server that Codex starts, outside its sandbox.

use std::fs;

use provost_testkit::harness::eventually;
use serde_json::json;

use crate::codex_env::{CodexEnv, TestedCodex};

/// Returns a call of one of the server's tools. Newer versions use a namespace per server.
fn tool_call(which: TestedCodex, name: &str, args: &str) -> String {
    match which {
        TestedCodex::Pinned => {
            format!(r#"{{ tool = "{name}", namespace = "mcp__provost", args = {args} }}"#)
        }
        TestedCodex::Oldest => format!(r#"{{ tool = "mcp__provost__{name}", args = {args} }}"#),
    }
}

/// A thread with one turn, in which the model returns these items one response at a time.
fn one_turn(items: &[String]) -> String {
    let responses: Vec<String> =
        items.iter().map(|item| format!("{{ items = [{item}] }}")).collect();
    format!("[[thread]]\nturn = [{{ response = [{}] }}]\n", responses.join(", "))
}

fn message_item(text: &str) -> String {
    format!("{{ message = {text:?} }}")
}

fn report_call(which: TestedCodex, status: &str, summary: &str) -> String {
    let args = format!("{{ status = {status:?}, summary = {summary:?} }}");
    tool_call(which, "provost_report", &args)
}

#[test]
fn once_reports_claim_progress_and_facts_over_mcp() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario = one_turn(&[
            "{ shell = \"echo once > once.txt\" }".to_owned(),
            tool_call(which, "provost_progress", "{ done = 1, total = 2 }"),
            tool_call(which, "provost_fact", "{ kind = \"artifact\", value = \"once.txt\" }"),
            report_call(which, "completed", "written"),
            message_item("Written."),
        ]);
        let Some(stage) = CodexEnv::with_version(which, &scenario) else { return };
        let id =
            stage.spawn(&["--once", "--worktree", "--check", "grep -q once once.txt", "Write it."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim"], &row["claim_text"]),
            (&json!("succeeded"), &json!("completed"), &json!("written")),
            "{which:?}: {row:#}"
        );
        let progress = (&row["progress"]["done"], &row["progress"]["total"]);
        assert_eq!(progress, (&json!(1), &json!(2)), "{which:?}: {row:#}");
        assert_eq!(row["facts"][0]["value"], "once.txt", "{which:?}: {row:#}");
        let made = stage.events_of(&id, "claim.made");
        let by_agent = made.iter().filter(|event| event.to_string().contains("written")).count();
        assert_eq!(by_agent, 1, "{which:?}: {made:#?}");
        let requests = stage.model.requests();
        let body = requests[0].request.body.to_string();
        assert!(body.contains("call provost_report"), "{which:?}: {body}");
        let answers = requests.last().unwrap().request.outputs();
        let noted = answers.iter().filter(|(_, text)| text.contains("Noted.")).count();
        assert_eq!(noted, 3, "{which:?}: {answers:?}");
        assert_no_token_in_files(&stage, &id);
        assert_drop_box_unused(&stage, &id);
        stage.model.assert_all_as_scripted();
    }
}

/// Codex passes the token on from its environment, so no file contains it.
fn assert_no_token_in_files(stage: &CodexEnv, id: &str) {
    let config = stage.home.path().join("agents").join(id).join("codex/config.toml");
    let text = fs::read_to_string(config).unwrap();
    assert!(text.contains("[mcp_servers.provost]") && text.contains("\"PROVOST_TOKEN\""), "{text}");
    let is_token = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(!text.split(|c: char| !c.is_alphanumeric()).any(is_token), "{text}");
}

/// The server reached the daemon: the drop box is unchanged since Codex's configuration was written.
fn assert_drop_box_unused(stage: &CodexEnv, id: &str) {
    let place = stage.home.path().join("agents").join(id);
    let changed = |path: &str| fs::metadata(place.join(path)).unwrap().modified().unwrap();
    assert!(changed("tmp/drop") <= changed("codex/config.toml"));
}

#[test]
fn once_failed_claim_over_mcp_beats_exit_0() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let scenario =
            one_turn(&[report_call(which, "failed", "it is not there"), message_item("Sorry.")]);
        let Some(stage) = CodexEnv::with_version(which, &scenario) else { return };
        let id = stage.spawn(&["--once", "Find it."]);
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim_text"]),
            (&json!("failed"), &json!("it is not there")),
            "{which:?}: {row:#}"
        );
    }
}

#[test]
fn malformed_mcp_call_is_rejected_without_claim() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let wrong = report_call(which, "succeeded", "never claimed");
        let scenario = one_turn(&[wrong, message_item("Well.")]);
        let Some(stage) = CodexEnv::with_version(which, &scenario) else { return };
        let id = stage.spawn(&["--once", "Claim."]);
        stage.wait_sealed(&id);
        let output = stage.model.requests()[1].request.last_output();
        assert!(output.contains("provost_report expects"), "{which:?}: {output}");
        let claims = json!(stage.events_of(&id, "claim.made")).to_string();
        assert!(!claims.contains("never claimed"), "{which:?}: {claims}");
    }
}

#[test]
fn mcp_call_without_daemon_counts_once_later() {
    for which in [TestedCodex::Pinned, TestedCodex::Oldest] {
        let fact = tool_call(which, "provost_fact", "{ kind = \"branch\", value = \"later\" }");
        let scenario = one_turn(&[
            format!("{{ hold = \"door\" }}, {fact}"),
            report_call(which, "completed", "meanwhile"),
            message_item("Done."),
        ]);
        let Some(stage) = CodexEnv::with_version(which, &scenario) else { return };
        let id = stage.spawn(&["--once", "Wait."]);
        stage.model.wait_for_hold("door");
        stage.home.daemon().kill();
        stage.model.release("door");
        eventually("the turn is over", || (stage.model.requests().len() == 3).then_some(()));
        let row = stage.wait_sealed(&id);
        assert_eq!(
            (&row["state"], &row["claim_text"]),
            (&json!("completed"), &json!("meanwhile")),
            "{which:?}: {row:#}"
        );
        assert_eq!(stage.events_of(&id, "fact.reported").len(), 1, "{which:?}");
        let output = stage.model.requests()[2].request.last_output();
        assert!(output.contains("Noted."), "{which:?}: {output}");
    }
}

#[test]
fn resumed_thread_reports_but_sub_agent_does_not() {
    let of_child = report_call(TestedCodex::Pinned, "failed", "of a child");
    let of_main = report_call(TestedCodex::Pinned, "completed", "of the main agent");
    let scenario = format!(
        r#"
        [[thread]]
        when = {{ prompt = "Begin" }}
        turn = [
          {{ response = [{{ items = [{{ message = "Begun." }}] }}] }},
          {{ response = [
            {{ items = [{{ spawn = "CHILD task", name = "helper" }}] }},
            {{ items = [{{ wait_agents = true }}] }},
            {{ items = [{of_main}] }},
            {{ items = [{{ message = "Both are done." }}] }},
          ] }},
        ]
        [[thread]]
        when = {{ subagent = true }}
        turn = [{{ response = [
          {{ items = [{of_child}] }},
          {{ items = [{{ message = "The child is done." }}] }},
        ] }}]"#
    );
    let Some(stage) = CodexEnv::new(&scenario) else { return };
    let id = stage.spawn(&["--once", "Begin."]);
    stage.wait_sealed(&id);
    stage.home.provost(&["resume", &id, "Delegate it."]).ok();
    let row = stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!(
        (&row["state"], &row["claim_text"]),
        (&json!("completed"), &json!("of the main agent")),
        "{row:#}"
    );
    let requests = stage.model.requests();
    let children = requests.iter().filter(|made| made.request.is_subagent());
    let outputs: Vec<String> = children.map(|made| made.request.last_output()).collect();
    assert!(
        outputs.iter().any(|output| output.contains("only the main agent reports")),
        "{outputs:?}"
    );
    let claims = json!(stage.events_of(&id, "claim.made")).to_string();
    assert!(!claims.contains("of a child"), "{claims}");
}
