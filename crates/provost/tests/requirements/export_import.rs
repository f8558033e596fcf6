//! Export and import of a ledger: nothing is done twice.

use std::{fs, path::Path};

use serde_json::json;

use provost_testkit::env::{TALKER, TestEnv, is_running};

/// A running session in a worktree, with a hook that appends a line.
fn spawn_live_session(stage: &TestEnv) -> String {
    let (started, hooked) = (stage.file("started"), stage.file("hooked"));
    stage.configure(&format!("[hooks]\nsession.started = \"echo x >> {hooked}\"\n"));
    let repo = stage.home.repo("work");
    let line = format!("echo x >> {started}; exec sleep 300");
    let id = stage.spawn_in(repo.path(), &["--worktree", "--", "sh", "-c", &line]);
    stage.home.wait_state(&id, |row| {
        row["launches"][0]["phase"] == "running" && row["hooks"][0]["result"] == "ok"
    });
    id
}

fn export_ledger(stage: &TestEnv) -> String {
    let file = stage.file("export.jsonl");
    stage.home.provost(&["ledger", "export", "--to", &file]).ok();
    file
}

#[test]
fn import_of_live_home_runs_nothing() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    let id = spawn_live_session(&here);
    let pid = here.pid(&id);
    let imported =
        there.home.provost(&["ledger", "import", &export_ledger(&here), "--json"]).ok().json();
    assert_eq!(imported["closed"], 1, "{imported}");
    // The clean-up starts the daemon, which then performs any pending effects.
    let collected = there.home.provost(&["gc", "--apply", "--older-than", "0s", "--json"]);
    let collected = collected.ok().json();
    assert_eq!(collected["removed"], json!([]), "{collected}");
    assert_eq!(collected["kept"][0]["reason"], "the worktree belongs to another home");
    let copy = there.status(&id);
    assert_eq!((&copy["state"], &copy["sealed"]), (&json!("cancelled"), &json!(true)), "{copy:#}");
    assert!(copy["reason"].as_str().unwrap().contains("another home"), "{copy:#}");
    assert_eq!(copy["launches"][0]["phase"], "unobserved", "this home saw no end");
    there.home.provost(&["ledger", "verify"]).ok();
    let row = here.status(&id);
    assert_eq!((&row["state"], &row["process"]), (&json!("working"), &json!("alive")), "{row:#}");
    assert!(is_running(pid) && Path::new(row["worktree"]["path"].as_str().unwrap()).exists());
    for once in ["started", "hooked"] {
        assert_eq!(fs::read_to_string(here.file(once)).unwrap(), "x\n", "{once}");
    }
}

#[test]
fn imported_session_does_not_use_foreign_worktree() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    let started = here.file("started");
    here.configure_talker(
        &format!(
            "[[step]]\nappend = {{ path = {started:?}, content = \"x\\n\" }}\n[[step]]\nemit = {{ type = \"ready\", thread = \"t\" }}\n"
        ),
        "session.stop_grace = \"100ms\"",
    );
    let repo = here.home.repo("work");
    let id = here.spawn_in(repo.path(), &["--worktree", "--agent", TALKER, "go"]);
    here.home.wait_sealed(&id);
    there.home.provost(&["ledger", "import", &export_ledger(&here)]).ok();
    there.home.provost(&["resume", &id]).assert_code(4);
    there.home.provost(&["resume", &id, "--take-over"]).ok();
    let copy = there.home.wait_state(&id, |row| row["sealed"] == true && row["attempt"] == 2);
    assert_eq!(copy["state"], "failed", "{copy:#}");
    assert!(copy["reason"].as_str().unwrap().contains("belongs to another home"), "{copy:#}");
    assert_eq!(fs::read_to_string(here.file("started")).unwrap(), "x\n", "it began once");
}

#[test]
fn imported_runs_and_teams_are_closed() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    here.configure_talker(
        "[[step]]\nemit = { type = \"ready\", thread = \"t\" }\n[[step]]\nhang = true\n",
        "session.stop_grace = \"100ms\"",
    );
    let repo = here.home.repo("work");
    let run = [
        "run",
        "--json",
        "--detach",
        "--agent",
        TALKER,
        "--no-triage",
        "--review-task",
        "off",
        "--check",
        "true",
        "go",
    ];
    let run = here.home.provost_in(repo.path(), &run).ok().json()["id"].clone();
    let run = run.as_str().unwrap();
    here.home.wait_state(run, |row| row["sessions"][0].is_object());
    here.home.provost(&["team", "new", "limits", "--goal", "limit the callers"]).ok();
    there.home.provost(&["ledger", "import", &export_ledger(&here)]).ok();
    let copy = there.status(run);
    assert_eq!((&copy["state"], &copy["sealed"]), (&json!("cancelled"), &json!(true)), "{copy:#}");
    assert_eq!(there.status("limits")["state"], "cancelled");
    there.home.provost(&["ledger", "verify"]).ok();
    here.home.provost(&["cancel", run]).ok();
    here.home.wait_state(run, |row| row["sealed"] == true);
}

#[test]
fn export_imported_into_its_own_home_continues() {
    let stage = TestEnv::new();
    let id = spawn_live_session(&stage);
    let file = export_ledger(&stage);
    stage.home.provost(&["daemon", "stop"]).ok();
    fs::rename(stage.home.path().join("ledger"), stage.home.root().join("lost")).unwrap();
    let imported = stage.home.provost(&["ledger", "import", &file, "--json"]).ok().json();
    assert_eq!(imported["closed"], 0, "{imported}");
    stage.home.provost(&["ls"]).ok();
    stage.home.provost(&["cancel", &id]).ok();
    assert_eq!(stage.wait_sealed(&id)["exit"]["by"], "provost", "its process is still known");
    assert_eq!(fs::read_to_string(stage.file("started")).unwrap(), "x\n");
}

#[test]
fn imported_sessions_continue_only_on_request() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    spawn_live_session(&here);
    let take = ["ledger", "import", &export_ledger(&here), "--take-over", "--json"];
    // No daemon runs in the other home. Two homes must not work on one session, so the flag is
    // required.
    assert_eq!(there.home.provost(&take).ok().json()["closed"], 0);
}
