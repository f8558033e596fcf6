//! The effect on a run when its issue moves, a user cancels it, or its agent falls silent.

use serde_json::json;

use super::kit::{FRONT, Served, UNTIL_GO, of_kind, run_of};

#[test]
fn an_issue_that_is_done_with_cancels_its_run_and_no_work_is_lost() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    let opened = serving.event_of("opened", "a");
    let run = run_of(&opened);
    let worktree = served.worktree_with(run, "work.txt");
    served.issue("a", "Done");
    let stopping = serving.event_of("stopping", "a");
    assert_eq!(stopping["why"], "its issue is \"Done\", a terminal state");
    assert_eq!(serving.event_of("ended", "a")["state"], "cancelled");
    let cleaned = serving.event("cleaned");
    assert_eq!((&cleaned["run"], &cleaned["removed"]), (&json!(run), &json!([])));
    assert!(cleaned["kept"][0].as_str().unwrap().contains("work.txt"), "{cleaned}");
    assert_eq!(std::fs::read_to_string(worktree.join("work.txt")).unwrap(), "work\n");
}

#[test]
fn what_an_ended_run_of_an_issue_that_is_done_with_left_goes_when_serving_begins() {
    let served = Served::new(UNTIL_GO);
    served.go();
    served.issue("a", "todo");
    let events = served.once();
    let run = run_of(of_kind(&events, "opened")[0]);
    let row = served.sealed(run);
    let session = row["sessions"][0]["id"].as_str().unwrap();
    let worktree = served.stage.status(session)["worktree"]["path"].as_str().unwrap().to_owned();
    assert!(std::path::Path::new(&worktree).exists());
    served.issue("a", "done");
    let events = served.once();
    assert_eq!(of_kind(&events, "cleaned")[0]["removed"], json!([worktree]), "{events:?}");
    assert!(!std::path::Path::new(&worktree).exists());
    let branch = row["landing"]["branch"].as_str().unwrap();
    assert_eq!(served.repo.git(&["show", &format!("{branch}:work.txt")]), "work", "the work stays");
    assert_eq!(of_kind(&served.once(), "cleaned").len(), 0);
}

#[test]
fn what_an_ended_run_left_goes_once_its_issue_is_done_with_while_serving_goes_on() {
    let served = Served::new(UNTIL_GO);
    served.go();
    served.issue("a", "todo");
    let serving = served.serve();
    let ended = serving.event_of("ended", "a");
    assert_eq!(ended["state"], "completed", "{ended}");
    served.issue("a", "done");
    let cleaned = serving.event("cleaned");
    assert_eq!((&cleaned["run"], &cleaned["kept"]), (&ended["run"], &json!([])), "{cleaned}");
    let gone = cleaned["removed"][0].as_str().unwrap();
    assert!(!std::path::Path::new(gone).exists());
}

#[test]
fn a_file_that_is_no_issue_is_told_once_while_a_run_goes_on() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    serving.event_of("opened", "a");
    served.issue_with("bad", "title: [\n");
    let failure = serving.event("tracker_failed");
    assert_eq!(failure["category"], "tracker_response", "{failure}");
    // Each of these is seen by a separate poll.
    for id in ["b", "c", "d"] {
        served.issue(id, "backlog");
    }
    std::fs::remove_file(served.repo.path().join("issues/bad.md")).unwrap();
    served.go();
    let events = serving.until("ended", "a");
    assert_eq!(of_kind(&events, "tracker_failed").len(), 0, "{events:?}");
}

#[test]
fn an_issue_that_is_put_aside_cancels_its_run_and_begins_anew_when_it_comes_back() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    serving.event_of("opened", "a");
    served.issue("a", "Human Review");
    let stopping = serving.event_of("stopping", "a");
    assert_eq!(stopping["why"], "its issue is \"Human Review\", which is not active");
    serving.event_of("ended", "a");
    served.issue("a", "in progress");
    let events = serving.until("opened", "a");
    assert_eq!(of_kind(&events, "cleaned").len(), 0, "{events:?}");
    assert_eq!(events.last().unwrap()["attempt"], 1);
    served.finish();
}

#[test]
fn an_issue_that_lost_its_label_or_its_file_cancels_its_run() {
    let served = Served::new(UNTIL_GO);
    served.workflow(&FRONT.replace("kind: file", "kind: file, required_labels: [agent]"));
    for id in ["a", "b"] {
        served.issue_with(id, &format!("title: {id}\nstate: todo\nlabels: [agent]\n"));
    }
    let serving = served.serve();
    serving.event_of("opened", "b");
    served.issue("a", "todo");
    let stopping = serving.event_of("stopping", "a");
    assert_eq!(stopping["why"], "its issue may no longer be worked on");
    std::fs::remove_file(served.repo.path().join("issues/b.md")).unwrap();
    assert_eq!(serving.event_of("stopping", "b")["why"], "its issue no longer exists");
    served.finish();
}

#[test]
fn a_tracker_that_cannot_be_read_stops_nothing() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    serving.event_of("opened", "a");
    let (issues, aside) = (served.repo.path().join("issues"), served.repo.path().join("aside"));
    std::fs::rename(&issues, &aside).unwrap();
    assert_eq!(serving.event("tracker_failed")["category"], "tracker_request");
    std::fs::rename(&aside, &issues).unwrap();
    served.go();
    assert_eq!(serving.event_of("ended", "a")["state"], "completed");
}

#[test]
fn a_run_that_a_person_cancelled_is_not_opened_again_until_its_issue_was_moved() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    let opened = serving.event_of("opened", "a");
    served.stage.home.provost(&["cancel", run_of(&opened)]).ok();
    serving.event_of("ended", "a");
    let events = serving.until("held", "a");
    assert_eq!(
        events.last().unwrap()["why"],
        "its run was cancelled by a user; waiting for the issue to be moved"
    );
    assert_eq!(of_kind(&served.once(), "opened").len(), 0);
    served.issue("a", "backlog");
    served.issue("other", "todo");
    serving.event_of("opened", "other");
    served.issue("a", "todo");
    assert_eq!(serving.event_of("opened", "a")["attempt"], 1);
    served.finish();
}

/// Starts a turn and then falls silent.
const SILENT: &str =
    "[[step]]\nemit = { type = \"turn_started\", turn = \"t1\" }\n[[step]]\nhang = true\n";

#[test]
fn an_agent_that_is_silent_for_too_long_is_given_up_and_tried_again() {
    let served = Served::new(SILENT);
    served.workflow(&format!(
        "{}codex: {{stall_timeout_ms: 50}}\nagent: {{max_retry_backoff_ms: 1}}\n",
        FRONT.replace("agent: talker", "agent: talker, max_retries: 1")
    ));
    served.issue("a", "todo");
    let serving = served.serve();
    serving.event_of("opened", "a");
    assert_eq!(serving.event_of("stopping", "a")["why"], "its agent was silent for too long");
    assert_eq!(serving.event_of("opened", "a")["attempt"], 1);
    let held = serving.event_of("ended", "a");
    assert_eq!(held["state"], "cancelled");
    let why = serving.event_of("held", "a");
    assert_eq!(
        why["why"],
        "failed 2 times and will not be retried: its agent was silent for too long"
    );
}
