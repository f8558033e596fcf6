//! Runs with a JSON-lines agent: the callers that may steer them, and idempotency keys that open
//! one run.

use std::fs;

use crate::kit::{TALKER, TestEnv};

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
