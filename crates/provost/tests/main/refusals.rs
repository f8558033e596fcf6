//! Commands refused before anything is started, and unusable homes.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::cli_env::CliEnv;

fn spawn_refusal(world: &CliEnv, arguments: &[&str]) -> String {
    let ran = world.run(&[&["spawn", "--json"], arguments, &["--", "true"]].concat());
    assert_eq!(ran.code, 2, "{ran:?}");
    let message = ran.json_error("bad_request");
    world.assert_untouched();
    message
}

#[test]
fn checks_and_worktrees_need_a_repository() {
    let world = CliEnv::new();
    assert!(spawn_refusal(&world, &["--check", "true"]).starts_with("there is no git repository"));
    assert!(spawn_refusal(&world, &["--worktree"]).starts_with("there is no git repository"));
    assert!(spawn_refusal(&world, &["--cwd", "/no/such/place"]).contains("/no/such/place"));
}

#[test]
fn checks_and_worktrees_need_a_commit() {
    let world = CliEnv::new();
    world.git(&["init", "-q"]);
    assert!(spawn_refusal(&world, &["--worktree"]).starts_with("the repository"));
    assert!(spawn_refusal(&world, &["--check", "true"]).starts_with("the repository"));
    let message = world.run(&["spawn", "--check", "true", "--", "true"]).stderr;
    let command = "git commit --allow-empty -m first";
    assert!(message.contains(&format!("create a first commit with `{command}`")), "{message}");
    let next: Vec<&str> = message.lines().filter(|line| line.contains("next:")).collect();
    assert_eq!(next, [format!("  next: {command}")], "{message}");
}

#[test]
fn bare_repository_is_refused() {
    let world = CliEnv::new();
    world.git(&["init", "-q", "--bare"]);
    assert!(spawn_refusal(&world, &["--worktree"]).contains("bare"));
}

#[test]
fn invalid_branch_prefix_is_refused() {
    let world = CliEnv::new();
    world.git(&["init", "-q"]);
    world.git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    world.write("user/.config/provost/provost.toml", "[worktree]\nbranch_prefix = \"x.lock\"\n");
    assert!(spawn_refusal(&world, &["--worktree"]).contains("branch_prefix"));
}

#[test]
fn flags_have_the_limits_of_the_config() {
    let world = CliEnv::new();
    assert!(spawn_refusal(&world, &["--settle", "2 s"]).contains("--settle"));
    assert!(spawn_refusal(&world, &["--time-limit", "0s"]).contains("--time-limit"));
}

#[test]
fn world_writable_home_is_refused() {
    let world = CliEnv::new();
    fs::create_dir(world.home()).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o777)).unwrap();
    for arguments in
        [&["ls", "--json"][..], &["ledger", "verify", "--json"], &["daemon", "status", "--json"]]
    {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 4, "{ran:?}");
        assert!(ran.json_error("refused").contains("others"));
    }
    world.assert_untouched();
}

#[test]
fn home_that_is_a_file_is_refused() {
    let world = CliEnv::new();
    world.write("home", "");
    assert!(world.run(&["ls", "--json"]).json_error("refused").contains("not a directory"));
}

#[test]
fn home_that_cannot_be_created_is_an_error() {
    let world = CliEnv::new();
    let ran = world.run_with(&["ls", "--json"], &[("PROVOST_HOME", "/proc/provost")]);
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(ran.json_error("storage").contains("/proc/provost"));
}

#[test]
fn read_commands_start_no_daemon() {
    let world = CliEnv::new();
    assert_eq!(world.run(&["ledger", "verify", "--json"]).code, 3);
    assert_eq!(world.run(&["daemon", "status", "--json"]).code, 6);
    assert_eq!(world.run(&["daemon", "stop", "--json"]).json()["running"], false);
    let path = world.run(&["ledger", "path"]);
    assert_eq!(path.stdout.trim_end(), world.home().join("ledger").display().to_string());
    world.assert_untouched();
}

#[test]
fn report_outside_an_agent_is_bad_usage() {
    let world = CliEnv::new();
    let ran = world.run(&["report", "completed", "--json"]);
    assert_eq!(ran.code, 2);
    assert!(ran.json_error("bad_request").contains("inside an agent"));
}

#[test]
fn report_without_daemon_goes_to_drop_box() {
    let world = CliEnv::new();
    let launch = "0199aa11-0000-7000-8000-0000deadbeef.l1";
    let variables = [("PROVOST_LAUNCH", launch), ("PROVOST_TOKEN", "t")];
    let nowhere = world.run_with(&["report", "completed", "--json"], &variables);
    assert_eq!(nowhere.code, 6, "{nowhere:?}");
    let dir = world.home().join("launches").join(launch);
    fs::create_dir_all(&dir).unwrap();
    fs::set_permissions(world.home(), fs::Permissions::from_mode(0o700)).unwrap();
    let ran = world.run_with(&["report", "completed", "--key", "k/1", "--json"], &variables);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.json()["status"], "recorded");
    let dropped = fs::read_to_string(ran.json()["dropped"].as_str().unwrap()).unwrap();
    let report: serde_json::Value = serde_json::from_str(&dropped).unwrap();
    assert_eq!((&report["claim"], &report["launch"]), (&"completed".into(), &launch.into()));
}

#[test]
fn invalid_export_is_not_imported() {
    let world = CliEnv::new();
    let missing = world.run(&["ledger", "import", "gone.jsonl", "--json"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    world.write("work/bad.jsonl", "not an export\n");
    let bad = world.run(&["ledger", "import", "bad.jsonl", "--json"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    assert!(bad.json_error("bad_request").contains("nothing was imported"));
}

#[test]
fn doctor_suggests_fixes() {
    let world = CliEnv::new();
    let ran = world.run(&["doctor", "--json"]);
    let value = ran.json();
    let findings = value["findings"].as_array().unwrap();
    let found = |what: &str| findings.iter().find(|finding| finding["what"] == what).unwrap();
    for what in [
        "home", "disk", "storage", "socket", "ledger", "daemon", "config", "git", "tmux", "strace",
        "boot id", "landlock",
    ] {
        assert!(found(what)["level"].is_string(), "{what}");
    }
    let landlock = match provost_sys::landlock::abi() {
        Ok(Some(abi)) => format!("ABI {abi}"),
        Ok(None) => "not available".to_owned(),
        Err(_) => "cannot be examined".to_owned(),
    };
    assert!(found("landlock")["found"].as_str().unwrap().contains(&landlock), "{value:#}");
    assert_eq!(found("provost")["level"], "warn");
    assert!(found("provost")["fix"].as_str().unwrap().ends_with("to the front of your PATH"));
    assert_eq!(found("agent PATH")["level"], "ok", "agents get the same PATH");
    assert!(findings.iter().all(|finding| finding["level"] == "ok" || finding["fix"].is_string()));
    world.write("user/.config/provost/provost.toml", "nonsense");
    let ran = world.run(&["doctor", "--json"]);
    assert_eq!((ran.code, ran.json()["ok"].as_bool()), (1, Some(false)));
    assert!(ran.json_error("failed").contains("config"));
}

#[test]
fn doctor_finds_provost_on_path() {
    let world = CliEnv::new();
    let bin =
        std::path::Path::new(env!("CARGO_BIN_EXE_provost")).parent().unwrap().display().to_string();
    let path = format!("{bin}:/usr/bin:/bin");
    let ran = world.run_with(&["doctor", "--json"], &[("PATH", &path)]);
    let value = ran.json();
    let found = value["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["what"] == "provost")
        .unwrap()
        .clone();
    assert_eq!(found["level"], "ok", "{found}");
}
