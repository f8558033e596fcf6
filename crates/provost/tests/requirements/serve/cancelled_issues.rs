//! Runs whose issue moves, that a user cancels, or whose agent falls silent.

use serde_json::json;

use super::serve_env::{FRONT_MATTER, ServeEnv, WORKS_UNTIL_RELEASED, filter_kind, run_id};

#[test]
fn finished_issue_cancels_its_run_and_keeps_work() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    let opened = serving.wait_issue_event("opened", "a");
    let run = run_id(&opened);
    let worktree = served.worktree_with(run, "work.txt");
    served.write_issue("a", "Done");
    let stopping = serving.wait_issue_event("stopping", "a");
    assert_eq!(stopping["why"], "the issue is \"Done\", a terminal state");
    assert_eq!(serving.wait_issue_event("ended", "a")["state"], "cancelled");
    let cleaned = serving.wait_event("cleaned");
    assert_eq!((&cleaned["run"], &cleaned["removed"]), (&json!(run), &json!([])));
    assert!(cleaned["kept"][0].as_str().unwrap().contains("work.txt"), "{cleaned}");
    assert_eq!(std::fs::read_to_string(worktree.join("work.txt")).unwrap(), "work\n");
}

#[test]
fn leftovers_of_finished_issues_go_at_startup() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.release_agents();
    served.write_issue("a", "todo");
    let events = served.serve_once();
    let run = run_id(filter_kind(&events, "opened")[0]);
    let row = served.wait_sealed(run);
    let session = row["sessions"][0]["id"].as_str().unwrap();
    let worktree = served.stage.status(session)["worktree"]["path"].as_str().unwrap().to_owned();
    assert!(std::path::Path::new(&worktree).exists());
    served.write_issue("a", "done");
    let events = served.serve_once();
    assert_eq!(filter_kind(&events, "cleaned")[0]["removed"], json!([worktree]), "{events:?}");
    assert!(!std::path::Path::new(&worktree).exists());
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(served.repo.git(&["show", &format!("{branch}:work.txt")]), "work", "the work stays");
    assert_eq!(filter_kind(&served.serve_once(), "cleaned").len(), 0);
}

#[test]
fn leftovers_go_when_the_issue_finishes() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.release_agents();
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    let ended = serving.wait_issue_event("ended", "a");
    assert_eq!(ended["state"], "completed", "{ended}");
    served.write_issue("a", "done");
    let cleaned = serving.wait_event("cleaned");
    assert_eq!((&cleaned["run"], &cleaned["kept"]), (&ended["run"], &json!([])), "{cleaned}");
    let gone = cleaned["removed"][0].as_str().unwrap();
    assert!(!std::path::Path::new(gone).exists());
}

#[test]
fn invalid_issue_file_is_reported_once() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "a");
    served.write_issue_with("bad", "title: [\n");
    let failure = serving.wait_event("tracker_failed");
    assert_eq!(failure["category"], "tracker_response", "{failure}");
    // Each of these is seen by a separate poll.
    for id in ["b", "c", "d"] {
        served.write_issue(id, "backlog");
    }
    std::fs::remove_file(served.repo.path().join("issues/bad.md")).unwrap();
    served.release_agents();
    let events = serving.events_until("ended", "a");
    assert_eq!(filter_kind(&events, "tracker_failed").len(), 0, "{events:?}");
}

#[test]
fn deferred_issue_cancels_run_and_restarts_later() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "a");
    served.write_issue("a", "Human Review");
    let stopping = serving.wait_issue_event("stopping", "a");
    assert_eq!(stopping["why"], "the issue is \"Human Review\", which is not an active state");
    serving.wait_issue_event("ended", "a");
    served.write_issue("a", "in progress");
    let events = serving.events_until("opened", "a");
    assert_eq!(filter_kind(&events, "cleaned").len(), 0, "{events:?}");
    assert_eq!(events.last().unwrap()["attempt"], 1);
    served.cancel_open_runs();
}

#[test]
fn issue_without_label_or_file_cancels_its_run() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_workflow(
        &FRONT_MATTER.replace("kind: file", "kind: file, required_labels: [agent]"),
    );
    for id in ["a", "b"] {
        served.write_issue_with(id, &format!("title: {id}\nstate: todo\nlabels: [agent]\n"));
    }
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "b");
    served.write_issue("a", "todo");
    let stopping = serving.wait_issue_event("stopping", "a");
    assert_eq!(stopping["why"], "work on the issue is no longer allowed");
    std::fs::remove_file(served.repo.path().join("issues/b.md")).unwrap();
    assert_eq!(serving.wait_issue_event("stopping", "b")["why"], "the issue no longer exists");
    served.cancel_open_runs();
}

#[test]
fn unreadable_tracker_stops_nothing() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "a");
    let (issues, aside) = (served.repo.path().join("issues"), served.repo.path().join("aside"));
    std::fs::rename(&issues, &aside).unwrap();
    assert_eq!(serving.wait_event("tracker_failed")["category"], "tracker_request");
    std::fs::rename(&aside, &issues).unwrap();
    served.release_agents();
    assert_eq!(serving.wait_issue_event("ended", "a")["state"], "completed");
}

#[test]
fn user_cancelled_run_waits_for_issue_to_move() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    let opened = serving.wait_issue_event("opened", "a");
    served.stage.home.provost(&["cancel", run_id(&opened)]).ok();
    serving.wait_issue_event("ended", "a");
    let events = serving.events_until("waiting", "a");
    assert_eq!(
        events.last().unwrap()["why"],
        "a user cancelled the run; waiting for the issue to be moved"
    );
    assert_eq!(filter_kind(&served.serve_once(), "opened").len(), 0);
    served.write_issue("a", "backlog");
    served.write_issue("other", "todo");
    serving.wait_issue_event("opened", "other");
    served.write_issue("a", "todo");
    assert_eq!(serving.wait_issue_event("opened", "a")["attempt"], 1);
    served.cancel_open_runs();
}

/// Starts a turn and then falls silent.
const FALLS_SILENT: &str =
    "[[step]]\nemit = { type = \"turn_started\", turn = \"t1\" }\n[[step]]\nhang = true\n";

#[test]
fn silent_agent_is_stopped_and_retried() {
    let served = ServeEnv::new(FALLS_SILENT);
    served.write_workflow(&format!(
        "{}codex: {{stall_timeout_ms: 50}}\nagent: {{max_retry_backoff_ms: 1}}\n",
        FRONT_MATTER.replace("agent: talker", "agent: talker, max_retries: 1")
    ));
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "a");
    assert_eq!(
        serving.wait_issue_event("stopping", "a")["why"],
        "the agent was silent for too long"
    );
    assert_eq!(serving.wait_issue_event("opened", "a")["attempt"], 1);
    let held = serving.wait_issue_event("ended", "a");
    assert_eq!(held["state"], "cancelled");
    let why = serving.wait_issue_event("waiting", "a");
    assert_eq!(
        why["why"],
        "failed 2 times and will not be retried: the agent was silent for too long"
    );
}
