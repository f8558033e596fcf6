//! Lists and their filters; export, import and backup of the ledger.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use crate::kit::{HANGS, Stage, text};

#[track_caller]
fn names(stage: &Stage, arguments: &[&str]) -> BTreeSet<String> {
    let list = stage.home.provost(&[&["ls", "--json"], arguments].concat()).ok().json();
    let rows = list["sessions"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn ls_filters_by_role_state_and_project_and_bounds_what_it_shows() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let one = stage.spawn_in(repo.path(), &["--name", "one", "--role", "builder", "--", "true"]);
    let two =
        stage.spawn_in(stage.home.root(), &["--name", "two", "--role", "reviewer", "--", "false"]);
    stage.play(HANGS, &["--name", "three", "--role", "builder"]);
    stage.sealed(&one);
    stage.sealed(&two);
    assert_eq!(names(&stage, &[]), set(&["one", "two", "three"]));
    assert_eq!(names(&stage, &["--role", "builder"]), set(&["one", "three"]));
    assert_eq!(names(&stage, &["--state", "failed"]), set(&["two"]));
    assert_eq!(names(&stage, &["--project", &text(repo.path())]), set(&["one"]));
    assert_eq!(names(&stage, &["--role", "builder", "--state", "working"]), set(&["three"]));
    assert_eq!(names(&stage, &["--all"]), set(&["one", "two", "three"]));
    stage.home.provost(&["ls", "--state", "wroking"]).exits(2);
    stage.home.provost(&["ls", "--all", "--limit", "3"]).exits(2);
}

#[test]
fn ls_with_a_limit_shows_no_more_and_says_that_there_is_more() {
    let stage = Stage::new();
    let closed = stage.spawn_in(stage.home.root(), &["--name", "closed", "--", "true"]);
    stage.sealed(&closed);
    stage.home.wait_state(&closed, |row| row["activity"] == "exited");
    for name in ["older", "newer"] {
        stage.play(HANGS, &["--name", name]);
    }
    let listed = |limit: &str| {
        let list = stage.home.provost(&["ls", "--limit", limit, "--json"]).ok().json();
        let rows = list["sessions"].as_array().unwrap().iter();
        let names: Vec<_> = rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), list["more"] == true)
    };
    assert_eq!(listed("1"), ("newer".to_owned(), true));
    assert_eq!(listed("2"), ("newer older".to_owned(), true));
    assert_eq!(listed("3"), ("newer older closed".to_owned(), false));
    let table = stage.home.provost(&["ls", "--limit", "2"]).ok().stdout.clone();
    assert_eq!(table.lines().count(), 3, "a head and two rows: {table}");
}

#[test]
fn every_documented_field_is_in_status_and_in_each_row() {
    let stage = Stage::new();
    let id = stage.play_sample("completed_exit0", &[]);
    stage.sealed(&id);
    let fields = [
        "id",
        "state",
        "terminal",
        "sealed",
        "cause",
        "flags",
        "rule",
        "claim",
        "claimed_at",
        "claim_source",
        "process",
        "activity",
        "verification",
        "requests",
        "thread",
        "late_claims",
        "progress",
    ];
    for row in [stage.status(&id), stage.rows().remove(0)] {
        let row = row.as_object().unwrap();
        for field in fields {
            assert!(row.contains_key(field), "{field} is missing");
        }
    }
    let daemon = stage.home.provost(&["daemon", "status", "--json"]).ok().json();
    for field in ["ok", "pid", "version", "socket"] {
        assert!(!daemon[field].is_null(), "{field} is missing");
    }
}

#[test]
fn progress_says_who_counted() {
    let stage = Stage::new();
    stage.configure_talker("[[step]]\nemit = { type = \"turn_started\", turn = \"t\" }\n[[step]]\nemit = { type = \"progress\", done = 2, total = 5 }\n[[step]]\nhang = true\n", "session.stop_grace = \"100ms\"");
    let id = stage.spawn_in(stage.home.root(), &["--agent", crate::kit::TALKER, "go"]);
    let row = stage.home.wait_state(&id, |row| !row["progress"].is_null());
    assert_eq!((&row["progress"]["done"], &row["progress"]["total"]), (&json!(2), &json!(5)));
    assert!(row["progress"]["source"].is_string());
}

#[test]
fn the_ledger_travels_by_export_import_and_backup() {
    let stage = Stage::new();
    for step in ["report = \"completed\"", "exit = 1"] {
        let id = stage.play(&format!("[[step]]\n{step}\n"), &[]);
        // A session is open until its process tree is known to be gone; an open one would be closed in another home.
        stage.home.wait_state(&id, |row| {
            row["sealed"] == true && row["launches"][0]["leftovers"].is_number()
        });
    }
    let rows = stage.rows();
    let (file, backup) = (stage.file("all.jsonl"), stage.file("backup"));
    stage.home.provost(&["ledger", "export", "--to", &file]).ok();
    stage.home.provost(&["ledger", "backup", &backup]).ok();
    stage.home.provost(&["ledger", "backup", &backup]).exits(4);
    let other = Stage::new();
    other.home.provost(&["ledger", "import", &file]).ok();
    other.home.provost(&["ledger", "verify"]).ok();
    assert_eq!(other.rows(), rows);
    assert_eq!(exported(&other), exported(&stage));
    other.home.provost(&["ledger", "import", &file, "--json"]).exits(4);
    let third = Stage::new();
    fs::rename(&backup, third.home.path().join("ledger")).unwrap();
    assert_eq!(third.rows(), rows);
}

#[test]
fn an_export_is_taken_from_a_pipe_and_told_in_words() {
    let stage = Stage::new();
    let id = stage.play("[[step]]\nreport = \"completed\"\n", &[]);
    stage.home.wait_state(&id, |row| row["sealed"] == true && row["activity"] == "exited");
    let export = stage.home.provost(&["ledger", "export"]);
    let talk: Vec<&str> = export.ok().stderr.lines().collect();
    assert!(talk[0].starts_with("exported 1 streams, "), "{talk:?}");
    assert_eq!(talk[1], "next: PROVOST_HOME=EMPTY_DIRECTORY provost ledger import FILE");
    let other = Stage::new();
    let export = &export.stdout;
    other.home.provost_with_input(&["ledger", "import", "-"], export).ok();
    assert_eq!(other.rows(), stage.rows());
    let third = Stage::new();
    third
        .home
        .provost_with_input(&["ledger", "import", "-", "--json"], &export[..export.len() / 2])
        .exits(2);
}

/// The records of an export. Their hashes chain from the header, which names the home.
fn exported(stage: &Stage) -> Vec<Value> {
    let lines = stage.home.provost(&["ledger", "export"]).ok().json_lines();
    lines.into_iter().filter_map(|line| line.get("record").cloned()).collect()
}

#[test]
fn archived_sessions_are_still_listed_and_sound() {
    let stage = Stage::new();
    let id = stage.play("[[step]]\nreport = \"completed\"\n", &[]);
    let before =
        stage.home.wait_state(&id, |row| row["sealed"] == true && row["activity"] == "exited");
    let live = stage.play(HANGS, &[]);
    let planned =
        stage.home.provost(&["ledger", "archive", "--older-than", "0s", "--json"]).ok().json();
    assert_eq!(planned["streams"], 1, "{planned}");
    let done = stage
        .home
        .provost(&["ledger", "archive", "--older-than", "0s", "--apply", "--json"])
        .ok()
        .json();
    assert_eq!(done["streams"], 1, "{done}");
    assert_eq!(planned["records"], done["records"], "the dry run matches");
    assert_eq!(stage.status(&id), before);
    assert_eq!(stage.rows().len(), 2);
    stage.home.provost(&["ledger", "verify"]).ok();
    let late = stage.home.provost(&["report", "failed", "--session", &id, "--json"]);
    assert!(late.code() == Some(0) || late.json()["error"]["next"].is_array(), "{late:?}");
    stage.home.daemon().kill();
    assert_eq!(stage.status(&live)["process"], "alive");
}
