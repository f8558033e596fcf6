//! Provost itself checks the work, on the committed tree, in a clean checkout.

use std::{fs, path::Path};

use provost_testkit::harness::TestRepo;
use serde_json::{Value, json};

use provost_testkit::env::{TALKER, TestEnv};

const WRITES_FILE: &str = "[[step]]\nwrite = { path = \"b.txt\", content = \"b\" }\n";

/// Claims completion after every instruction, and records its input.
const CLAIMS_EVERY_TIME: &str = r#"
[[step]]
emit = { type = "ready", thread = "t" }
[[step]]
wait_input = { type = "instruction" }
[[step]]
write = { path = "work.txt", content = "0" }
[[step]]
emit = { type = "claim", claim = "completed" }
[[step]]
emit = { type = "turn_ended", turn = "t0", status = "ok" }
[[step]]
[step.repeat]
times = 9
steps = [
  { wait_input = { type = "rework" } },
  { append = { path = "input", content = "{{input}}\n" } },
  { emit = { type = "turn_started", turn = "t{{n}}" } },
  { write = { path = "work.txt", content = "{{n}}" } },
  { emit = { type = "claim", claim = "completed" } },
  { emit = { type = "turn_ended", turn = "t{{n}}", status = "ok" } },
]
"#;

#[test]
fn passing_checks_succeed_with_receipts_for_tree() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let checks = [
        "--check",
        "test \"$(cat b.txt)\" = b && echo checked",
        "--check",
        "git rev-parse HEAD >&2",
    ];
    let id =
        stage.spawn_scenario_in(repo.path(), WRITES_FILE, &[&["--worktree"], &checks[..]].concat());
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["verification"]),
        (&json!("succeeded"), &json!("passed")),
        "{row:#}"
    );
    let (tree, commit) = (row["tree"].as_str().unwrap(), row["commit"].as_str().unwrap());
    let branch = row["worktree"]["branch"].as_str().unwrap();
    assert_eq!(repo.git(&["rev-parse", branch]), commit, "the work is on the session's branch");
    assert_eq!(repo.tree(commit), tree);
    assert_eq!(repo.git(&["show", &format!("{commit}:b.txt")]), "b");
    for receipt in row["checks"].as_array().unwrap() {
        assert_eq!((&receipt["result"], &receipt["tree"]), (&json!("passed"), &json!(tree)));
        assert!(!receipt["output_digest"].as_str().unwrap().is_empty());
        assert!(receipt["duration_ms"].is_u64());
    }
    let shown = stage.home.provost(&["logs", &id, "--check", "1"]).ok().stdout.clone();
    assert!(shown.contains("checked"), "{shown}");
    let second = stage.home.provost(&["logs", &id, "--check", "2"]).ok().stdout.clone();
    assert!(second.contains(commit), "checks run on the commit: {second}");
    assert!(repo.is_clean() && !repo.path().join("b.txt").exists());
}

/// A session with a check, whose agent runs this line.
fn checked_session(stage: &TestEnv, repo: &TestRepo, line: &str) -> Value {
    let flags = ["--worktree", "--exit-zero-completes", "--check", "test -e b.txt"];
    let id = stage.spawn_in(repo.path(), &[&flags[..], &["--", "sh", "-ec", line]].concat());
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    row
}

fn has_flag(row: &Value, flag: &str) -> bool {
    row["flags"].as_array().unwrap().iter().any(|one| one == flag)
}

#[test]
fn shown_branch_has_the_work_after_branch_switch() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    for leave in ["git checkout -q --detach", "git checkout -q -b other"] {
        let row = checked_session(&stage, &repo, &format!("{leave}; echo b > b.txt"));
        let branch = row["worktree"]["branch"].as_str().unwrap();
        assert_eq!(repo.git(&["rev-parse", branch]), row["commit"].as_str().unwrap(), "{leave}");
        assert_eq!((has_flag(&row, "off_branch"), &row["warnings"]), (false, &json!([])));
    }
}

#[test]
fn worktree_removed_under_a_session_is_shown() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let line = "echo b > b.txt; rm -rf \"$PWD\"";
    let gone = |check: &[&str]| {
        let flags = [&["--worktree"], check, &["--", "sh", "-ec", line]].concat();
        stage.wait_sealed(&stage.spawn_in(repo.path(), &flags))
    };
    let checked = gone(&["--check", "true"]);
    let ending = (&checked["state"], &checked["cause"]);
    assert_eq!(ending, (&json!("failed"), &json!("checks_not_run")), "{checked:#}");
    let unchecked = gone(&[]);
    assert_eq!(unchecked["state"], "completed", "{unchecked:#}");
    assert!(has_flag(&unchecked, "not_committed"), "{unchecked:#}");
    let list = stage.home.provost(&["ls", "--all"]);
    let id = unchecked["id"].as_str().unwrap();
    let shown = list.ok().stdout.lines().find(|line| line.contains(&id[id.len() - 8..]));
    assert!(shown.unwrap().contains("not committed: the worktree"), "{list:#?}");
    // No wait takes lost work for success.
    let waited = stage.home.provost(&["monitor", id]);
    assert!(waited.assert_code(1).stdout.contains("not committed: the worktree"), "{waited:#?}");
    let why = stage.home.provost(&["status", id, "--why"]);
    assert!(why.ok().stdout.contains("not committed: the worktree"), "{why:#?}");
    let wait = ["spawn", "--worktree", "--wait", "--", "sh", "-ec", line];
    let waited = stage.home.provost_in(repo.path(), &wait);
    assert!(waited.assert_code(1).stderr.contains("not committed: the worktree"), "{waited:#?}");
    for registered in repo.git(&["worktree", "list", "--porcelain"]).lines() {
        let path = registered.strip_prefix("worktree ").map(Path::new);
        if let Some(path) = path.filter(|path| !path.exists()) {
            repo.git(&["worktree", "unlock", path.to_str().unwrap()]);
        }
    }
    repo.git(&["worktree", "prune"]);
}

#[test]
fn work_off_the_shown_branch_is_flagged_with_ref() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let commit = "git -c user.name=A -c user.email=a@example.invalid commit -q --allow-empty -m x";
    let row = checked_session(
        &stage,
        &repo,
        &format!("{commit}; git checkout -q --detach HEAD~1; echo b > b.txt"),
    );
    assert!(has_flag(&row, "off_branch"), "{row:#}");
    let warning = row["warnings"][0].as_str().unwrap();
    let kept = warning.split_whitespace().last().unwrap();
    assert_eq!(repo.git(&["rev-parse", kept]), row["commit"].as_str().unwrap(), "{warning}");
    let branch = row["worktree"]["branch"].as_str().unwrap();
    assert_ne!(repo.git(&["rev-parse", branch]), row["commit"].as_str().unwrap());
    let shown = stage.home.provost(&["status", row["id"].as_str().unwrap()]).ok().stdout.clone();
    assert!(shown.contains(kept), "{shown}");
}

#[test]
fn worktree_deleted_by_agent_is_reported_missing() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let flags = ["--worktree", "--exit-zero-completes", "--check", "true"];
    let line = "echo b > b.txt; rm -rf \"$PWD\"";
    let id = stage.spawn_in(repo.path(), &[&flags[..], &["--", "sh", "-ec", line]].concat());
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["verification"]),
        (&json!("failed"), &json!("failed")),
        "{row:#}"
    );
    let shown = row.to_string() + &stage.home.provost(&["status", &id]).ok().stdout;
    let gone = format!("the worktree {} is gone", row["worktree"]["path"].as_str().unwrap());
    assert!(shown.contains(&gone) && !shown.contains("No such file"), "{shown}");
    let path = row["worktree"]["path"].as_str().unwrap();
    repo.git(&["worktree", "remove", "--force", "--force", path]);
}

#[test]
fn work_outside_verified_tree_is_named() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let inner = stage.home.repo("inner");
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    repo.git(&[&add[..], &[inner.path().to_str().unwrap(), "sub"]].concat());
    repo.commit("Submodule");
    let row = checked_session(
        &stage,
        &repo,
        "echo b > b.txt; echo more >> sub/README.md; git init -q nested; echo x > nested/x",
    );
    assert!(has_flag(&row, "left_out"), "{row:#}");
    let warning = row["warnings"][0].as_str().unwrap();
    for path in ["nested/", "sub"] {
        assert!(warning.contains(path), "{path} is not in {warning:?}");
    }
    let shown = stage.home.provost(&["status", row["id"].as_str().unwrap()]).ok().stdout.clone();
    assert!(shown.contains("could not be committed") && shown.contains("nested/"), "{shown}");
    let clean = checked_session(&stage, &repo, "echo b > b.txt");
    assert!(!has_flag(&clean, "left_out"), "{clean:#}");
}

#[test]
fn refuted_work_returns_to_live_agent() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure_talker(CLAIMS_EVERY_TIME, "[session]\nstop_grace = \"100ms\"\n");
    let check = "test \"$(cat work.txt)\" = 2";
    let id =
        stage.spawn_in(repo.path(), &["--agent", TALKER, "--worktree", "--check", check, "go"]);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let input =
        fs::read_to_string(Path::new(row["worktree"]["path"].as_str().unwrap()).join("input"))
            .unwrap();
    assert_eq!(input.lines().count(), 2, "{input}");
    assert!(input.contains(check) && input.contains("exited with 1"), "{input}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
}

#[test]
fn refuted_work_returns_are_limited() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    stage.configure_talker(CLAIMS_EVERY_TIME, "[session]\nrework = 2\nstop_grace = \"100ms\"\n");
    let id =
        stage.spawn_in(repo.path(), &["--agent", TALKER, "--worktree", "--check", "false", "go"]);
    let row = stage.wait_sealed(&id);
    assert_eq!(
        (&row["state"], &row["cause"]),
        (&json!("failed"), &json!("verification")),
        "{row:#}"
    );
    assert_eq!(stage.events_of(&id, "rework.sent").len(), 2);
    assert_eq!(row["verification"], "failed");
}

#[test]
fn empty_diff_fails_unless_allowed() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let refused = stage.spawn_in(repo.path(), &["--worktree", "--check", "true", "--", "true"]);
    let allowed = stage.spawn_in(
        repo.path(),
        &["--worktree", "--check", "true", "--allow-empty-diff", "--", "true"],
    );
    let row = stage.wait_sealed(&refused);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("verification")));
    assert!(row["flags"].as_array().unwrap().contains(&json!("empty_diff")), "{row}");
    assert_eq!(stage.wait_sealed(&allowed)["state"], "succeeded");
}

#[test]
fn in_place_work_keeps_user_index_and_branch() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write("staged.txt", "staged\n");
    repo.git(&["add", "staged.txt"]);
    repo.write("untracked.txt", "mine\n");
    let before = user_state(&repo);
    let id = stage.spawn_scenario_in(
        repo.path(),
        WRITES_FILE,
        &["--check", "test -f b.txt && test -f untracked.txt"],
    );
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(user_state(&repo), before);
    assert_eq!(repo.read("b.txt"), "b");
    assert_eq!(repo.tree(row["commit"].as_str().unwrap()), row["tree"].as_str().unwrap());
    assert_eq!(repo.branches(), ["main"]);
    assert!(
        repo.git(&["for-each-ref", "refs/provost/keep"]).contains(row["commit"].as_str().unwrap())
    );
}

/// The user's state: branch, commit, the bytes of the index, and the stash.
fn user_state(repo: &TestRepo) -> (String, String, Vec<u8>, String) {
    let index = fs::read(repo.path().join(".git/index")).unwrap();
    (repo.git(&["symbolic-ref", "HEAD"]), repo.head(), index, repo.git(&["stash", "list"]))
}

#[test]
fn changes_made_by_a_check_are_ignored() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let spoils = "echo spoilt > b.txt; rm README.md; git add -A; echo x > new.txt";
    let id = stage.spawn_scenario_in(
        repo.path(),
        WRITES_FILE,
        &[
            "--worktree",
            "--check",
            spoils,
            "--check",
            "test \"$(cat b.txt)\" = b && test -f README.md && test ! -e new.txt",
        ],
    );
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(repo.git(&["show", &format!("{}:b.txt", row["commit"].as_str().unwrap())]), "b");
}

#[test]
fn constantly_changing_tree_never_succeeds() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    // Each run of the check changes the work from outside, as an editor might.
    let moves = format!("date +%N >> {}/moving.txt", repo.path().display());
    let id = stage.spawn_scenario_in(repo.path(), WRITES_FILE, &["--check", &moves]);
    let row = stage.wait_sealed(&id);
    assert_ne!(row["state"], "succeeded");
    assert!(row["flags"].as_array().unwrap().contains(&json!("moving_tree")), "{row:#}");
    let taken = stage.events_of(&id, "snapshot.taken").len();
    assert!((2..=10).contains(&taken), "{taken} snapshots were taken");
}

#[test]
fn failed_claim_with_passing_checks_is_disputed() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let id = stage.spawn_scenario_in(
        repo.path(),
        &format!("{WRITES_FILE}[[step]]\nreport = \"failed\"\n"),
        &["--worktree", "--check", "true"],
    );
    let row = stage.wait_sealed(&id);
    assert_eq!((&row["state"], &row["verification"]), (&json!("disputed"), &json!("passed")));
    assert!(row["flags"].as_array().unwrap().contains(&json!("claim_vs_verdict")));
    let accepted = stage
        .home
        .provost(&["resolve", &id, "--as", "accepted", "--because", "it is right", "--json"])
        .ok()
        .json();
    assert_eq!(accepted["session"]["state"], "accepted");
    assert_eq!(accepted["session"]["resolution"]["because"], "it is right");
    stage.home.provost(&["resolve", &id, "--as", "succeeded", "--because", "x"]).assert_code(2);
}

#[test]
fn worktree_is_set_up_before_agent_starts() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write(".gitignore", ".env\n");
    repo.commit("Ignore");
    repo.write(".env", "LOCAL=1\n");
    stage.configure("[worktree]\nenabled = true\ncopy = [\".env\"]\nsetup = \"test -f .env && echo ready > setup.txt\"\n");
    let id = stage.spawn_scenario_in(
        repo.path(),
        "[[step]]\nrun = [\"test\", \"-f\", \"setup.txt\"]\n[[step]]\nreport = \"completed\"\n",
        &[],
    );
    assert_eq!(stage.wait_sealed(&id)["state"], "completed");
    stage.configure("[worktree]\nenabled = true\nsetup = \"echo broken >&2; exit 3\"\n");
    let failed = stage.spawn_in(repo.path(), &["--", "touch", "started"]);
    let row = stage.wait_sealed(&failed);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("launch")), "{row:#}");
    assert_eq!(
        row["launches"],
        Value::Array(Vec::new()),
        "nothing is started in a place that is not ready"
    );
}
