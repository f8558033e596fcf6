//! Cancelled runs that need no model: cancelled before landing, and with agents that keep working.

use std::{fs, path::Path};

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use crate::run_env::RunEnv;
use provost_testkit::env::{LaunchCredentials, TestEnv};

#[track_caller]
fn wait_file(path: &str) {
    eventually(&format!("{path} appears"), || Path::new(path).exists().then_some(()));
}

/// The run's own events.
#[track_caller]
fn run_events(env: &RunEnv, id: &str) -> Vec<Value> {
    let mut events = env.stage.events(id);
    events.retain(|event| event["stream"] == "run");
    events
}

#[test]
fn r01_r15_cancel_during_merge_check_lands_nothing() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let theirs =
        "echo theirs > theirs.txt; git add theirs.txt; git commit --quiet --message theirs";
    let line = format!("echo work > work.txt; cd {}; {theirs}", repo.path().display());
    let (waits, go) = (stage.file("waits"), stage.file("go"));
    // The check blocks only on the merge, which has the work of both sides, until it is released.
    let check = format!(
        "test -s work.txt || exit 1; test -e theirs.txt || exit 0; test -e {go} && exit 0; echo $$ > {waits}.new; mv {waits}.new {waits}; exec sleep 600"
    );
    let env = RunEnv::with_script(stage, repo, &line);
    let id = env.open_run(&["--land", "merge", "--check", &check]);
    wait_file(&waits);
    let theirs = env.repo.head();
    env.stage.home.provost(&["cancel", &id, "--because", "enough"]).ok();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["stage"]), (&json!("cancelled"), &json!("land")), "{row:#}");
    assert_eq!((&row["landing"]["done"], env.repo.head()), (&json!(false), theirs.clone()));
    let pid = fs::read_to_string(&waits).unwrap().trim().parse().unwrap();
    eventually("the check is gone", || (!provost_testkit::env::is_running(pid)).then_some(()));
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(env.repo.git(&["show", &format!("{commit}:work.txt")]), "work");

    fs::write(&go, "").unwrap();
    env.stage.home.provost(&["resume", &id]).ok();
    let row = env.stage.home.wait_state(&id, |row| row["attempt"] == 2 && row["sealed"] == true);
    assert_eq!((&row["state"], &row["landing"]["merged"]), (&json!("succeeded"), &json!(true)));
    env.repo.git(&["merge-base", "--is-ancestor", &theirs, "HEAD"]);
    assert_eq!(env.repo.read("work.txt"), "work\n");
}

/// Keeps working after TERM, claims completion on every channel, and exits only then.
const CLAIMS_AFTER_CANCEL: &str = r#"
[[step]]
ignore_term = true
[[step]]
emit = { type = "turn_started", turn = "t1" }
[[step]]
write = { path = "work.txt", content = "work\n" }
[[step]]
run = ["sh", "-c", "echo $PROVOST_LAUNCH $PROVOST_TOKEN > ROOT/new && mv ROOT/new ROOT/credentials-1"]
[[step]]
wait_file = "ROOT/cancelled"
[[step]]
report = "completed"
message = "all done"
reply_to = "ROOT/reply"
expect_exit = "any"
[[step]]
emit = { type = "claim", claim = "completed", text = "all done" }
[[step]]
emit = { type = "turn_ended", turn = "t1", status = "ok" }
[[step]]
exit = 0
"#;

#[test]
fn r15_report_after_cancel_changes_nothing() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let steps = CLAIMS_AFTER_CANCEL.replace("ROOT", &stage.home.root().display().to_string());
    let env = RunEnv::with_steps(stage, repo, &steps);
    let id = env.open_run(&["--check", "true"]);
    let who = env.stage.credentials(1);
    env.stage.home.provost(&["cancel", &id, "--because", "enough"]).ok();
    fs::write(env.stage.file("cancelled"), "").unwrap();
    let row = env.wait_sealed(&id);
    assert_eq!((&row["state"], &row["detail"]), (&json!("cancelled"), &json!("enough")), "{row:#}");
    wait_file(&env.stage.file("reply"));
    assert_eq!(row["landing"]["done"], false);
    let session = row["sessions"][0]["id"].as_str().unwrap();
    let ended = env.stage.status(session);
    assert_eq!(
        (&ended["state"], &ended["process"]),
        (&json!("cancelled"), &json!("exit0")),
        "{ended:#}"
    );
    let worktree = ended["worktree"]["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(format!("{worktree}/work.txt")).unwrap(), "work\n");

    let events = run_events(&env, &id);
    let who = LaunchCredentials { launch: format!("{session}.l1"), ..who };
    let late = env.stage.report_as(&who, &["completed", "--message", "really"]).ok().json();
    assert_eq!((&late["status"], &late["state"]), (&json!("recorded_late"), &json!("cancelled")));
    assert_eq!(run_events(&env, &id), events);
    let kinds: Vec<&Value> = events.iter().map(|event| &event["kind"]).collect();
    assert!(!kinds.iter().any(|kind| *kind == "run.landed"), "{kinds:?}");
    assert_eq!(env.repo.branches().len(), 2, "main, and the work that was kept");
}

#[test]
fn second_cancel_of_run_and_session_is_the_same() {
    let env = RunEnv::new("sleep 600");
    let run = env.open_run(&["--land", "branch"]);
    let session = env.stage.spawn_scenario(provost_testkit::env::HANGS, &[]);
    for id in [&run, &session] {
        let home = &env.stage.home;
        home.provost(&["cancel", id, "--because", "enough"]).ok();
        // While it stops, and after it has.
        home.provost(&["cancel", id]).ok();
        home.wait_state(id, |row| row["sealed"] == true);
        let before = env.stage.events(id).len();
        let again = home.provost(&["cancel", id]);
        assert!(again.ok().stderr.contains("already cancelled"), "{again:#?}");
        assert!(again.stdout.contains("cancelled"), "{again:#?}");
        assert_eq!(home.provost(&["cancel", id, "--json"]).ok().json()["ok"], true);
        assert_eq!(env.stage.events(id).len(), before, "nothing was recorded");
    }
    let done = env.stage.spawn_scenario("[[step]]\nexit = 0\n", &[]);
    env.stage.home.wait_state(&done, |row| row["sealed"] == true);
    let refused = env.stage.home.provost(&["cancel", &done]);
    assert!(refused.assert_code(4).stderr.contains("has exited without a claim"), "{refused:#?}");
}
