//! An agent has authority only over itself, and sees only the environment variables it was given.

use std::{collections::BTreeSet, fs, os::unix::fs::PermissionsExt};

use provost_testkit::harness::{eventually, read_nonempty};
use serde_json::json;

use provost_testkit::env::{HANGS, TestEnv, WRITES_CREDENTIALS};

#[test]
fn agent_cannot_act_as_operator() {
    let stage = TestEnv::new();
    let other = stage.spawn_scenario(&format!("{WRITES_CREDENTIALS}{HANGS}"), &[]);
    let stolen = stage.credentials(1);
    let tries = [
        "$PROVOST_BIN cancel OTHER",
        "$PROVOST_BIN stop OTHER",
        "$PROVOST_BIN send OTHER hello",
        "$PROVOST_BIN resolve OTHER --as accepted --because mine",
        "$PROVOST_BIN cancel $PROVOST_SESSION",
        "$PROVOST_BIN resolve $PROVOST_SESSION --as accepted --because mine",
        "$PROVOST_BIN spawn -- true",
        "$PROVOST_BIN report completed --session OTHER",
        "$PROVOST_BIN gc --apply",
        "$PROVOST_BIN daemon stop",
        "$PROVOST_BIN limit $PROVOST_SESSION --output 9GiB",
        "$PROVOST_BIN ledger archive --older-than 0s --apply",
        "PROVOST_LAUNCH=LAUNCH PROVOST_TOKEN=TOKEN $PROVOST_BIN report completed",
        "setsid $PROVOST_BIN cancel OTHER",
        "env -i PROVOST_HOME=$PROVOST_HOME $PROVOST_BIN cancel OTHER",
    ];
    let tries = tries.map(|one| {
        one.replace("OTHER", &other)
            .replace("LAUNCH=LAUNCH", &format!("LAUNCH={}", stolen.launch))
            .replace("TOKEN=TOKEN", &format!("TOKEN={}", stolen.token))
    });
    let script: String =
        tries.iter().map(|one| format!("{one} >/dev/null 2>&1; echo $? >> codes\n")).collect();
    fs::write(stage.file("tries.sh"), script).unwrap();
    let id = stage.spawn_scenario(
        "[[step]]\nrun = [\"sh\", \"tries.sh\"]\n[[step]]\nreport = \"completed\"\n",
        &[],
    );
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "completed", "{row}");
    let codes = fs::read_to_string(stage.file("codes")).unwrap();
    let results: Vec<(&str, &str)> = codes.lines().zip(tries.iter().map(String::as_str)).collect();
    assert!(
        results.len() == tries.len() && results.iter().all(|(code, _)| *code == "4"),
        "{results:#?}"
    );
    let row = stage.status(&other);
    assert_eq!((&row["state"], &row["claim"]), (&json!("working"), &json!("none")));
    assert_eq!(stage.list_sessions().len(), 2);
}

/// Writes a script that tries every operator-only command, to be run wherever Provost runs a program. Its first
/// line checks that reading is allowed. Returns the command and the number of tries.
fn write_operator_attempts(stage: &TestEnv, other: &str) -> (String, usize) {
    let home = format!("PROVOST_HOME={}", stage.home.path().display());
    let bin = stage.home.command::<&str>(&[]).get_program().to_str().unwrap().to_owned();
    let asked = [
        format!("resolve {other} --as accepted --because mine"),
        "spawn -- true".to_owned(),
        format!("send {other} hello"),
        format!("cancel {other}"),
        format!("report completed --session {other}"),
        "gc --apply".to_owned(),
        "daemon stop".to_owned(),
    ];
    let codes = stage.file("codes");
    let output_file = stage.file("said");
    let mut script =
        format!("{home} {bin} ls >/dev/null 2>>{output_file}; echo look $? >> {codes}\n");
    for one in &asked {
        for before in ["", "env -i", "setsid -w env -i"] {
            let line = format!("{before} env {home} {bin} {one} >>{output_file} 2>&1");
            script.push_str(&format!("{line}; echo $? >> {codes}\n"));
        }
    }
    fs::write(stage.file("tries.sh"), script).unwrap();
    (format!("sh {}", stage.file("tries.sh")), asked.len() * 3)
}

/// The daemon itself runs git. A program that a repository makes git run is not the operator.
#[test]
fn program_run_by_git_is_not_the_operator() {
    let mut stage = TestEnv::new();
    let bin = stage.home.root().join("bin");
    fs::create_dir(&bin).unwrap();
    let usual = "/usr/local/bin:/usr/bin:/bin";
    // The first git that the daemon runs makes the attempt, once.
    let git = format!(
        "#!/bin/sh\nPATH={usual}; cd {root} || exit\nif grep -q daemon /proc/$PPID/cmdline && mv armed fired 2>/dev/null; then sh tries.sh; fi\ncd \"$OLDPWD\" && exec git \"$@\"\n",
        root = stage.home.root().display(),
    );
    fs::write(bin.join("git"), git).unwrap();
    fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o700)).unwrap();
    stage.home.set_env("PATH", format!("{}:{usual}", bin.display()));
    let other = stage.spawn_scenario(HANGS, &[]);
    let (_, tries) = write_operator_attempts(&stage, &other);
    fs::write(stage.file("armed"), "").unwrap();
    let repo = stage.home.repo("work");
    let id =
        stage.spawn_scenario_in(repo.path(), "[[step]]\nreport = \"completed\"\n", &["--worktree"]);
    assert_all_refused(&stage, tries, &other);
    stage.wait_sealed(&id);
}

#[track_caller]
fn assert_all_refused(stage: &TestEnv, tries: usize, other: &str) {
    let codes = eventually("every try was made", || {
        let codes = fs::read_to_string(stage.file("codes")).unwrap_or_default();
        (codes.lines().count() == tries + 1).then_some(codes)
    });
    let output = fs::read_to_string(stage.file("said")).unwrap();
    let (look, others) = codes.split_once('\n').unwrap();
    assert_eq!(look, "look 0", "{output}");
    assert!(others.lines().all(|code| code == "4"), "{codes}\n{output}");
    let row = stage.status(other);
    assert_eq!((&row["state"], &row["claim"]), (&json!("working"), &json!("none")));
    assert_eq!(stage.list_sessions().len(), 2);
}

#[test]
fn program_run_by_check_is_not_the_operator() {
    let stage = TestEnv::new();
    let other = stage.spawn_scenario(HANGS, &[]);
    let (check, count) = write_operator_attempts(&stage, &other);
    let repo = stage.home.repo("work");
    let work = "[[step]]\nwrite = { path = \"b.txt\", content = \"b\" }\n[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario_in(repo.path(), work, &["--worktree", "--check", &check]);
    assert_eq!(stage.wait_sealed(&id)["state"], "succeeded");
    assert_all_refused(&stage, count, &other);
}

#[test]
fn program_run_by_hook_or_setup_is_not_operator() {
    for (at, key) in [("hooks", "session.completed"), ("worktree", "setup")] {
        let stage = TestEnv::new();
        let other = stage.spawn_scenario(HANGS, &[]);
        let (command, count) = write_operator_attempts(&stage, &other);
        stage.configure(&format!("[{at}]\n{key} = {command:?}\n"));
        let repo = stage.home.repo("work");
        let id = stage.spawn_scenario_in(
            repo.path(),
            "[[step]]\nreport = \"completed\"\n",
            &["--worktree"],
        );
        stage.wait_sealed(&id);
        assert_all_refused(&stage, count, &other);
    }
}

#[test]
fn agent_killing_its_holder_is_not_the_operator() {
    let stage = TestEnv::new();
    let other = stage.spawn_scenario(HANGS, &[]);
    let bin = stage.home.command::<&str>(&[]).get_program().to_str().unwrap().to_owned();
    let home = format!("PROVOST_HOME={}", stage.home.path().display());
    let asks = format!("{home} {bin} cancel {other} >> {} 2>&1", stage.file("said"));
    let codes = stage.file("codes");
    // The process first has its mark, then neither mark nor parent. It ignores TERM, so that the
    // test has more time.
    let script = format!(
        "trap '' TERM HUP\nwhile ! test -e {go}; do sleep 0.05; done\nkill -9 $1\n{asks}; echo $? >> {codes}\n(env -i sh -c '{asks}; echo $? >> {codes}' &)\nsleep 60\nsleep 60\n",
        go = stage.file("go"),
    );
    fs::write(stage.file("orphan.sh"), script).unwrap();
    let start = format!("setsid sh {} $PPID & sleep 60", stage.file("orphan.sh"));
    let id = stage.spawn_in(stage.home.root(), &["--", "sh", "-c", &start]);
    stage.home.wait_state(&id, |row| row["launches"][0]["phase"] == "running");
    fs::write(stage.file("go"), "").unwrap();
    let row = stage.wait_sealed(&id);
    assert!(row["flags"].to_string().contains("exit_code_unobserved"), "{row}");
    let codes = fs::read_to_string(stage.file("codes")).unwrap();
    let output = fs::read_to_string(stage.file("said")).unwrap();
    assert_eq!(codes, "4\n4\n", "{output}");
    assert!(
        output.contains("only report") && output.contains("that the daemon started"),
        "{output}"
    );
    assert_eq!(stage.status(&other)["state"], "working");
    // The operator's process is older than that launch, or asks after it is gone.
    stage.home.provost(&["cancel", &other]).ok();
}

#[test]
fn agent_reports_without_a_token() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario(
        "[[step]]\nrun = [\"sh\", \"-c\", \"PROVOST_TOKEN=wrong $PROVOST_BIN report completed --json > reply\"]\n[[step]]\nexit = 0\n",
        &[],
    );
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["claim_source"]), (&json!("completed"), &json!("agent")));
}

#[test]
fn agent_may_read_state() {
    let stage = TestEnv::new();
    let id = stage.spawn_scenario("[[step]]\nrun = [\"sh\", \"-c\", \"$PROVOST_BIN ls --json > seen && $PROVOST_BIN status $PROVOST_SESSION\"]\n[[step]]\nreport = \"completed\"\n", &[]);
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    assert!(fs::read_to_string(stage.file("seen")).unwrap().contains(&id));
}

#[test]
fn agent_env_has_allowed_and_provost_variables() {
    let mut stage = TestEnv::new();
    for name in ["SECRET_API_KEY", "UNRELATED", "LENT_ONE", "LENT_TWO", "NAMED"] {
        stage.home.set_env(name, "x");
    }
    stage.configure("[environment]\nallow = [\"LENT_*\"]\n");
    let id = stage.spawn_scenario(
        "[[step]]\nenv_dump = \"names\"\n[[step]]\nreport = \"completed\"\n",
        &["--pass-env", "NAMED", "--env", "GIVEN=1"],
    );
    stage.wait_sealed(&id);
    let names = eventually("the names", || read_nonempty(stage.file("names")));
    let names: BTreeSet<&str> = names.lines().collect();
    for expected in [
        "PATH",
        "HOME",
        "LANG",
        "TZ",
        "LENT_ONE",
        "LENT_TWO",
        "NAMED",
        "GIVEN",
        "PROVOST_HOME",
        "PROVOST_BIN",
        "PROVOST_SESSION",
        "PROVOST_LAUNCH",
        "PROVOST_TOKEN",
        "PROVOST_LAUNCH_NO",
        "PROVOST_SOCKET",
    ] {
        assert!(names.contains(expected), "{expected} is missing: {names:?}");
    }
    for hidden in ["SECRET_API_KEY", "UNRELATED", "PROVOST_SESSION_SETTLE", "GIT_CONFIG_NOSYSTEM"] {
        assert!(!names.contains(hidden), "{hidden} leaked");
    }
    let spec = stage.spec(&id).to_string();
    assert!(!spec.contains("\"LENT_ONE\":"), "what is passed by name has no value in the ledger");
}

#[cfg(feature = "failpoints")]
#[test]
fn newer_binary_replaces_daemon_but_no_agent() {
    let mut stage = TestEnv::new();
    let id = stage
        .spawn_scenario("[[step]]\nwait_file = \"go\"\n[[step]]\nreport = \"completed\"\n", &[]);
    let (agent, old) = (stage.pid(&id), stage.home.daemon().status().unwrap());
    stage.home.set_env("PROVOST_TEST_VERSION", "99.0.0");
    let row = stage.status(&id);
    let new = stage.home.daemon().status().unwrap();
    assert_ne!((&old["pid"], &old["version"]), (&new["pid"], &new["version"]));
    assert_eq!(new["version"], "99.0.0");
    assert_eq!((&row["process"], stage.pid(&id)), (&json!("alive"), agent));
    // The newer daemon also serves an older program.
    stage.home.set_env("PROVOST_TEST_VERSION", "0.0.1");
    stage.status(&id);
    assert_eq!(stage.home.daemon().status().unwrap()["pid"], new["pid"]);
    fs::write(stage.file("go"), "").unwrap();
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], row["launches"].as_array().unwrap().len()),
        (&json!("completed"), 1)
    );
}
