//! Lists and their filters; export, import and backup of the ledger.

use std::{collections::BTreeSet, fs};

use serde_json::{Value, json};

use provost_testkit::env::{HANGS, TestEnv, text};

#[track_caller]
fn listed_names(stage: &TestEnv, arguments: &[&str]) -> BTreeSet<String> {
    let list = stage.home.provost(&[&["ls", "--json"], arguments].concat()).ok().json();
    let rows = list["sessions"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn ls_filters_by_role_state_and_project() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let one = stage.spawn_in(repo.path(), &["--name", "one", "--role", "builder", "--", "true"]);
    let two =
        stage.spawn_in(stage.home.root(), &["--name", "two", "--role", "reviewer", "--", "false"]);
    stage.spawn_scenario(HANGS, &["--name", "three", "--role", "builder"]);
    stage.wait_sealed(&one);
    stage.wait_sealed(&two);
    assert_eq!(listed_names(&stage, &[]), set(&["one", "two", "three"]));
    assert_eq!(listed_names(&stage, &["--role", "builder"]), set(&["one", "three"]));
    assert_eq!(listed_names(&stage, &["--state", "failed"]), set(&["two"]));
    assert_eq!(listed_names(&stage, &["--project", &text(repo.path())]), set(&["one"]));
    assert_eq!(listed_names(&stage, &["--role", "builder", "--state", "working"]), set(&["three"]));
    assert_eq!(listed_names(&stage, &["--all"]), set(&["one", "two", "three"]));
    stage.home.provost(&["ls", "--state", "wroking"]).assert_code(2);
    stage.home.provost(&["ls", "--all", "--limit", "3"]).assert_code(2);
}

#[test]
fn ls_lists_open_teams() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let new = ["team", "new", "limits", "--goal", "Limit how often each caller may call"];
    stage.home.provost_in(repo.path(), &new).ok();
    let listed = || stage.home.provost(&["ls"]).ok().stdout.clone();
    let table = listed();
    assert!(table.lines().next().unwrap().starts_with("TEAM"), "{table}");
    assert!(table.contains("limits"), "{table}");
    assert!(!stage.home.provost(&["ls", "--runs"]).ok().stdout.contains("limits"));
    stage.home.provost(&["team", "cancel", "limits", "--because", "the test is over"]).ok();
    assert!(!listed().contains("limits"), "a closed team is not listed");
}

#[test]
fn ambiguous_id_suggests_the_command_with_each_id() {
    let stage = TestEnv::new();
    for _ in 0..2 {
        stage.spawn_in(stage.home.root(), &["--name", "twice", "--", "true"]);
    }
    let refused = stage.home.provost(&["cancel", "twice", "--because", "a b"]);
    refused.assert_code(2);
    let ids: Vec<String> = stage.list_sessions().iter().map(|row| text_of(&row["id"])).collect();
    for id in ids {
        let next = format!("next: provost cancel {} --because 'a b'", &id[id.len() - 8..]);
        assert!(refused.stderr.contains(&next), "{next}: {refused:#?}");
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[test]
fn id_is_found_by_four_characters_of_either_end() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--", "true"]);
    let short = &id[id.len() - 8..];
    for part in [&short[..4], &short[4..], short, &id, &id.replace('-', "")] {
        assert_eq!(stage.status(part)["id"], id.as_str(), "{part}");
    }
    let refused = stage.home.provost(&["status", &short[..3]]);
    refused.assert_code(3);
    let rule = "at least 4 characters from either end of an ID that `provost ls` shows";
    assert!(refused.stderr.contains(rule), "{refused:#?}");
}

#[test]
fn ls_limit_mentions_omitted_rows() {
    let stage = TestEnv::new();
    let closed = stage.spawn_in(stage.home.root(), &["--name", "closed", "--", "true"]);
    stage.wait_sealed(&closed);
    stage.home.wait_state(&closed, |row| row["activity"] == "exited");
    for name in ["older", "newer"] {
        stage.spawn_scenario(HANGS, &["--name", name]);
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
fn documented_fields_are_in_status_and_ls() {
    let stage = TestEnv::new();
    let id = stage.spawn_sample("completed_exit0", &[]);
    stage.wait_sealed(&id);
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
    for row in [stage.status(&id), stage.list_sessions().remove(0)] {
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
fn progress_names_its_source() {
    let stage = TestEnv::new();
    stage.configure_talker("[[step]]\nemit = { type = \"turn_started\", turn = \"t\" }\n[[step]]\nemit = { type = \"progress\", done = 2, total = 5 }\n[[step]]\nhang = true\n", "session.stop_grace = \"100ms\"");
    let id = stage.spawn_in(stage.home.root(), &["--agent", provost_testkit::env::TALKER, "go"]);
    let row = stage.home.wait_state(&id, |row| !row["progress"].is_null());
    assert_eq!((&row["progress"]["done"], &row["progress"]["total"]), (&json!(2), &json!(5)));
    assert!(row["progress"]["source"].is_string());
}

#[test]
fn ledger_round_trips_by_export_and_backup() {
    let stage = TestEnv::new();
    for step in ["report = \"completed\"", "exit = 1"] {
        let id = stage.spawn_scenario(&format!("[[step]]\n{step}\n"), &[]);
        // A session is open until its process tree is known to be gone. An open session would be
        // closed by an import.
        stage.home.wait_state(&id, |row| {
            row["sealed"] == true && row["launches"][0]["leftovers"].is_number()
        });
    }
    let rows = stage.list_sessions();
    let (file, backup) = (stage.file("all.jsonl"), stage.file("backup"));
    stage.home.provost(&["ledger", "export", "--to", &file]).ok();
    stage.home.provost(&["ledger", "backup", &backup]).ok();
    stage.home.provost(&["ledger", "backup", &backup]).assert_code(4);
    let other = TestEnv::new();
    other.home.provost(&["ledger", "import", &file]).ok();
    other.home.provost(&["ledger", "verify"]).ok();
    assert_eq!(other.list_sessions(), rows);
    assert_eq!(export_records(&other), export_records(&stage));
    other.home.provost(&["ledger", "import", &file, "--json"]).assert_code(4);
    let third = TestEnv::new();
    fs::rename(&backup, third.home.path().join("ledger")).unwrap();
    assert_eq!(third.list_sessions(), rows);
}

#[test]
fn export_is_imported_from_a_pipe() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario("[[step]]\nreport = \"completed\"\n", &[]);
    stage.home.wait_state(&id, |row| row["sealed"] == true && row["activity"] == "exited");
    let export = stage.home.provost(&["ledger", "export"]);
    let talk: Vec<&str> = export.ok().stderr.lines().collect();
    assert!(talk[0].starts_with("exported 1 streams, "), "{talk:?}");
    assert_eq!(talk[1], "next: PROVOST_HOME=EMPTY_DIRECTORY provost ledger import FILE");
    let other = TestEnv::new();
    let export = &export.stdout;
    other.home.provost_with_input(&["ledger", "import", "-"], export).ok();
    assert_eq!(other.list_sessions(), stage.list_sessions());
    let third = TestEnv::new();
    third
        .home
        .provost_with_input(&["ledger", "import", "-", "--json"], &export[..export.len() / 2])
        .assert_code(2);
}

/// Returns the records of an export. Their hashes chain from the header, which names the home.
fn export_records(stage: &TestEnv) -> Vec<Value> {
    let lines = stage.home.provost(&["ledger", "export"]).ok().json_lines();
    lines.into_iter().filter_map(|line| line.get("record").cloned()).collect()
}

#[test]
fn archived_sessions_stay_listed_and_valid() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario("[[step]]\nreport = \"completed\"\n", &[]);
    let before =
        stage.home.wait_state(&id, |row| row["sealed"] == true && row["activity"] == "exited");
    let live = stage.spawn_scenario(HANGS, &[]);
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
    assert_eq!(stage.list_sessions().len(), 2);
    stage.home.provost(&["ledger", "verify"]).ok();
    let late = stage.home.provost(&["report", "failed", "--session", &id, "--json"]);
    assert!(late.code() == Some(0) || late.json()["error"]["next"].is_array(), "{late:?}");
    stage.home.daemon().kill();
    assert_eq!(stage.status(&live)["process"], "alive");
}
