//! Runs with a JSON-lines agent: who may steer them, and that a repeated key opens one run.

use std::fs;

use crate::kit::{Stage, TALKER};

/// Arguments for a run with a single stage.
const PLAIN: [&str; 6] = ["--agent", TALKER, "--no-triage", "--review-task", "off", "go"];

#[test]
fn r13_an_agent_of_a_run_can_neither_open_nor_steer_one() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let codes = stage.file("codes");
    let open = format!("run --detach --cwd {} {}", repo.path().display(), PLAIN.join(" "));
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
    let opened = [&["run", "--detach", "--json", "--name", "mine"][..], &PLAIN].concat();
    let opened = stage.home.provost_in(repo.path(), &opened).ok().json();
    let id = opened["id"].as_str().unwrap();
    let row = stage.home.wait_state(id, |row| row["sealed"] == true);
    assert_eq!(row["state"], "completed", "{row:#}");
    assert_eq!(fs::read_to_string(&codes).unwrap(), "4\n4\n4\n");
    let listed = stage.home.provost(&["ls", "--runs", "--json"]).ok().json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[test]
fn the_same_key_twice_is_one_run() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    stage.configure_talker("[[step]]\nhang = true\n", "session.stop_grace = \"100ms\"");
    let open = || {
        let all = [&["run", "--detach", "--json", "--key", "once"][..], &PLAIN].concat();
        stage.home.provost_in(repo.path(), &all).ok().json()["id"].as_str().unwrap().to_owned()
    };
    let id = open();
    assert_eq!(open(), id);
    let listed = stage.home.provost(&["ls", "--runs", "--json"]).ok().json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed:#}");
    stage.home.provost(&["cancel", &id]).ok();
    stage.home.wait_state(&id, |row| row["sealed"] == true);
}
