//! No action is repeated, despite retries, restarts at any moment, and two servers for the same
//! tracker.

use std::collections::BTreeSet;

use serde_json::json;

use super::serve_env::{
    FAILS, FRONT_MATTER, ServeEnv, WORKS, WORKS_UNTIL_RELEASED, filter_kind, run_id,
};
use provost_testkit::env::{interrupt, kill};

#[test]
fn failed_run_is_retried_with_backoff_and_limit() {
    let served = ServeEnv::new(FAILS);
    served.write_workflow(&format!(
        "{}agent: {{max_retry_backoff_ms: 200}}\n",
        FRONT_MATTER.replace("agent: talker", "agent: talker, max_retries: 2")
    ));
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    for attempt in 0..3 {
        assert_eq!(serving.wait_issue_event("opened", "a")["attempt"], attempt);
        serving.wait_issue_event("ended", "a");
    }
    // The pause is reported only if it had not elapsed before the next poll.
    serving.0.wait_line("the last word", |line| {
        line.contains("failed 3 times and will not be retried").then_some(())
    });
    let runs = served.runs();
    let times: Vec<(i64, i64)> = runs
        .iter()
        .map(|run| (run["opened_at"].as_i64().unwrap(), run["sealed_at"].as_i64().unwrap()))
        .collect();
    assert!(
        times.windows(2).all(|two| two[1].0 >= two[0].1 + 200),
        "a pause lies between: {times:?}"
    );
    let spec = &served.stage.events_of(runs[2]["id"].as_str().unwrap(), "run.opened")[0];
    assert_eq!(spec["data"]["spec"]["spec"], "Do the work of a. Try 2.");
    // A later server also knows the number of retries.
    let later = served.serve_once();
    assert_eq!(filter_kind(&later, "opened").len(), 0, "{later:?}");
    assert_eq!(served.runs().len(), 3);
}

#[test]
fn retry_backoff_survives_restart() {
    let served = ServeEnv::new(FAILS);
    served.write_issue("a", "todo");
    let events = served.serve_once();
    served.wait_sealed(run_id(filter_kind(&events, "opened")[0]));
    served.serve_once();
    // On a busy machine the ten seconds may be over. Only then may another run exist.
    let runs = served.runs();
    let ended = runs[0]["sealed_at"].as_i64().unwrap();
    let mut others = runs[1..].iter().map(|run| run["opened_at"].as_i64().unwrap());
    assert!(others.all(|opened| opened >= ended + 10_000), "{runs:#?}");
}

#[test]
fn successful_run_is_continued_if_configured() {
    let served = ServeEnv::new(WORKS);
    served.write_workflow(
        &FRONT_MATTER.replace("agent: talker", "agent: talker, max_continuations: 1"),
    );
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    assert_eq!(serving.wait_issue_event("opened", "a")["attempt"], 0);
    assert_eq!(serving.wait_issue_event("opened", "a")["attempt"], 1);
    serving.wait_issue_event("ended", "a");
    let held = serving.wait_issue_event("waiting", "a");
    assert_eq!(held["why"], "the run succeeded; waiting for the issue to be moved");
}

#[test]
fn restarted_serve_opens_no_run_twice() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    served.write_issue("b", "todo");
    let serving = served.start_serving();
    let opened = serving.wait_issue_event("opened", "a");
    kill(serving.0.pid());
    let serving = served.start_serving();
    assert_eq!(run_id(&serving.wait_issue_event("continues", "a")), run_id(&opened));
    served.write_issue("c", "todo");
    serving.wait_issue_event("opened", "c");
    served.release_agents();
    let ended: BTreeSet<String> =
        (0..3).map(|_| run_id(&serving.wait_event("ended")).to_owned()).collect();
    assert_eq!(ended.len(), 3);
    let states = served.run_states();
    let done = |id: &str| (id.to_owned(), 0, "completed".to_owned());
    let found: BTreeSet<_> = states.iter().cloned().collect();
    assert_eq!((states.len(), found), (3, ["a", "b", "c"].map(done).into()));
}

#[test]
fn serve_killed_anywhere_opens_no_run_twice() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    let ids = ["a", "b", "c", "d", "e"];
    ids.iter().for_each(|id| served.write_issue(id, "todo"));
    // Each server is killed as soon as it reports an event, at a random point of the next step.
    for _ in 0..12 {
        let serving = served.start_serving();
        serving.0.wait_line("anything", |line| {
            (line.contains("opened") || line.contains("continues")).then_some(())
        });
        kill(serving.0.pid());
    }
    served.serve_once();
    let found: Vec<String> = served.run_states().into_iter().map(|(id, ..)| id).collect();
    let all: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!((found.len(), all), (ids.len(), ids.map(str::to_owned).into()));
    served.cancel_open_runs();
}

#[test]
fn two_servers_open_one_run_per_issue() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    let (one, other) = (served.start_serving(), served.start_serving());
    one.wait_event("serving");
    other.wait_event("serving");
    let ids = ["a", "b", "c", "d"];
    ids.iter().for_each(|id| served.write_issue(id, "todo"));
    for id in ids {
        for serving in [&one, &other] {
            serving.0.wait_line(id, |line| {
                let is_ours = line.contains("\"opened\"") || line.contains("\"continues\"");
                (is_ours && line.contains("\"run\"")).then_some(())
            });
        }
    }
    let found: Vec<String> = served.run_states().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(found.len(), ids.len(), "{found:?}");
    served.cancel_open_runs();
}

#[test]
fn dead_daemon_is_restarted_without_duplicate_runs() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let serving = served.start_serving();
    serving.wait_issue_event("opened", "a");
    served.stage.home.daemon().kill();
    served.write_issue("b", "todo");
    serving.wait_issue_event("opened", "b");
    served.release_agents();
    serving.wait_event("ended");
    serving.wait_event("ended");
    assert_eq!(served.run_states().len(), 2);
}

#[test]
fn interrupted_serve_lists_runs_that_continue() {
    let served = ServeEnv::new(WORKS_UNTIL_RELEASED);
    served.write_issue("a", "todo");
    let mut serving = served.start_serving();
    let opened = serving.wait_issue_event("opened", "a");
    interrupt(serving.0.pid());
    assert_eq!(serving.wait_event("leaving")["runs"], json!([run_id(&opened)]));
    assert!(serving.0.wait_end().success());
    served.release_agents();
    assert_eq!(served.wait_sealed(run_id(&opened))["state"], "completed");
}
