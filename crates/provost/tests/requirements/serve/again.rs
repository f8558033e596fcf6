//! Nothing is done twice: retries, restarts at any moment, and two servers for the same tracker.

use std::collections::BTreeSet;

use serde_json::json;

use super::kit::{FAILS, FRONT, Served, UNTIL_GO, WORKS, of_kind, run_of};
use crate::kit::{interrupt, kill};

#[test]
fn a_run_that_failed_is_followed_by_another_after_a_pause_and_not_for_ever() {
    let served = Served::new(FAILS);
    served.workflow(&format!(
        "{}agent: {{max_retry_backoff_ms: 200}}\n",
        FRONT.replace("agent: talker", "agent: talker, max_retries: 2")
    ));
    served.issue("a", "todo");
    let serving = served.serve();
    for attempt in 0..3 {
        assert_eq!(serving.event_of("opened", "a")["attempt"], attempt);
        serving.event_of("ended", "a");
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
    // A later server knows it too.
    let later = served.once();
    assert_eq!(of_kind(&later, "opened").len(), 0, "{later:?}");
    assert_eq!(served.runs().len(), 3);
}

#[test]
fn a_pause_outlives_whoever_waits_for_it() {
    let served = Served::new(FAILS);
    served.issue("a", "todo");
    let events = served.once();
    served.sealed(run_of(of_kind(&events, "opened")[0]));
    served.once();
    // On a busy machine the ten seconds may have passed; only then may another run exist.
    let runs = served.runs();
    let ended = runs[0]["sealed_at"].as_i64().unwrap();
    let mut others = runs[1..].iter().map(|run| run["opened_at"].as_i64().unwrap());
    assert!(others.all(|opened| opened >= ended + 10_000), "{runs:#?}");
}

#[test]
fn work_that_ended_well_is_continued_where_that_is_wanted() {
    let served = Served::new(WORKS);
    served.workflow(&FRONT.replace("agent: talker", "agent: talker, max_continuations: 1"));
    served.issue("a", "todo");
    let serving = served.serve();
    assert_eq!(serving.event_of("opened", "a")["attempt"], 0);
    assert_eq!(serving.event_of("opened", "a")["attempt"], 1);
    serving.event_of("ended", "a");
    let held = serving.event_of("held", "a");
    assert_eq!(held["why"], "its run succeeded; waiting for the issue to be moved");
}

#[test]
fn serving_that_is_killed_and_started_again_opens_nothing_twice() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    served.issue("b", "todo");
    let serving = served.serve();
    let opened = serving.event_of("opened", "a");
    kill(serving.0.pid());
    let serving = served.serve();
    assert_eq!(run_of(&serving.event_of("goes_on", "a")), run_of(&opened));
    served.issue("c", "todo");
    serving.event_of("opened", "c");
    served.go();
    let ended: BTreeSet<String> =
        (0..3).map(|_| run_of(&serving.event("ended")).to_owned()).collect();
    assert_eq!(ended.len(), 3);
    let states = served.states();
    let done = |id: &str| (id.to_owned(), 0, "completed".to_owned());
    let found: BTreeSet<_> = states.iter().cloned().collect();
    assert_eq!((states.len(), found), (3, ["a", "b", "c"].map(done).into()));
}

#[test]
fn serving_that_is_killed_at_any_moment_opens_nothing_twice() {
    let served = Served::new(UNTIL_GO);
    let ids = ["a", "b", "c", "d", "e"];
    ids.iter().for_each(|id| served.issue(id, "todo"));
    // Each is killed as soon as it reports something; the progress of the next step is then random.
    for _ in 0..12 {
        let serving = served.serve();
        serving.0.wait_line("anything", |line| {
            (line.contains("opened") || line.contains("goes_on")).then_some(())
        });
        kill(serving.0.pid());
    }
    served.once();
    let found: Vec<String> = served.states().into_iter().map(|(id, ..)| id).collect();
    let all: BTreeSet<String> = found.iter().cloned().collect();
    assert_eq!((found.len(), all), (ids.len(), ids.map(str::to_owned).into()));
    served.finish();
}

#[test]
fn two_that_serve_the_same_open_one_run_for_an_issue() {
    let served = Served::new(UNTIL_GO);
    let (one, other) = (served.serve(), served.serve());
    one.event("serving");
    other.event("serving");
    let ids = ["a", "b", "c", "d"];
    ids.iter().for_each(|id| served.issue(id, "todo"));
    for id in ids {
        for serving in [&one, &other] {
            serving.0.wait_line(id, |line| {
                let is_ours = line.contains("\"opened\"") || line.contains("\"goes_on\"");
                (is_ours && line.contains("\"run\"")).then_some(())
            });
        }
    }
    let found: Vec<String> = served.states().into_iter().map(|(id, ..)| id).collect();
    assert_eq!(found.len(), ids.len(), "{found:?}");
    served.finish();
}

#[test]
fn a_daemon_that_dies_is_brought_back_and_nothing_is_opened_twice() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let serving = served.serve();
    serving.event_of("opened", "a");
    served.stage.home.daemon().kill();
    served.issue("b", "todo");
    serving.event_of("opened", "b");
    served.go();
    serving.event("ended");
    serving.event("ended");
    assert_eq!(served.states().len(), 2);
}

#[test]
fn interrupted_it_says_which_runs_go_on_and_they_do() {
    let served = Served::new(UNTIL_GO);
    served.issue("a", "todo");
    let mut serving = served.serve();
    let opened = serving.event_of("opened", "a");
    interrupt(serving.0.pid());
    assert_eq!(serving.event("leaving")["runs"], json!([run_of(&opened)]));
    assert!(serving.0.wait_end().success());
    served.go();
    assert_eq!(served.sealed(run_of(&opened))["state"], "completed");
}
