//! Runs with a JSON-lines agent: the callers that may steer them, and idempotency keys that open
//! one run.

use std::fs;

use provost_testkit::env::{TALKER, TestEnv};

/// Arguments for a run with a single stage.
const PLAIN_RUN: [&str; 6] = ["--agent", TALKER, "--no-triage", "--review-task", "off", "go"];

#[test]
fn r13_run_agent_cannot_open_or_steer_runs() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let codes = stage.file("codes");
    let open = format!("run --detach --cwd {} {}", repo.path().display(), PLAIN_RUN.join(" "));
    let tries = ["cancel mine".to_owned(), "limit mine --tokens 9M".to_owned(), open];
    let line = |one: &String| format!("$PROVOST_BIN {one} >/dev/null 2>&1; echo $? >> {codes}\n");
    fs::write(stage.file("tries.sh"), tries.iter().map(line).collect::<String>()).unwrap();
    stage.configure_talker(
        &format!(
            "[[step]]\nemit = {{ type = \"ready\", thread = \"t\" }}\n[[step]]\nrun = [\"sh\", \"{}\"]\n[[step]]\nwrite = {{ path = \"a\", content = \"a\" }}\n[[step]]\nreport = \"completed\"\n",
            stage.file("tries.sh")
        ),
        "",
    );
    let opened = [&["run", "--detach", "--json", "--name", "mine"][..], &PLAIN_RUN].concat();
    let opened = stage.home.provost_in(repo.path(), &opened).ok().json();
    let id = opened["id"].as_str().unwrap();
    let row = stage.home.wait_state(id, |row| row["sealed"] == true);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(fs::read_to_string(&codes).unwrap(), "4\n4\n4\n");
    let listed = stage.home.provost(&["ls", "--runs", "--json"]).ok().json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[test]
fn repeated_key_is_one_run() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure_talker("[[step]]\nhang = true\n", "session.stop_grace = \"100ms\"");
    let open = || {
        let all = [&["run", "--detach", "--json", "--key", "once"][..], &PLAIN_RUN].concat();
        stage.home.provost_in(repo.path(), &all).ok().json()["id"].as_str().unwrap().to_owned()
    };
    let id = open();
    assert_eq!(open(), id);
    let listed = stage.home.provost(&["ls", "--runs", "--json"]).ok().json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed:#}");
    stage.home.provost(&["cancel", &id]).ok();
    stage.home.wait_state(&id, |row| row["sealed"] == true);
}

#[test]
fn name_of_open_run_is_refused() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure_talker("[[step]]\nhang = true\n", "session.stop_grace = \"100ms\"");
    let open = || {
        let all = [&["run", "--detach", "--json", "--name", "greet"][..], &PLAIN_RUN].concat();
        stage.home.provost_in(repo.path(), &all)
    };
    let first = open().ok().json()["id"].as_str().unwrap().to_owned();
    let short = &first[first.len() - 8..];
    let second = open();
    let message = second.assert_code(4).json()["error"]["message"].clone();
    let expected =
        format!("run {short} is already named greet and has not ended: choose another name");
    assert_eq!(message, expected);
    stage.home.provost(&["cancel", &first]).ok();
    stage.home.wait_state(&first, |row| row["sealed"] == true);
    let again = open().ok().json()["id"].as_str().unwrap().to_owned();
    stage.home.provost(&["cancel", &again]).ok();
    stage.home.wait_state(&again, |row| row["sealed"] == true);
}

#[test]
fn unfinished_run_has_no_summary_and_no_graph() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure_talker("[[step]]\nhang = true\n", "session.stop_grace = \"100ms\"");
    let all = [&["run", "--detach", "--json", "--name", "greet"][..], &PLAIN_RUN].concat();
    let opened = stage.home.provost_in(repo.path(), &all).ok().json();
    let id = opened["id"].as_str().unwrap();
    let short = &id[id.len() - 8..];
    let summary = stage.home.provost(&["summary", "greet"]);
    let refused = &summary.assert_code(4).stderr;
    let expected = format!("error: run {short} has not ended yet, so it has no summary\n");
    assert!(refused.starts_with(&expected), "{refused}");
    assert!(refused.contains(&format!("next: provost status {short}")), "{refused}");
    let graph = stage.home.provost(&["graph", "greet"]);
    let refused = &graph.assert_code(3).stderr;
    assert!(refused.contains("has no plan: it is a single task"), "{refused}");
    stage.home.provost(&["cancel", id]).ok();
    stage.home.wait_state(id, |row| row["sealed"] == true);
    let summary = stage.home.provost(&["summary", "greet", "--attempt", "2"]);
    let refused = &summary.assert_code(4).stderr;
    assert!(refused.contains("has ended once, so it has no summary 2"), "{refused}");
}
