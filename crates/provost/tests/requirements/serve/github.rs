//! GitHub issues, through a fake `gh` that answers from files.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use super::kit::{Served, UNTIL_GO, of_kind, run_of};

const GH: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case "$1 $2" in
"issue list") cat "$4.json" ;;
"issue view") cat "view-$3.json" 2>/dev/null || { echo "GraphQL: Could not resolve to an issue or pull request with the number of $3." >&2; exit 1; } ;;
*) echo "what is $*" >&2; exit 1 ;;
esac
"#;

const FRONT: &str = "tracker: {kind: github, provider: {repo: me/it}, required_labels: [agent]}\npolling: {interval_ms: 100}\nprovost: {agent: talker}\n";

struct Forge {
    dir: PathBuf,
}

impl Forge {
    fn new(served: &mut Served) -> Forge {
        let dir = served.stage.home.root().join("forge");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("gh"), GH).unwrap();
        fs::set_permissions(dir.join("gh"), fs::Permissions::from_mode(0o700)).unwrap();
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", dir.display());
        served.stage.home.set_env("PATH", path);
        served.workflow(FRONT);
        let forge = Forge { dir };
        forge.show(&[]);
        forge
    }

    fn write(&self, name: &str, value: &Value) {
        let unfinished = self.dir.join(format!("{name}.new"));
        fs::write(&unfinished, value.to_string()).unwrap();
        fs::rename(unfinished, self.dir.join(name)).unwrap();
    }

    /// Sets the issues, each with its number, its state and its labels.
    fn show(&self, issues: &[(u64, &str, &[&str])]) {
        let issue_json = |(number, state, labels): &(u64, &str, &[&str])| {
            let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
            let value = json!({"number": number, "title": "Greet", "body": "Say hello.", "state": state,
                "labels": labels, "url": format!("https://example.invalid/{number}")});
            self.write(&format!("view-{number}.json"), &value);
            value
        };
        let all: Vec<Value> = issues.iter().map(issue_json).collect();
        for state in ["open", "closed"] {
            let of: Vec<&Value> =
                all.iter().filter(|one| one["state"] == state.to_uppercase()).collect();
            self.write(&format!("{state}.json"), &json!(of));
        }
    }
}

#[test]
fn an_issue_of_github_becomes_a_run_and_closing_it_cancels_that() {
    let mut served = Served::new(UNTIL_GO);
    let forge = Forge::new(&mut served);
    forge.show(&[
        (7, "OPEN", &["Agent", "priority:1"]),
        (8, "OPEN", &["bug"]),
        (9, "OPEN", &["agent", "blocked"]),
    ]);
    let serving = served.serve();
    let events = serving.until("opened", "#7");
    let opened = events.last().unwrap();
    assert_eq!(
        (&opened["issue_id"], &opened["url"]),
        (&json!("7"), &json!("https://example.invalid/7"))
    );
    assert_eq!(of_kind(&events, "held").len(), 2, "{events:?}");
    let row = served.stage.status(run_of(opened));
    assert_eq!((&row["goal"], &row["origin"]["identifier"]), (&json!("#7: Greet"), &json!("#7")));
    forge.show(&[(7, "CLOSED", &["agent"])]);
    let stopping = serving.event_of("stopping", "#7");
    assert_eq!(stopping["why"], "its issue is \"closed\", a terminal state");
    assert_eq!(serving.event_of("ended", "#7")["state"], "cancelled");
}

#[test]
fn a_label_puts_an_issue_aside() {
    let mut served = Served::new(UNTIL_GO);
    let forge = Forge::new(&mut served);
    forge.show(&[(7, "OPEN", &["agent"])]);
    let serving = served.serve();
    serving.event_of("opened", "#7");
    forge.show(&[(7, "OPEN", &["agent", "state:human review"])]);
    let stopping = serving.event_of("stopping", "#7");
    assert_eq!(stopping["why"], "its issue is \"human review\", which is not active");
    serving.event_of("ended", "#7");
}

#[test]
fn without_an_answer_of_gh_nothing_is_begun_or_stopped_and_one_look_fails() {
    let mut served = Served::new(UNTIL_GO);
    let forge = Forge::new(&mut served);
    forge.show(&[(7, "OPEN", &["agent"])]);
    served.once();
    fs::remove_file(forge.dir.join("open.json")).unwrap();
    fs::write(forge.dir.join("view-7.json"), "half").unwrap();
    let output = served.once_output();
    let events = output.exits(1).json_lines();
    let failed: Vec<&Value> =
        of_kind(&events, "tracker_failed").iter().map(|one| &one["category"]).collect();
    assert_eq!(failed, ["tracker_response", "tracker_status"], "{events:?}");
    assert_eq!(served.states(), [("#7".to_owned(), 0, "running".to_owned())]);
    served.finish();
}

/// Records its environment.
const SHOWS: &str = "[[step]]\nrun = [\"sh\", \"-c\", \"env > ROOT/env.new && mv ROOT/env.new ROOT/env\"]\n[[step]]\nwrite = { path = \"work.txt\", content = \"work\" }\n[[step]]\nreport = \"completed\"\n";

#[test]
fn the_token_of_gh_reaches_no_agent() {
    let mut served = Served::new(SHOWS);
    let forge = Forge::new(&mut served);
    for name in ["GH_TOKEN", "GITHUB_TOKEN"] {
        served.stage.home.set_env(name, "not-for-agents");
    }
    forge.show(&[(7, "OPEN", &["agent"])]);
    let events = served.once();
    served.sealed(run_of(of_kind(&events, "opened")[0]));
    let given = fs::read_to_string(served.stage.file("env")).unwrap();
    assert!(given.contains("PROVOST_SESSION=") && !given.contains("not-for-agents"), "{given}");
}
