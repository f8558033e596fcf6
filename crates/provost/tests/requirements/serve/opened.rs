//! Which issues become runs, how many at once, and with which settings.

use std::fs;

use serde_json::{Value, json};

use super::kit::{FRONT, Served, UNTIL_GO, WORKS, of_kind, run_of};

#[test]
fn an_eligible_issue_becomes_a_run_that_lands() {
    let served = Served::new(WORKS);
    served.repo.write("provost.toml", "[verify]\nchecks = [\"grep -q work work.txt\"]\n");
    served.stage.trust(served.repo.path());
    served.issue("ABC-1", "todo");
    served.issue("ABC-2", "backlog");
    served.issue("ABC-3", "done");
    let events = served.once();
    let opened = of_kind(&events, "opened");
    assert_eq!(opened.len(), 1, "{events:?}");
    assert_eq!((&opened[0]["issue_id"], &opened[0]["attempt"]), (&json!("ABC-1"), &json!(0)));
    let row = served.sealed(run_of(opened[0]));
    assert_eq!((&row["state"], &row["name"]), (&json!("succeeded"), &json!("ABC-1")), "{row:#}");
    assert_eq!(row["goal"], "ABC-1: the work of ABC-1");
    let path = served.path().canonicalize().unwrap();
    let origin = json!({"workflow": path, "issue": "ABC-1", "identifier": "ABC-1", "attempt": 0});
    assert_eq!(row["origin"], origin);
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(served.repo.git(&["show", &format!("{branch}:work.txt")]), "work");
    let opened = &served.stage.events_of(run_of(opened[0]), "run.opened")[0];
    assert_eq!(opened["data"]["spec"]["spec"], "Do the work of ABC-1.");

    let again = served.once();
    assert_eq!(of_kind(&again, "opened").len(), 0, "{again:?}");
    assert_eq!(
        of_kind(&again, "held")[0]["why"],
        "its run succeeded; waiting for the issue to be moved"
    );
    assert_eq!(served.runs().len(), 1);
}

#[test]
fn no_more_issues_are_worked_on_at_once_than_is_allowed_and_the_most_urgent_first() {
    let served = Served::new(WORKS);
    served.workflow(&format!("{FRONT}agent: {{max_concurrent_agents: 1}}\n"));
    for (id, priority) in [("c", 1), ("b", 3), ("a", 2)] {
        served.issue_with(id, &format!("title: {id}\nstate: todo\npriority: {priority}\n"));
    }
    let serving = served.serve();
    let events = serving.until("ended", "b");
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
fn a_state_has_slots_of_its_own_and_a_label_may_be_required() {
    let served = Served::new(UNTIL_GO);
    served.workflow(&format!(
        "{}agent: {{max_concurrent_agents_by_state: {{' TODO ': 1}}}}\n",
        FRONT.replace("kind: file", "kind: file, required_labels: [' Agent ']")
    ));
    for (id, state, label) in [
        ("a", "todo", "agent"),
        ("b", "Todo", "AGENT"),
        ("c", "in progress", "agent"),
        ("d", "todo", "x"),
    ] {
        served.issue_with(id, &format!("title: {id}\nstate: {state}\nlabels: [{label}]\n"));
    }
    let events = served.once();
    let opened: Vec<&Value> =
        of_kind(&events, "opened").iter().map(|one| &one["issue_id"]).collect();
    assert_eq!(opened, ["a", "c"]);
    assert_eq!(of_kind(&events, "held")[0]["why"], "lacks the label \"agent\"");
    served.finish();
}

#[test]
fn an_issue_waits_for_those_that_block_it() {
    let served = Served::new(UNTIL_GO);
    served.issue("first", "todo");
    served.issue_with("second", "title: s\nstate: todo\nblocked_by: [first]\n");
    let serving = served.serve();
    let events = serving.until("opened", "first");
    assert_eq!(of_kind(&events, "held")[0]["issue_id"], "second");
    served.issue("first", "done");
    serving.event_of("opened", "second");
    served.finish();
}

#[test]
fn what_the_workflow_says_of_the_work_is_what_the_run_has() {
    let served = Served::new(WORKS);
    served.workflow(&format!(
        "{FRONT}hooks:\n  after_create: |\n    echo made > made.txt\nagent: {{max_turns: 7}}\n"
    ));
    served.issue("a", "todo");
    let events = served.once();
    let run = run_of(of_kind(&events, "opened")[0]);
    let row = served.sealed(run);
    assert_eq!(
        (&row["state"], &row["budget"]["turns"]),
        (&json!("completed"), &json!(7)),
        "{row:#}"
    );
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(served.repo.git(&["show", &format!("{branch}:made.txt")]), "made");
}

#[test]
fn a_template_that_fails_keeps_only_its_issue_back_until_it_is_mended() {
    let served = Served::new(WORKS);
    let text = |condition: &str| {
        format!("---\n{FRONT}---\n{{% if issue.id == 'bad' %}}{condition}{{% endif %}}Do it.")
    };
    served.workflow_text(&text("{{ issue.no_such_field }}"));
    served.issue("bad", "todo");
    served.issue("good", "todo");
    let serving = served.serve();
    let events = serving.until("opened", "good");
    let failed = of_kind(&events, "not_opened");
    assert_eq!((failed.len(), &failed[0]["issue_id"]), (1, &json!("bad")), "{events:?}");
    let message = failed[0]["message"].as_str().unwrap();
    assert!(message.contains("template_render_error"), "{message}");
    served.workflow_text(&text("{{ issue.title }}"));
    serving.event_of("opened", "bad");
    serving.event_of("ended", "bad");
    served.finish();
}

#[test]
fn lines_for_people_name_what_happens_and_steer_no_terminal() {
    let served = Served::new(WORKS);
    served.issue_with("a", "title: \"Say \\e[2Jhello\"\nstate: todo\n");
    fs::write(served.repo.path().join("issues/torn.md"), "---\ntitle: t\n---\n").unwrap();
    let path = served.path();
    let output = served.stage.home.provost(&["serve", "--once", path.to_str().unwrap()]);
    let output = &output.ok().stdout;
    assert!(output.contains("opened: Say ␛[2Jhello"), "{output}");
    assert!(output.contains("torn.md: it has no state"), "{output}");
    assert!(!output.contains('\u{1b}'), "{output:?}");
    served.finish();
}

/// Asks a question, and waits for the answer.
const ASKS: &str = "[[step]]\nemit = { type = \"request\", id = \"q\", kind = \"question\", blocking = true, title = \"?\", questions = [ { id = \"k\", options = [ { label = \"x\" } ] } ] }\n[[step]]\nhang = true\n";

#[test]
fn what_an_agent_asks_is_told_once_with_the_command_that_answers_it() {
    let served = Served::new(ASKS);
    served.issue("a", "todo");
    let serving = served.serve();
    let asks = serving.event_of("asks", "a");
    let command = asks["command"].as_str().unwrap();
    assert!(command.starts_with("provost answer "), "{command}");
    served.issue("a", "done");
    let events = serving.until("ended", "a");
    assert_eq!(of_kind(&events, "asks").len(), 0, "{events:?}");
}
