//! E12: the user's own agent config is never edited; a session has its own home.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_agent_codex::home::{CarryMethod, Error, MARK};
use provost_agent_codex::{PreparedHome, clean, prepare};
use serde_json::json;

use crate::real::{self, AppServer};
use crate::test_env::{CodexHomeEnv, snapshot_tree};

#[test]
fn carried_and_skipped_items_are_reported() {
    let env = rich_user();
    let prepared = prepare(&env.session("s")).unwrap();

    let carried: Vec<(&str, CarryMethod)> =
        prepared.carried.iter().map(|one| (one.name.as_str(), one.how)).collect();
    let expected = [
        ("auth.json", CarryMethod::Linked),
        ("auth.lock", CarryMethod::Linked),
        (".env", CarryMethod::Linked),
        ("config.toml", CarryMethod::Merged),
        ("AGENTS.md", CarryMethod::Copied),
        ("AGENTS.override.md", CarryMethod::Copied),
        ("rules", CarryMethod::Copied),
        ("agents", CarryMethod::Copied),
        ("prompts", CarryMethod::Copied),
    ];
    assert_eq!(carried, expected);
    let skipped: Vec<&str> = prepared.skipped.iter().map(|one| one.name.as_str()).collect();
    let stays = ["config.toml: features.plugins", "plugins", "hooks.json", ".credentials.json"];
    assert_eq!(skipped, stays);
    let home = env.path("home/.codex");
    assert_eq!(fs::read_link(env.path("s/auth.json")).unwrap(), home.join("auth.json"));
    assert_eq!(fs::read_link(env.path("s/auth.lock")).unwrap(), home.join("auth.lock"));
    for copied in ["rules/default.rules", "rules/team/more.rules", "prompts/p.md", "AGENTS.md"] {
        let copy = env.path("s").join(copied);
        assert!(copy.symlink_metadata().unwrap().is_file(), "{copied}");
        assert_eq!(fs::read(copy).unwrap(), fs::read(home.join(copied)).unwrap());
    }
    assert_eq!(prepared.environment(), [("CODEX_HOME", env.path("s").as_path())]);
}

#[test]
fn prepare_is_private_and_idempotent() {
    let env = rich_user();
    env.skill("home/.codex/skills/one", "one");
    prepare(&env.session("s")).unwrap();
    let first = contents(&env.path("s"));
    assert!(first.keys().any(|path| path.ends_with("skills/one")));
    prepare(&env.session("s")).unwrap();
    assert_eq!(contents(&env.path("s")), first);
    let mode = |name: &str| env.path(name).symlink_metadata().unwrap().permissions().mode() & 0o777;
    for directory in ["s", "s/rules", "s/skills"] {
        assert_eq!(mode(directory), 0o700, "{directory}");
    }
    for file in ["s/config.toml", "s/rules/default.rules", "s/AGENTS.md"] {
        assert_eq!(mode(file), 0o600, "{file}");
    }
}

#[test]
fn carried_directories_mirror_user() {
    let env = rich_user();
    env.skill("home/.codex/skills/one", "one");
    prepare(&env.session("s")).unwrap();
    env.write("s/rules/default.rules", "prefix_rule(pattern=[\"rm\"], decision=\"allow\")");
    env.write("s/rules/more.rules", "x");
    env.write("s/sessions/rollout.jsonl", "kept");
    env.write("s/.provost-abc", "cut short");
    env.skill("s/skills/installed", "installed");
    for gone in ["AGENTS.md", "auth.json", "prompts/p.md", "skills/one/SKILL.md"] {
        fs::remove_file(env.path("home/.codex").join(gone)).unwrap();
    }
    prepare(&env.session("s")).unwrap();
    let rules = fs::read_to_string(env.path("s/rules/default.rules")).unwrap();
    assert_eq!(rules, "# the user's rules\n");
    for gone in ["rules/more.rules", ".provost-abc", "AGENTS.md", "prompts/p.md", "skills/one"] {
        assert!(env.path("s").join(gone).symlink_metadata().is_err(), "{gone}");
    }
    for gone in ["auth.json", "auth.lock"] {
        assert!(!env.path("s").join(gone).is_symlink(), "{gone}");
    }
    assert!(env.path("s/sessions/rollout.jsonl").exists());
    assert!(env.path("s/skills/installed/SKILL.md").exists());
}

#[test]
fn e12_agent_links_do_not_reach_user_home() {
    let env = rich_user();
    prepare(&env.session("s")).unwrap();
    let before = snapshot_tree(&env.path("home"));
    for name in ["rules", "skills", "prompts"] {
        fs::remove_dir_all(env.path("s").join(name)).unwrap();
        env.link(&format!("s/{name}"), &env.path("home/.codex/rules"));
    }
    for name in ["config.toml", "AGENTS.md"] {
        fs::remove_file(env.path("s").join(name)).unwrap();
        env.link(&format!("s/{name}"), &env.path("home/.codex").join(name));
    }
    fs::remove_file(env.path("home/.codex/rules/team/more.rules")).unwrap();
    env.write("home/.codex/rules/team/more.rules", "# more\n");
    let changed = snapshot_tree(&env.path("home"));
    assert_ne!(before, changed, "the picture shows a file that was written again");
    prepare(&env.session("s")).unwrap();
    assert_eq!(snapshot_tree(&env.path("home")), changed);
    for name in ["rules", "skills", "prompts", "config.toml", "AGENTS.md"] {
        assert!(!env.path("s").join(name).is_symlink(), "{name}");
    }
    env.link("s/more", &env.path("home/.codex"));
    clean(&env.path("s")).unwrap();
    assert_eq!(snapshot_tree(&env.path("home")), changed);
}

#[test]
fn foreign_directory_is_left_alone() {
    let env = rich_user();
    let before = snapshot_tree(&env.path("home"));
    for name in ["home/.codex", "home/.codex/inner", "home"] {
        let error = prepare(&env.session(name)).unwrap_err();
        assert!(matches!(error, Error::Overlap { .. }), "{error}");
    }
    let stranger =
        provost_agent_codex::SessionHome { codex_home: None, ..env.session("home/.codex") };
    assert!(matches!(prepare(&stranger).unwrap_err(), Error::NotOurs { .. }));
    assert!(matches!(clean(&env.path("home/.codex")).unwrap_err(), Error::NotOurs { .. }));
    let ignoring_modes =
        |picture: BTreeMap<PathBuf, String>| picture.into_keys().collect::<Vec<_>>();
    assert_eq!(ignoring_modes(snapshot_tree(&env.path("home"))), ignoring_modes(before));
}

#[test]
fn missing_codex_home_gets_quiet_session() {
    let env = CodexHomeEnv::new();
    fs::remove_dir(env.path("home/.codex")).unwrap();
    let prepared = prepare(&env.session("s")).unwrap();
    assert_eq!((prepared.carried, prepared.skipped, prepared.skills), (vec![], vec![], vec![]));
    let config = fs::read_to_string(env.path("s/config.toml")).unwrap();
    assert!(config.contains("daemon_auto_start = false"), "{config}");
    assert!(!env.path("home/.codex").exists());
}

#[test]
fn broken_user_config_error_has_line() {
    let env = CodexHomeEnv::new();
    env.write("home/.codex/config.toml", "model = \"m\"\n[features\n");
    let message = prepare(&env.session("s")).unwrap_err().to_string();
    let start = format!("cannot read {}, line 2: ", env.path("home/.codex/config.toml").display());
    assert!(message.starts_with(&start), "{message}");
}

#[test]
fn evicted_session_keeps_no_secret() {
    let env = rich_user();
    prepare(&env.session("s")).unwrap();
    env.write("s/sessions/2026/11/15/rollout-x.jsonl", "CANARY");
    env.write("s/logs_2.sqlite", "CANARY");
    env.write("s/something-new", "CANARY");
    let before = snapshot_tree(&env.path("home"));

    let removed = clean(&env.path("s")).unwrap();

    let because = |name: &str| removed.iter().find(|one| one.name == name).unwrap().because;
    assert_eq!(because("sessions"), "rollouts, which contain secret answers in clear text");
    assert_eq!(because("auth.json"), "credentials");
    assert_eq!(because("something-new"), "not known to be free of secrets");
    assert_eq!(fs::read_dir(env.path("s")).unwrap().count(), 0);
    assert_eq!(snapshot_tree(&env.path("home")), before);
    assert_eq!(clean(&env.path("s")).unwrap(), []);
    assert_eq!(clean(&env.path("never-was")).unwrap(), []);
    prepare(&env.session("s")).unwrap();
    assert!(env.path("s").join(MARK).exists());
}

#[test]
fn e12_real_codex_leaves_user_home_unchanged() {
    for codex in [real::codex(), real::old_codex()].into_iter().flatten() {
        let env = rich_user();
        env.skill("home/.codex/skills/one", "one");
        let prepared = prepare(&env.session("s")).unwrap();
        let before = snapshot_tree(&env.path("home"));
        let model = start_threads(&env, &codex, &prepared);
        assert_eq!(model, "a model of the user's");
        assert_eq!(snapshot_tree(&env.path("home")), before, "{}", codex.display());
        assert!(env.path("s/skills/.system").exists(), "Codex wrote into the session's home");
    }
}

#[test]
fn e12_codex_trust_is_written_to_session_home() {
    let Some(codex) = real::codex() else { return };
    let env = rich_user();
    let prepared = prepare(&env.session("s")).unwrap();
    let before = snapshot_tree(&env.path("home"));
    let first = fs::read_to_string(env.path("s/config.toml")).unwrap();

    start_threads(&env, &codex, &prepared);

    assert_eq!(snapshot_tree(&env.path("home")), before);
    let written = fs::read_to_string(env.path("s/config.toml")).unwrap();
    let elsewhere = format!("[projects.\"{}\"]", env.path("elsewhere").display());
    assert!(written.contains(&elsewhere), "{written}");
    prepare(&env.session("s")).unwrap();
    assert_eq!(fs::read_to_string(env.path("s/config.toml")).unwrap(), first);
}

#[test]
fn e11_codex_reads_user_and_worktree_instructions() {
    let Some(codex) = real::codex() else { return };
    let env = rich_user();
    fs::remove_file(env.path("home/.codex/AGENTS.override.md")).unwrap();
    env.write("worktree/AGENTS.md", "of the repository");
    prepare(&env.session("s")).unwrap();
    let mut server = AppServer::start(&env, &codex, &env.path("s"));
    let started = server.ask("thread/start", json!({"cwd": env.path("worktree")}));
    let sources = [env.path("s/AGENTS.md"), env.path("worktree/AGENTS.md")];
    assert_eq!(started["instructionSources"], json!(sources));
}

/// Starts threads in the worktree and elsewhere; returns the model's name.
fn start_threads(env: &CodexHomeEnv, codex: &Path, prepared: &PreparedHome) -> String {
    let made = Command::new("git").args(["init", "-q"]).arg(env.path("elsewhere")).status();
    assert!(made.unwrap().success());
    let mut server = AppServer::start(env, codex, &prepared.dir);
    let mut start = |directory: &str| {
        let params = json!({"cwd": env.path(directory), "sandbox": "workspace-write"});
        server.ask("thread/start", params)
    };
    start("elsewhere");
    start("worktree")["model"].as_str().unwrap().to_owned()
}

/// Returns a user with one item of each kind.
fn rich_user() -> CodexHomeEnv {
    let env = CodexHomeEnv::new();
    let files = [
        ("config.toml", "model = \"a model of the user's\"\n[features]\nplugins = true\n"),
        ("auth.json", "{\"auth_mode\":\"apikey\",\"OPENAI_API_KEY\":\"sk-users\"}"),
        (".env", "KEY=value\n"),
        ("AGENTS.md", "of the user"),
        ("AGENTS.override.md", "of the user, now"),
        ("rules/default.rules", "# the user's rules\n"),
        ("rules/team/more.rules", "# more\n"),
        ("agents/README.md", "roles"),
        ("prompts/p.md", "prompt"),
        ("plugins/x/plugin.json", "{}"),
        ("hooks.json", "{}"),
        (".credentials.json", "{}"),
        ("sessions/rollout.jsonl", "the user's"),
    ];
    for (name, text) in files {
        env.write(&format!("home/.codex/{name}"), text);
    }
    env
}

/// Returns the content of a tree, without times.
fn contents(root: &Path) -> BTreeMap<PathBuf, String> {
    let without_time = |entry: String| {
        let mut words = entry.splitn(3, ' ');
        format!("{} {}", words.next().unwrap(), words.nth(1).unwrap())
    };
    snapshot_tree(root).into_iter().map(|(path, entry)| (path, without_time(entry))).collect()
}
