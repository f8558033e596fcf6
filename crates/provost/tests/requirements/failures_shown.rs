//! `status` and `ls` show failed hooks, failed starts and stops in progress.

use provost_testkit::harness::eventually;
use serde_json::{Value, json};

use provost_testkit::env::TestEnv;

fn wait_hook_end(stage: &TestEnv, id: &str) -> Value {
    eventually("the end of the hook", || {
        let row = stage.status(id);
        let ended = row["hooks"].as_array()?.iter().any(|hook| hook["result"] != "pending");
        ended.then_some(row)
    })
}

#[test]
fn failed_hook_is_shown_with_its_output() {
    let stage = TestEnv::new();
    stage.configure("[hooks]\nsession.failed = \"echo hook was here; exit 7\"\n");
    let id = stage.spawn_sample("exit1_silent", &[]);
    let row = wait_hook_end(&stage, &id);
    let hook = &row["hooks"][0];
    assert_eq!(
        (&hook["event"], &hook["result"], &hook["detail"]),
        (&json!("session.failed"), &json!("failed"), &json!("exit 7"))
    );
    assert_eq!(hook["command"], "echo hook was here; exit 7", "as it was written");
    let shown = stage.home.provost(&["status", &id]).ok().stdout.clone();
    let line = shown.lines().find(|line| line.trim_start().starts_with("hook")).unwrap();
    for part in ["failed session.failed", "exit 7", "--hook 1"] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    for which in [&["--hook"][..], &["--hook", "1"], &["--hook", "failed"]] {
        let printed = stage.home.provost(&[&["logs", &id], which].concat());
        assert!(printed.ok().stdout.contains("hook was here"), "{printed:#?}");
    }
    stage.home.provost(&["logs", &id, "--hook", "completed"]).assert_code(3);
}

#[test]
fn hook_with_missing_program_fails() {
    let stage = TestEnv::new();
    stage.configure("[hooks]\nsession.completed = [\"/no/such/program\", \"x\"]\n");
    let id = stage.spawn_sample("completed_exit0", &[]);
    let row = wait_hook_end(&stage, &id);
    let hook = &row["hooks"][0];
    assert_eq!(hook["result"], "failed", "{hook}");
    let detail = hook["detail"].as_str().unwrap();
    assert!(detail.contains("/no/such/program"), "{detail}");
    let ended = &stage.events_of(&id, "hook.finished")[0]["data"]["end"];
    assert!(ended["not_started"].is_string(), "{ended}");
}

#[test]
fn missing_program_never_ran() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--", "/no/such/program"]);
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("launch")), "{row:#}");
    assert_eq!((&row["process"], &row["activity"]), (&json!("not_started"), &json!("none")));
    assert!(row["reason"].as_str().unwrap().contains("/no/such/program"), "{row:#}");
    let why = stage.home.provost(&["status", &id, "--why", "--json"]).ok().json();
    let process = why["facts"].as_array().unwrap().iter().find(|fact| fact["fact"] == "process");
    assert_eq!(process.unwrap()["value"], "not_started");
}

#[test]
fn missing_program_is_named_by_wait_and_logs() {
    let stage = TestEnv::new();
    let agent = "[agents.mine]\nadapter = \"jsonl\"\ncommand = [\"/no/such/agent\"]\n";
    stage.configure(agent);
    let spawned = stage.home.provost(&["spawn", "--agent", "mine", "--name", "x", "--wait", "go"]);
    spawned.assert_code(1);
    assert!(spawned.stdout.contains("x failed: cannot run \"/no/such/agent\""), "{spawned:#?}");
    let advice = "correct agents.mine.command in provost.toml";
    assert!(spawned.stderr.contains(advice), "{spawned:#?}");
    assert!(!spawned.stderr.contains("provost resolve"), "{spawned:#?}");
    let logs = stage.home.provost(&["logs", "x"]);
    let why = "no output: cannot run \"/no/such/agent\"";
    assert!(logs.stderr.contains(why) && logs.stderr.contains(advice), "{logs:#?}");
}

#[test]
fn activity_of_stopped_command_is_as_old_as_its_exit() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--", "sleep", "600"]);
    stage.home.wait_state(&id, |row| row["process"] == "alive");
    stage.home.provost(&["stop", &id]).ok();
    stage.wait_sealed(&id);
    let why = stage.home.provost(&["status", &id, "--why", "--json"]).ok().json();
    let fact = |name| why["facts"].as_array().unwrap().iter().find(|fact| fact["fact"] == name);
    let (activity, process) = (fact("activity").unwrap(), fact("process").unwrap());
    assert_eq!(activity["value"], "exited", "{why}");
    assert_eq!(activity["at"], process["at"], "{why}");
}

#[test]
fn failed_setup_is_shown_with_its_output() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure("[worktree]\nenabled = true\nsetup = \"echo no such thing >&2; exit 3\"\n");
    let id = stage.spawn_in(repo.path(), &["--", "true"]);
    let row = stage.wait_sealed(&id);
    let reason = "the setup command `echo no such thing >&2; exit 3` failed: exit 3";
    assert_eq!(row["reason"], reason, "{row:#}");
    assert_eq!(
        (&row["setup"]["result"], &row["setup"]["detail"]),
        (&"failed".into(), &reason.into())
    );
    let (short, next) = (&id[id.len() - 8..], row["next"].to_string());
    let hint = format!("provost logs {short} --setup");
    assert!(next.contains(&hint), "{next}");
    for shown in
        [stage.home.provost(&["status", &id]).stdout, stage.home.provost(&["logs", &id]).stderr]
    {
        assert!(shown.contains(&hint), "{shown}");
        assert!(!shown.contains("yet"), "nothing more will come: {shown}");
    }
    let printed = stage.home.provost(&["logs", &id, "--setup"]);
    assert_eq!(printed.ok().stdout, "err│ no such thing\n");
    assert_eq!(printed.stderr, format!("{reason}\n"));
    let none = stage.spawn_in(stage.home.root(), &["--no-worktree", "--", "true"]);
    stage.home.provost(&["logs", &none, "--setup"]).assert_code(3);
}

#[test]
fn lost_output_is_reported_not_silence() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let run = |check: &str| {
        let flags =
            ["--allow-empty-diff", "--exit-zero-completes", "--check", check, "--", "echo", "said"];
        let id = stage.spawn_in(repo.path(), &flags);
        stage.home.wait_state(&id, |row| row["sealed"] == true && row["activity"] == "exited");
        id
    };
    let id = run("echo checked");
    let whats = [&[][..], &["--check", "1"], &["-f"], &["--launch", "1"]];
    for what in whats {
        let there = stage.home.provost(&[&["logs", &id], what].concat());
        assert!(!there.ok().stdout.is_empty(), "{there:?}");
    }
    let export = stage.file("export.jsonl");
    stage.home.provost(&["ledger", "export", "--to", &export]).ok();
    stage.home.provost(&["gc", "--older-than", "0s", "--apply"]).ok();
    let elsewhere = TestEnv::new();
    elsewhere.home.provost(&["ledger", "import", &export]).ok();
    for home in [&stage.home, &elsewhere.home] {
        for what in whats {
            let gone = home.provost(&[&["logs", &id], what].concat());
            assert_eq!(gone.assert_code(3).stdout, "", "{gone:?}");
            assert!(
                gone.stderr.contains("is missing: it was removed, by `provost gc`"),
                "{gone:?}"
            );
        }
        let error = home.provost(&["logs", &id, "--json"]).assert_code(3).json();
        assert_eq!(error["error"]["code"], "not_found", "{error}");
    }
    let silent = stage.spawn_in(stage.home.root(), &["--", "true"]);
    stage.wait_sealed(&silent);
    assert_eq!(stage.home.provost(&["logs", &silent]).ok().stdout, "", "silence is no error");
}

#[test]
fn hint_quotes_session_names_with_spaces() {
    let stage = TestEnv::new();
    let id = stage.spawn_in(stage.home.root(), &["--name", "fix the login", "--", "true"]);
    stage.wait_sealed(&id);
    let refused = stage.home.provost(&["send", "fix the login", "go on", "--json"]);
    let hint = refused.assert_code(4).json()["error"]["next"][0].as_str().unwrap().to_owned();
    let words: Vec<&str> = hint.split(' ').skip(1).collect();
    assert!(stage.home.provost(&words).ok().stdout.contains("fix the login"), "{hint}");
}

#[test]
fn stop_in_progress_is_shown() {
    let stage = TestEnv::new();
    // The agent ignores TERM, so the stop takes the whole grace period until KILL.
    let deaf = "[[step]]\nignore_term = true\n[[step]]\nwrite = { path = \"deaf\", content = \"\" }\n[[step]]\nhang = true\n";
    let id = stage.spawn_scenario(deaf, &[]);
    let deaf = stage.home.root().join("deaf");
    eventually("the agent is deaf", || deaf.exists().then_some(()));
    stage.home.provost(&["stop", &id]).ok();
    let row = stage.status(&id);
    assert!(row["flags"].as_array().unwrap().contains(&json!("stopping")), "{row:#}");
    let listed = stage.home.provost(&["ls"]).ok().stdout.clone();
    assert!(listed.contains("stopping"), "{listed}");
    let row = stage.wait_sealed(&id);
    assert!(!row["flags"].as_array().unwrap().contains(&json!("stopping")), "{row:#}");
}
