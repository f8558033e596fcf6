//! Every flag of `spawn` has an observable effect.

use std::collections::BTreeSet;

use provost_testkit::env::TestEnv;
use serde_json::{Value, json};

use crate::options::fake_codex;

/// A flag of `spawn`, arguments that use it, and a predicate on the spec and row that shows its effect.
struct SpawnFlag {
    name: &'static str,
    arguments: &'static [&'static str],
    observe: fn(&Value, &Value) -> bool,
}

fn spawn_flags() -> Vec<SpawnFlag> {
    let flag = |name, arguments, seen| SpawnFlag { name, arguments, observe: seen };
    vec![
        flag("--agent", &["--agent", "helper"], |spec, _| spec["agent"]["name"] == "helper"),
        flag("--name", &["--name", "n", "--", "true"], |_, row| row["name"] == "n"),
        flag("--role", &["--role", "r", "--", "true"], |_, row| row["role"] == "r"),
        flag("--cwd", &["--cwd", "/", "--", "true"], |_, row| row["cwd"] == "/"),
        flag("--worktree", &["--worktree", "--", "true"], |_, row| {
            row["worktree"]["path"].is_string()
        }),
        flag("--no-worktree", &["--worktree", "--no-worktree", "--", "true"], |_, row| {
            row["worktree"].is_null()
        }),
        flag("--check", &["--check", "a", "--check", "b", "--", "true"], |spec, _| {
            spec["checks"] == json!(["a", "b"])
        }),
        flag("--no-check", &["--no-check", "--", "true"], |spec, _| spec["checks"] == json!([])),
        flag("--exit-zero-completes", &["--exit-zero-completes", "--", "true"], |_, row| {
            row["state"] == "completed"
        }),
        flag("--no-exit-zero-completes", &["--no-exit-zero-completes", "--", "true"], |_, row| {
            row["state"] == "exited_without_claim"
        }),
        flag(
            "--allow-empty-diff",
            &["--check", "true", "--allow-empty-diff", "--", "true"],
            |_, row| row["state"] == "succeeded",
        ),
        flag("--keep", &["--keep", "--", "true"], |spec, _| spec["on_finish"] == "park"),
        flag("--time-limit", &["--time-limit", "9s", "--", "true"], |spec, _| {
            spec["bounds"]["time_limit_ms"] == 9_000
        }),
        flag("--stale-after", &["--stale-after", "8s", "--", "true"], |spec, _| {
            spec["bounds"]["stale_ms"] == 8_000
        }),
        flag("--settle", &["--settle", "7ms", "--", "true"], |spec, _| {
            spec["bounds"]["settle_ms"] == 7
        }),
        flag("--env", &["--env", "A=b", "--", "true"], |spec, _| spec["agent"]["env"]["A"] == "b"),
        flag("--pass-env", &["--pass-env", "LANG", "--", "true"], |spec, _| {
            spec["agent"]["pass_env"] == json!(["LANG"])
        }),
        flag("--budget", &["--agent", "talks", "--budget", "5k"], |spec, _| {
            spec["budget"]["tokens"] == 5_000
        }),
        flag("--turns", &["--agent", "talks", "--turns", "4"], |spec, _| {
            spec["budget"]["turns"] == 4
        }),
        flag("--tty", &["--tty", "--", "true"], |spec, _| spec["agent"]["mode"] == "terminal"),
        // The tests of tmux windows cover the other effects of this flag.
        flag("--tmux", &["--tty", "--tmux", "--", "true"], |spec, _| {
            spec["agent"]["mode"] == "terminal"
        }),
        flag("--accept-trust", &["--tty", "--accept-trust", ".", "--", "true"], |spec, _| {
            spec["agent"]["settings"]["accept_trust"] == true
        }),
        flag("--once", &["--agent", "codex", "--once", "x"], |spec, _| {
            spec["agent"]["mode"] == "once" && spec["exit_zero"] == "completes"
        }),
        flag(
            "--codex-path",
            &["--agent", "codex", "--once", "--codex-path", "../../fake-codex", "x"],
            |spec, _| spec["agent"]["argv"][0].as_str().unwrap().ends_with("/fake-codex"),
        ),
        flag("--model", &["--agent", "codex", "--once", "--model", "m", "x"], |spec, _| {
            spec["agent"]["settings"]["model"] == "m"
        }),
        flag("--effort", &["--agent", "codex", "--once", "--effort", "low", "x"], |spec, _| {
            spec["agent"]["settings"]["effort"] == "low"
        }),
        flag(
            "--sandbox",
            &["--agent", "codex", "--once", "--sandbox", "full-access", "x"],
            |spec, _| spec["agent"]["settings"]["sandbox"] == "full-access",
        ),
        flag("--network", &["--agent", "codex", "--once", "--network", "x"], |spec, _| {
            spec["agent"]["settings"]["network"] == true
        }),
        flag("--approvals", &["--agent", "codex", "--approvals", "untrusted", "x"], |spec, _| {
            spec["agent"]["settings"]["approvals"] == "untrusted"
        }),
        flag("--stdin", &["--stdin", "--", "true"], |spec, _| spec["agent"]["input"] == "open"),
    ]
}

/// Flags that affect the command itself; each has its own test.
const FLAGS_TESTED_ELSEWHERE: [&str; 5] =
    ["--ignore-project-config", "--wait", "--key", "--json", "--help"];

#[test]
fn e10_spawn_flags_have_an_effect() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    fake_codex(&stage);
    stage.configure(
        "[verify]\nchecks = []\n[agents.helper]\ncommand = [\"true\"]\n[agents.talks]\nadapter = \"jsonl\"\ncommand = [\"true\"]\n[agents.codex]\npath = \"../../../fake-codex\"\n",
    );
    let mut known: BTreeSet<String> =
        FLAGS_TESTED_ELSEWHERE.iter().map(|name| (*name).to_owned()).collect();
    let opened: Vec<_> = spawn_flags()
        .into_iter()
        .map(|flag| {
            known.insert(flag.name.to_owned());
            let id = stage.spawn_in(repo.path(), flag.arguments);
            (flag, id)
        })
        .collect();
    for (flag, id) in opened {
        let row = stage.wait_sealed(&id);
        assert!((flag.observe)(&stage.spec(&id), &row), "{} has no effect: {row:#}", flag.name);
    }
    assert_eq!(
        documented_flags(&stage, "spawn"),
        known,
        "every documented flag is tried, and every tried flag documented"
    );
}

#[test]
fn e10_repeated_key_is_one_session_and_wait_waits() {
    let stage = TestEnv::new();
    let spawn =
        ["spawn", "--json", "--key", "once", "--exit-zero-completes", "--wait", "--", "true"];
    let first = stage.home.provost(&spawn).ok().json();
    let again = stage.home.provost(&spawn).ok().json();
    assert_eq!((&first["id"], &first["session"]["sealed"]), (&again["id"], &json!(true)));
    assert_eq!(stage.list_sessions().len(), 1);
}

/// Returns the long flags in a command's help.
pub(crate) fn documented_flags(stage: &TestEnv, command: &str) -> BTreeSet<String> {
    let help = stage.home.provost(&[command, "--help"]).ok().stdout.clone();
    let options = help.split("Options:").nth(1).unwrap().split("Examples:").next().unwrap();
    let flag = |line: &str| {
        let line = line.trim_start();
        let long = line.strip_prefix("-h, ").unwrap_or(line);
        long.starts_with("--").then(|| long.split([' ', ',']).next().unwrap().to_owned())
    };
    options.lines().filter_map(flag).collect()
}
