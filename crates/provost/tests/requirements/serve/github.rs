//! GitHub issues, through a fake `gh` that answers from files.

use std::fs;

use provost_testkit::forge::FakeForge;
use serde_json::{Value, json};

use super::serve_env::{ServeEnv, WORKS_UNTIL_RELEASED, filter_kind, run_id};

const FAKE_GH: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2" in
"issue list") cat "$4.json" ;;
"issue view") cat "view-$3.json" 2>/dev/null || { echo "GraphQL: Could not resolve to an issue or pull request with the number of $3." >&2; exit 1; } ;;
*) echo "what is $*" >&2; exit 1 ;;
esac
"#;

const GITHUB_FRONT_MATTER: &str = "tracker: {kind: github, provider: {repo: me/it}, required_labels: [agent]}\npolling: {interval_ms: 100}\nprovost: {agent: talker}\n";

struct FakeGithub(FakeForge);

impl FakeGithub {
    fn new(served: &mut ServeEnv) -> FakeGithub {
        let forge = FakeGithub(FakeForge::new(&mut served.stage.home, FAKE_GH));
        served.write_workflow(GITHUB_FRONT_MATTER);
        forge.set_issues(&[]);
        forge
    }

    /// Sets the issues, each with its number, its state and its labels.
    fn set_issues(&self, issues: &[(u64, &str, &[&str])]) {
        let issue_json = |(number, state, labels): &(u64, &str, &[&str])| {
            let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
            let value = json!({"number": number, "title": "Greet", "body": "Say hello.", "state": state,
                "labels": labels, "url": format!("https://example.invalid/{number}")});
            self.0.write_json(&format!("view-{number}.json"), &value);
            value
        };
        let all: Vec<Value> = issues.iter().map(issue_json).collect();
        for state in ["open", "closed"] {
            let of: Vec<&Value> =
                all.iter().filter(|one| one["state"] == state.to_uppercase()).collect();
            self.0.write_json(&format!("{state}.json"), &json!(of));
        }
    }
}

#[test]
fn github_issue_opens_run_and_close_cancels_it() {
    let mut served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    let forge = FakeGithub::new(&mut served);
    forge.set_issues(&[
        (7, "OPEN", &["Agent", "priority:1"]),
        (8, "OPEN", &["bug"]),
        (9, "OPEN", &["agent", "blocked"]),
    ]);
    let serving = served.start_serving();
    let events = serving.events_until("opened", "#7");
    let opened = events.last().unwrap();
    assert_eq!(
        (&opened["issue_id"], &opened["url"]),
        (&json!("7"), &json!("https://example.invalid/7"))
    );
    assert_eq!(filter_kind(&events, "waiting").len(), 2, "{events:?}");
    let row = served.stage.status(run_id(opened));
    assert_eq!((&row["goal"], &row["origin"]["identifier"]), (&json!("#7: Greet"), &json!("#7")));
    forge.set_issues(&[(7, "CLOSED", &["agent"])]);
    let stopping = serving.wait_issue_event("stopping", "#7");
    assert_eq!(stopping["why"], "the issue is \"closed\", a terminal state");
    assert_eq!(serving.wait_issue_event("ended", "#7")["state"], "cancelled");
}

#[test]
fn label_excludes_an_issue() {
    let mut served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    let forge = FakeGithub::new(&mut served);
    forge.set_issues(&[(7, "OPEN", &["agent"])]);
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "#7");
    forge.set_issues(&[(7, "OPEN", &["agent", "state:human review"])]);
    let stopping = serving.wait_issue_event("stopping", "#7");
    assert_eq!(stopping["why"], "the issue is \"human review\", which is not an active state");
    serving.wait_issue_event("ended", "#7");
}

#[test]
fn failing_gh_starts_and_stops_nothing() {
    let mut served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    let forge = FakeGithub::new(&mut served);
    forge.set_issues(&[(7, "OPEN", &["agent"])]);
    served.serve_once();
    fs::remove_file(forge.0.path("open.json")).unwrap();
    fs::write(forge.0.path("view-7.json"), "half").unwrap();
    let output = served.serve_once_output();
    let events = output.assert_code(1).json_lines();
    let failed: Vec<&Value> =
        filter_kind(&events, "tracker_failed").iter().map(|one| &one["category"]).collect();
    assert_eq!(failed, ["tracker_response", "tracker_status"], "{events:?}");
    assert_eq!(served.run_states(), [("#7".to_owned(), 0, "running".to_owned())]);
    served.cancel_open_runs();
}

/// Records its environment.
const WRITES_ITS_ENV: &str = "[[step]]\nrun = [\"sh\", \"-c\", \"env > ROOT/env.new && mv ROOT/env.new ROOT/env\"]\n[[step]]\nwrite = { path = \"work.txt\", content = \"work\" }\n[[step]]\nreport = \"completed\"\n";

#[test]
fn gh_token_reaches_no_agent() {
    let mut served = ServeEnv::new(WRITES_ITS_ENV);
    let forge = FakeGithub::new(&mut served);
    for name in ["GH_TOKEN", "GITHUB_TOKEN"] {
        served.stage.home.set_env(name, "not-for-agents");
    }
    forge.set_issues(&[(7, "OPEN", &["agent"])]);
    let events = served.serve_once();
    served.wait_sealed(run_id(filter_kind(&events, "opened")[0]));
    let given = fs::read_to_string(served.stage.file("env")).unwrap();
    assert!(given.contains("PROVOST_SESSION=") && !given.contains("not-for-agents"), "{given}");
}
