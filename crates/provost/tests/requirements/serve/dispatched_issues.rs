//! Which issues become runs, how many at once, and with which settings.

use std::fs;

use serde_json::{Value, json};

use super::serve_env::{FRONT_MATTER, ServeEnv, WORKS, WORKS_UNTIL_RELEASED, filter_kind, run_id};

#[test]
fn eligible_issue_becomes_a_landed_run() {
    let served = ServeEnv::new(WORKS);
    served.repo.write("provost.toml", "[verify]\nchecks = [\"grep -q work work.txt\"]\n");
    served.stage.trust(served.repo.path());
    served.write_issue("ABC-1", "todo");
    served.write_issue("ABC-2", "backlog");
    served.write_issue("ABC-3", "done");
    let events = served.serve_once();
    let opened = filter_kind(&events, "opened");
    assert_eq!(opened.len(), 1, "{events:?}");
    assert_eq!((&opened[0]["issue_id"], &opened[0]["attempt"]), (&json!("ABC-1"), &json!(0)));
    let row = served.wait_sealed(run_id(opened[0]));
    assert_eq!((&row["state"], &row["name"]), (&json!("succeeded"), &json!("ABC-1")), "{row:#}");
    assert_eq!(row["goal"], "ABC-1: the work of ABC-1");
    let path = served.workflow_path().canonicalize().unwrap();
    let origin = json!({"workflow": path, "issue": "ABC-1", "identifier": "ABC-1", "attempt": 0});
    assert_eq!(row["origin"], origin);
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(served.repo.git(&["show", &format!("{branch}:work.txt")]), "work");
    let opened = &served.stage.events_of(run_id(opened[0]), "run.opened")[0];
    assert_eq!(opened["data"]["spec"]["spec"], "Do the work of ABC-1.");

    let again = served.serve_once();
    assert_eq!(filter_kind(&again, "opened").len(), 0, "{again:?}");
    assert_eq!(
        filter_kind(&again, "waiting")[0]["why"],
        "the run succeeded; waiting for the issue to be moved"
    );
    assert_eq!(served.runs().len(), 1);
}

#[test]
fn concurrency_limit_prefers_urgent_issues() {
    let served = ServeEnv::new(WORKS);
    served.write_workflow(&format!("{FRONT_MATTER}agent: {{max_concurrent_agents: 1}}\n"));
    for (id, priority) in [("c", 1), ("b", 3), ("a", 2)] {
        served.write_issue_with(id, &format!("title: {id}\nstate: todo\npriority: {priority}\n"));
    }
    let serving = served.start_serving();
    let events = serving.events_until("ended", "b");
    let started: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event["event"] == "opened" || event["event"] == "ended")
        .map(|event| (event["event"].as_str().unwrap(), event["issue_id"].as_str().unwrap()))
        .collect();
    let expected = [
        ("opened", "c"),
        ("ended", "c"),
        ("opened", "a"),
        ("ended", "a"),
        ("opened", "b"),
        ("ended", "b"),
    ];
    assert_eq!(started, expected);
}

#[test]
fn state_slots_and_required_labels_apply() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_workflow(&format!(
        "{}agent: {{max_concurrent_agents_by_state: {{' TODO ': 1}}}}\n",
        FRONT_MATTER.replace("kind: file", "kind: file, required_labels: [' Agent ']")
    ));
    for (id, state, label) in [
        ("a", "todo", "agent"),
        ("b", "Todo", "AGENT"),
        ("c", "in progress", "agent"),
        ("d", "todo", "x"),
    ] {
        served.write_issue_with(id, &format!("title: {id}\nstate: {state}\nlabels: [{label}]\n"));
    }
    let events = served.serve_once();
    let opened: Vec<&Value> =
        filter_kind(&events, "opened").iter().map(|one| &one["issue_id"]).collect();
    assert_eq!(opened, ["a", "c"]);
    assert_eq!(filter_kind(&events, "waiting")[0]["why"], "lacks the label \"agent\"");
    served.cancel_open_runs();
}

#[test]
fn blocked_issue_waits_for_its_blockers() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("first", "todo");
    served.write_issue_with("second", "title: s\nstate: todo\nblocked_by: [first]\n");
    let serving = served.start_serving();
    let events = serving.events_until("opened", "first");
    assert_eq!(filter_kind(&events, "waiting")[0]["issue_id"], "second");
    served.write_issue("first", "done");
    serving.wait_issue_event("opened", "second");
    served.cancel_open_runs();
}

#[test]
fn run_uses_the_workflow_settings() {
    let served = ServeEnv::new(WORKS);
    served.write_workflow(&format!(
        "{FRONT_MATTER}hooks:\n  after_create: |\n    echo made > made.txt\nagent: {{max_turns: 7}}\n"
    ));
    served.write_issue("a", "todo");
    let events = served.serve_once();
    let run = run_id(filter_kind(&events, "opened")[0]);
    let row = served.wait_sealed(run);
    assert_eq!(
        (&row["state"], &row["budget"]["turns"]),
        (&json!("completed"), &json!(7)),
        "{row:#}"
    );
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(served.repo.git(&["show", &format!("{branch}:made.txt")]), "made");
}

#[test]
fn broken_template_blocks_only_its_issue() {
    let served = ServeEnv::new(WORKS);
    let text = |condition: &str| {
        format!(
            "---\n{FRONT_MATTER}---\n{{% if issue.id == 'bad' %}}{condition}{{% endif %}}Do it."
        )
    };
    served.write_workflow_text(&text("{{ issue.no_such_field }}"));
    served.write_issue("bad", "todo");
    served.write_issue("good", "todo");
    let serving = served.start_serving();
    let events = serving.events_until("opened", "good");
    let failed = filter_kind(&events, "not_opened");
    assert_eq!((failed.len(), &failed[0]["issue_id"]), (1, &json!("bad")), "{events:?}");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("template_render_error"), "{message}");
    served.write_workflow_text(&text("{{ issue.title }}"));
    serving.wait_issue_event("opened", "bad");
    serving.wait_issue_event("ended", "bad");
    served.cancel_open_runs();
}

#[test]
fn text_lines_name_events_without_controls() {
    let served = ServeEnv::new(WORKS);
    served.write_issue_with("a", "title: \"Say \\e[2Jhello\"\nstate: todo\n");
    fs::write(served.repo.path().join("issues/torn.md"), "---\ntitle: t\n---\n").unwrap();
    let path = served.workflow_path();
    let output = served.stage.home.provost(&["serve", "--once", path.to_str().unwrap()]);
    let output = &output.ok().stdout;
    assert!(output.contains("opened: Say ␛[2Jhello"), "{output}");
    assert!(output.contains("torn.md: the issue has no state"), "{output}");
    assert!(!output.contains('\u{1b}'), "{output:?}");
    served.cancel_open_runs();
}

/// Asks a question, and waits for the answer.
const ASKS_AND_WAITS: &str = "[[step]]\nemit = { type = \"request\", id = \"q\", kind = \"question\", blocking = true, title = \"?\", questions = [ { id = \"k\", options = [ { label = \"x\" } ] } ] }\n[[step]]\nhang = true\n";

#[test]
fn question_is_reported_once_with_answer_command() {
    let served = ServeEnv::new(ASKS_AND_WAITS);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    let asks = serving.wait_issue_event("needs_input", "a");
    let command = asks["command"].as_str().unwrap();
    assert!(command.starts_with("provost answer "), "{command}");
    served.write_issue("a", "done");
    let events = serving.events_until("ended", "a");
    assert_eq!(filter_kind(&events, "needs_input").len(), 0, "{events:?}");
}
