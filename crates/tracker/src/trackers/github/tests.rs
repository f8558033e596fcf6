//! Tests of parsing the output of `gh`, with a fake `gh` that prints the contents of files.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;

const GH: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo "$*" >> calls
case "$1 $2" in
"issue list") [ -e "list-$4.json" ] && exec cat "list-$4.json"; cat error >&2; exit "$(cat code)" ;;
"issue view") [ -e "view-$3.json" ] && exec cat "view-$3.json"; cat error >&2; exit "$(cat code)" ;;
esac
"#;

struct FakeGh {
    dir: tempfile::TempDir,
}

impl FakeGh {
    fn new() -> FakeGh {
        let stand = FakeGh { dir: tempfile::tempdir().unwrap() };
        stand.write("gh", GH);
        let gh = stand.dir.path().join("gh");
        fs::set_permissions(gh, fs::Permissions::from_mode(0o700)).unwrap();
        stand.fails(
            1,
            "GraphQL: Could not resolve to an issue or pull request with the number of 9.",
        );
        stand
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn fails(&self, code: i32, stderr: &str) {
        self.write("code", &code.to_string());
        self.write("error", stderr);
    }

    fn tracker(&self, provider: Value) -> GitHubTracker {
        let provider = Fields::new("tracker.provider", provider.as_object().unwrap().clone());
        let path = format!("{}:/usr/bin:/bin", self.dir.path().display());
        let environment: EnvironmentMap = [("PATH".to_owned(), path)].into();
        let (settings, _) = GitHubSettings::read(provider, self.dir.path(), &environment).unwrap();
        GitHubTracker::new(settings, environment)
    }

    fn calls(&self) -> String {
        fs::read_to_string(self.dir.path().join("calls")).unwrap_or_default()
    }
}

fn issue_json(number: u64, state: &str, labels: &[&str]) -> Value {
    let labels: Vec<Value> = labels.iter().map(|name| json!({"name": name})).collect();
    json!({"id": format!("I_{number}"), "number": number, "title": "Greet", "body": "Say hello.", "state": state,
        "labels": labels, "url": "https://example.invalid/1", "assignees": [{"login": "ann"}],
        "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "soon"})
}

#[test]
fn an_open_issue_is_read_with_its_labels() {
    let stand = FakeGh::new();
    let listed = json!([
        issue_json(1, "OPEN", &["Bug", "priority:2"]),
        issue_json(2, "OPEN", &["State: Human Review", "blocked"]),
    ]);
    stand.write("list-open.json", &listed.to_string());
    let found =
        stand.tracker(json!({})).issues_in_states(&States::new(["Open", "human review"])).unwrap();
    let (one, two) = (&found.issues[0], &found.issues[1]);
    assert_eq!((one.id.as_str(), one.identifier.as_str(), one.state.as_str()), ("1", "#1", "open"));
    assert_eq!((one.priority, one.dispatchable), (Some(2), true));
    assert_eq!((one.assignee_id.as_deref(), one.updated_at.as_deref()), (Some("ann"), None));
    assert_eq!(one.native_ref.as_ref().unwrap()["node_id"], "I_1");
    assert_eq!((two.state.as_str(), two.dispatchable), ("human review", false));
    let only = stand.tracker(json!({})).issues_in_states(&States::new(["open"])).unwrap();
    assert_eq!(only.issues.len(), 1);
    assert!(!stand.calls().contains("closed"), "closed issues were not asked for");
}

#[test]
fn issue_by_number_may_be_missing() {
    let stand = FakeGh::new();
    stand.write("view-1.json", &issue_json(1, "CLOSED", &["state:x"]).to_string());
    let tracker = stand.tracker(json!({"repo": "me/it"}));
    let ids = ["1", "9", "--web"].map(str::to_owned);
    let found = tracker.issues_by_ids(&ids).unwrap();
    assert_eq!((found.len(), found[0].state.as_str()), (1, "closed"));
    assert!(stand.calls().contains("--repo me/it"), "{}", stand.calls());
    assert!(!stand.calls().contains("view --web"), "{}", stand.calls());
}

#[test]
fn bad_gh_issue_warns_in_lists_fails_by_id() {
    let stand = FakeGh::new();
    let torn = issue_json(3, "OPEN", &["state:a", "state:b"]);
    stand.write(
        "list-open.json",
        &json!([issue_json(1, "OPEN", &[]), {"number": 2}, torn]).to_string(),
    );
    let found = stand.tracker(json!({})).issues_in_states(&States::new(["open"])).unwrap();
    assert_eq!((found.issues.len(), found.warnings.len()), (1, 2), "{found:?}");
    stand.write("view-2.json", "{\"number\": 2}");
    let refused = stand.tracker(json!({})).issues_by_ids(&["2".to_owned()]).unwrap_err();
    assert_eq!(refused.category(), "tracker_response");
}

#[test]
fn gh_errors_are_classified() {
    let stand = FakeGh::new();
    let category = || {
        let asked = stand.tracker(json!({})).issues_in_states(&States::new(["open"]));
        asked.unwrap_err().category()
    };
    stand.fails(4, "To get started with GitHub CLI, please run:  gh auth login");
    assert_eq!(category(), "missing_tracker_secret");
    stand.fails(1, "HTTP 403: API rate limit exceeded");
    assert_eq!(category(), "tracker_rate_limited");
    stand.fails(1, "error connecting to api.github.com");
    assert_eq!(category(), "tracker_request");
    stand.fails(1, "HTTP 502");
    assert_eq!(category(), "tracker_status");
    stand.write("list-open.json", "no json");
    assert_eq!(category(), "tracker_response");
    stand.write("list-open.json", &json!([issue_json(1, "OPEN", &[])]).to_string());
    let full = stand.tracker(json!({"limit": 1})).issues_in_states(&States::new(["open"]));
    assert_eq!(full.unwrap_err().category(), "tracker_pagination");
    fs::remove_file(stand.dir.path().join("gh")).unwrap();
    let asked = GitHubTracker {
        environment: [("PATH".to_owned(), "/nowhere".to_owned())].into(),
        ..stand.tracker(json!({}))
    };
    assert_eq!(asked.issues_by_ids(&["1".to_owned()]).unwrap_err().category(), "tracker_request");
}

#[test]
fn empty_query_runs_no_gh() {
    let stand = FakeGh::new();
    let tracker = stand.tracker(json!({}));
    assert_eq!(tracker.issues_in_states(&States::default()).unwrap(), IssueList::default());
    assert_eq!(tracker.issues_by_ids(&[]).unwrap(), []);
    assert_eq!(stand.calls(), "");
}

#[test]
fn option_like_repository_is_refused() {
    for bad in ["x", "--web/x", "a/b/c/d", "a b/c", "a//b"] {
        assert!(!is_repo(bad), "{bad}");
    }
    assert!(is_repo("me/it") && is_repo("github.example.com/me/it"));
}
