//! A team as a bundle: an importing home shows the same history and executes nothing.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{
    history::{CLAIMS_EACH_DONE, bind_session_worker},
    team_env::TeamEnv,
};
use provost_testkit::env::{TALKER, TestEnv};

/// A finished team, with a closed session.
fn finished_team() -> (TeamEnv, String) {
    let env = TeamEnv::new();
    let session = bind_session_worker(&env);
    env.act_as_operator(&["team", "criterion", "add", "the wording was read", "--accept"]).ok();
    env.act_as(
        "boss",
        &["team", "criterion", "satisfy", "1", "--evidence", "read it twice, aloud"],
    )
    .ok();
    env.provost(&["team", "done", "limits", "--as", "hand", "--because", "I say that it is done"])
        .assert_code(4);
    env.provost(&["team", "done", "limits", "--because", "all of it holds now"]).ok();
    env.wait_state("limits", |row| row["state"] == "done");
    env.wait_state(&session, |row| row["process"] != "alive");
    (env, session)
}

fn read_answers(stage: &TestEnv, session: &str) -> Vec<Value> {
    let looks: &[&[&str]] = &[
        &["status", "limits"],
        &["status", session],
        &["status", "limits", "--at", "9"],
        &["status", "limits", "--diff", "1..9"],
        &["replay", "limits"],
        &["replay", "limits", "--as", "timeline", "--content"],
        &["replay", "limits", "--as", "transcript", "--content"],
        &["audit", "limits", "--content"],
        &["search", "callers"],
        &["team", "inbox", "ls", "--all", "-t", "limits"],
    ];
    looks
        .iter()
        .map(|words| {
            let mut answer = stage.provost(&[words, &["--json"][..]].concat()).ok().json();
            // Commands contain the home and the program path, and only a daemon knows the time of
            // the last poll.
            strip_local_fields(&mut answer);
            answer
        })
        .collect()
}

fn strip_local_fields(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !matches!(name.as_str(), "receive_command" | "polled_at"));
            fields.values_mut().for_each(strip_local_fields);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_local_fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn read_files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap())
        })
        .collect();
    found.sort();
    found
}

#[test]
fn imported_bundle_reads_and_exports_the_same() {
    let (here, session) = finished_team();
    let (first, second) = (here.file("first"), here.file("second"));
    let exported = here.provost(&["export", "limits", "--to", &first, "--json"]).ok().json();
    let streams = exported["manifest"]["streams"].as_array().unwrap().len();
    assert_eq!((streams, &exported["manifest"]["snapshot"]), (2, &json!(false)));
    let there = TestEnv::new();
    let looked = there.provost(&["import", &first, "--dry-run", "--json"]).ok().json();
    assert_eq!(looked["manifest"], exported["manifest"]);
    let imported = there.provost(&["import", &first, "--json"]).ok().json();
    assert_eq!((&imported["streams"], &imported["closed"]), (&json!(2), &json!(0)));
    for (mine, theirs) in
        read_answers(&here, &session).into_iter().zip(read_answers(&there, &session))
    {
        assert_eq!(mine, theirs);
    }
    there.provost(&["ledger", "verify"]).ok();
    assert_eq!(there.provost(&["daemon", "status", "--json"]).ok().json()["live_sessions"], 0);
    there.provost(&["export", "limits", "--to", &second]).ok();
    assert_eq!(read_files(Path::new(&first)), read_files(Path::new(&second)));
    let again = there.provost(&["import", &first, "--json"]).assert_code(4).json();
    assert!(again["error"]["message"].as_str().unwrap().len() > 10, "{again}");
}

#[test]
fn altered_bundle_is_refused_whole() {
    let (here, _) = finished_team();
    let bundle = here.file("bundle");
    here.provost(&["export", "limits", "--to", &bundle]).ok();
    let streams = Path::new(&bundle).join("streams.jsonl");
    let whole = fs::read_to_string(&streams).unwrap();
    fs::write(&streams, whole.replacen("read it twice", "read it never", 1)).unwrap();
    let there = TestEnv::new();
    let refused = there.provost(&["import", &bundle, "--json"]).assert_code(2).json();
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("its digest differs"), "{why}");
    assert!(!there.home.path().join("ledger").exists(), "nothing was made");
    fs::write(&streams, whole).unwrap();
    there.provost(&["import", &bundle]).ok();
    let taken =
        here.provost(&["export", "limits", "--to", &bundle, "--json"]).assert_code(4).json();
    assert!(taken["error"]["message"].as_str().unwrap().contains("already exists"), "{taken}");
}

#[test]
fn open_team_exports_as_snapshot_and_imports_closed() {
    let here = TeamEnv::new();
    let session = bind_session_worker(&here);
    here.send("hand", "Begin with the tests.");
    let bundle = here.file("bundle");
    let refused =
        here.provost(&["export", "limits", "--to", &bundle, "--json"]).assert_code(4).json();
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("still open: team"),
        "{refused}"
    );
    assert!(!Path::new(&bundle).exists());
    let taken =
        here.provost(&["export", "limits", "--to", &bundle, "--snapshot", "--json"]).ok().json();
    assert_eq!(taken["manifest"]["snapshot"], true);
    let there = TestEnv::new();
    let imported = there.provost(&["import", &bundle, "--json"]).ok().json();
    assert!(imported["closed"].as_u64().unwrap() >= 1, "{imported}");
    let copy = there.status("limits");
    assert_eq!(copy["state"], "cancelled", "{copy:#}");
    assert!(copy["because"].as_str().unwrap().contains("another home"), "{copy:#}");
    let row = there.status(&session);
    assert!(row["sealed"] == true && row["process"] != "alive", "{row:#}");
    let next = ["team", "next", "-t", "limits", "--as", "hand", "--json"];
    there.provost(&next).assert_code(4);
    there.provost(&["ledger", "verify"]).ok();
    // In the exporting home, the team continues.
    assert_eq!(here.take_next("hand", &[])["text"], "Begin with the tests.");
}

#[test]
fn invalid_manifest_is_refused() {
    let (here, _) = finished_team();
    let bundle = here.file("bundle");
    here.provost(&["export", "limits", "--to", &bundle]).ok();
    let manifest = Path::new(&bundle).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"snapshot\": false", "\"snapshot\": true")).unwrap();
    let refused = here.provost(&["import", &bundle, "--dry-run", "--json"]).assert_code(2).json();
    assert!(refused["error"]["message"].as_str().unwrap().contains("digest"), "{refused}");
}

#[test]
fn bundle_with_a_fifo_is_refused_at_once() {
    let (here, _) = finished_team();
    let bundle = here.file("bundle");
    here.provost(&["export", "limits", "--to", &bundle]).ok();
    let streams = Path::new(&bundle).join("streams.jsonl");
    fs::remove_file(&streams).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&streams).status().unwrap();
    assert!(made.success());
    let refused = TestEnv::new().provost(&["import", &bundle]);
    assert!(refused.assert_code(2).stderr.contains("is not a regular file"), "{refused:?}");
}

#[test]
fn refused_export_and_import_have_hints() {
    let (here, _) = finished_team();
    let bundle = here.file("bundle");
    here.provost(&["export", "limits", "--to", &bundle]).ok();
    let taken = here.provost(&["import", &bundle, "--json"]);
    let taken = taken.json()["error"]["next"].clone();
    assert!(taken[0].as_str().unwrap().contains("provost"), "{taken}");
    here.provost(&["daemon", "stop"]).ok();
    let taken = here.provost(&["import", &bundle, "--json"]).assert_code(4).json();
    assert_eq!(
        taken["error"]["next"][0], "PROVOST_HOME=EMPTY_DIRECTORY provost import DIRECTORY",
        "{taken}"
    );
    let live = TeamEnv::new();
    live.configure_talker(CLAIMS_EACH_DONE, "[session]\nstop_grace = \"100ms\"\n");
    let session = live.spawn_in(live.root(), &["--agent", TALKER, "--keep", "begin"]);
    let bind = ["team", "bind", "limits", "arm", "--role", "worker", "--session", &session];
    live.provost(&bind).ok();
    live.provost(&["team", "cancel", "limits", "--because", "nobody needs it"]).ok();
    let open = live.provost(&["export", "limits", "--to", &bundle, "--json"]).assert_code(4).json();
    let next = open["error"]["next"][0].as_str().unwrap();
    assert!(next.starts_with("provost stop "), "{open}");
}
