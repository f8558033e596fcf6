//! Provost itself checks the work, on the committed tree, in a clean checkout.

use std::{fs, path::Path};

use provost_testkit::harness::Repo;
use serde_json::{Value, json};

use crate::kit::{Stage, TALKER};

const WRITES: &str = "[[step]]\nwrite = { path = \"b.txt\", content = \"b\" }\n";

/// Claims completion after every instruction, and records its input.
const PERSISTENT: &str = r#"
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
fn work_that_passes_its_checks_is_succeeded_with_receipts_for_its_tree() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let checks = [
        "--check",
        "test \"$(cat b.txt)\" = b && echo checked",
        "--check",
        "git rev-parse HEAD >&2",
    ];
    let id = stage.play_in(repo.path(), WRITES, &[&["--worktree"], &checks[..]].concat());
    let row = stage.sealed(&id);
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
fn checked(stage: &Stage, repo: &Repo, line: &str) -> Value {
    let flags = ["--worktree", "--exit0-is-done", "--check", "test -e b.txt"];
    let id = stage.spawn_in(repo.path(), &[&flags[..], &["--", "sh", "-ec", line]].concat());
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    row
}

fn has_flag(row: &Value, flag: &str) -> bool {
    row["flags"].as_array().unwrap().iter().any(|one| one == flag)
}

#[test]
fn the_branch_shown_holds_the_work_though_the_agent_left_it() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    for leave in ["git checkout -q --detach", "git checkout -q -b other"] {
        let row = checked(&stage, &repo, &format!("{leave}; echo b > b.txt"));
        let branch = row["worktree"]["branch"].as_str().unwrap();
        assert_eq!(repo.git(&["rev-parse", branch]), row["commit"].as_str().unwrap(), "{leave}");
        assert_eq!((has_flag(&row, "off_branch"), &row["warnings"]), (false, &json!([])));
    }
}

#[test]
fn work_that_is_not_on_the_branch_shown_is_flagged_with_its_ref() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let commit = "git -c user.name=A -c user.email=a@example.invalid commit -q --allow-empty -m x";
    let row = checked(
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
fn a_worktree_that_the_agent_deleted_is_told_as_gone() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let flags = ["--worktree", "--exit0-is-done", "--check", "true"];
    let line = "echo b > b.txt; rm -rf \"$PWD\"";
    let id = stage.spawn_in(repo.path(), &[&flags[..], &["--", "sh", "-ec", line]].concat());
    let row = stage.sealed(&id);
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
fn work_that_is_not_in_the_verified_tree_is_named() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let inner = stage.home.repo("inner");
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add"];
    repo.git(&[&add[..], &[inner.path().to_str().unwrap(), "sub"]].concat());
    repo.commit("Submodule");
    let row = checked(
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
    assert!(shown.contains("left out") && shown.contains("nested/"), "{shown}");
    let clean = checked(&stage, &repo, "echo b > b.txt");
    assert!(!has_flag(&clean, "left_out"), "{clean:#}");
}

#[test]
fn refuted_work_goes_back_to_a_living_agent_and_can_still_succeed() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    stage.configure_talker(PERSISTENT, "[session]\nstop_grace = \"100ms\"\n");
    let check = "test \"$(cat work.txt)\" = 2";
    let id =
        stage.spawn_in(repo.path(), &["--agent", TALKER, "--worktree", "--check", check, "go"]);
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let input =
        fs::read_to_string(Path::new(row["worktree"]["path"].as_str().unwrap()).join("input"))
            .unwrap();
    assert_eq!(input.lines().count(), 2, "{input}");
    assert!(input.contains(check) && input.contains("exited with 1"), "{input}");
    assert_eq!(row["launches"].as_array().unwrap().len(), 1);
}

#[test]
fn refuted_work_goes_back_a_bounded_number_of_times() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    stage.configure_talker(PERSISTENT, "[session]\nrework = 2\nstop_grace = \"100ms\"\n");
    let id =
        stage.spawn_in(repo.path(), &["--agent", TALKER, "--worktree", "--check", "false", "go"]);
    let row = stage.sealed(&id);
    assert_eq!(
        (&row["state"], &row["cause"]),
        (&json!("failed"), &json!("verification")),
        "{row:#}"
    );
    assert_eq!(stage.events_of(&id, "rework.sent").len(), 2);
    assert_eq!(row["verification"], "failed");
}

#[test]
fn work_that_changed_nothing_does_not_pass_unless_that_is_allowed() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let refused = stage.spawn_in(repo.path(), &["--worktree", "--check", "true", "--", "true"]);
    let allowed = stage
        .spawn_in(repo.path(), &["--worktree", "--check", "true", "--no-change-ok", "--", "true"]);
    let row = stage.sealed(&refused);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("verification")));
    assert!(row["flags"].as_array().unwrap().contains(&json!("empty_diff")), "{row}");
    assert_eq!(stage.sealed(&allowed)["state"], "succeeded");
}

#[test]
fn in_place_the_users_index_branch_and_files_are_untouched() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    repo.write("staged.txt", "staged\n");
    repo.git(&["add", "staged.txt"]);
    repo.write("untracked.txt", "mine\n");
    let before = own(&repo);
    let id =
        stage.play_in(repo.path(), WRITES, &["--check", "test -f b.txt && test -f untracked.txt"]);
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(own(&repo), before);
    assert_eq!(repo.read("b.txt"), "b");
    assert_eq!(repo.tree(row["commit"].as_str().unwrap()), row["tree"].as_str().unwrap());
    assert_eq!(repo.branches(), ["main"]);
    assert!(
        repo.git(&["for-each-ref", "refs/provost/keep"]).contains(row["commit"].as_str().unwrap())
    );
}

/// The user's state: branch, commit, the bytes of the index, and the stash.
fn own(repo: &Repo) -> (String, String, Vec<u8>, String) {
    let index = fs::read(repo.path().join(".git/index")).unwrap();
    (repo.git(&["symbolic-ref", "HEAD"]), repo.head(), index, repo.git(&["stash", "list"]))
}

#[test]
fn what_a_check_changes_does_not_matter() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let spoils = "echo spoilt > b.txt; rm README.md; git add -A; echo x > new.txt";
    let id = stage.play_in(
        repo.path(),
        WRITES,
        &[
            "--worktree",
            "--check",
            spoils,
            "--check",
            "test \"$(cat b.txt)\" = b && test -f README.md && test ! -e new.txt",
        ],
    );
    let row = stage.sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(repo.git(&["show", &format!("{}:b.txt", row["commit"].as_str().unwrap())]), "b");
}

#[test]
fn a_tree_that_keeps_moving_is_never_succeeded() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    // Each run of the check changes the work from outside, as an editor might.
    let moves = format!("date +%N >> {}/moving.txt", repo.path().display());
    let id = stage.play_in(repo.path(), WRITES, &["--check", &moves]);
    let row = stage.sealed(&id);
    assert_ne!(row["state"], "succeeded");
    assert!(row["flags"].as_array().unwrap().contains(&json!("moving_tree")), "{row:#}");
    let taken = stage.events_of(&id, "snapshot.taken").len();
    assert!((2..=10).contains(&taken), "{taken} snapshots were taken");
}

#[test]
fn a_failed_claim_that_the_checks_contradict_is_disputed() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let id = stage.play_in(
        repo.path(),
        &format!("{WRITES}[[step]]\nreport = \"failed\"\n"),
        &["--worktree", "--check", "true"],
    );
    let row = stage.sealed(&id);
    assert_eq!((&row["state"], &row["verification"]), (&json!("disputed"), &json!("passed")));
    assert!(row["flags"].as_array().unwrap().contains(&json!("claim_vs_verdict")));
    let accepted = stage
        .home
        .provost(&["resolve", &id, "--as", "accepted", "--because", "it is right", "--json"])
        .ok()
        .json();
    assert_eq!(accepted["session"]["state"], "accepted");
    assert_eq!(accepted["session"]["resolution"]["because"], "it is right");
    stage.home.provost(&["resolve", &id, "--as", "succeeded", "--because", "x"]).exits(2);
}

#[test]
fn a_worktree_is_set_up_before_the_agent_and_gets_copies() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    repo.write(".gitignore", ".env\n");
    repo.commit("Ignore");
    repo.write(".env", "LOCAL=1\n");
    stage.configure("[worktree]\nenabled = true\ncopy = [\".env\"]\nsetup = \"test -f .env && echo ready > setup.txt\"\n");
    let id = stage.play_in(
        repo.path(),
        "[[step]]\nrun = [\"test\", \"-f\", \"setup.txt\"]\n[[step]]\nreport = \"completed\"\n",
        &[],
    );
    assert_eq!(stage.sealed(&id)["state"], "completed");
    stage.configure("[worktree]\nenabled = true\nsetup = \"echo broken >&2; exit 3\"\n");
    let failed = stage.spawn_in(repo.path(), &["--", "touch", "started"]);
    let row = stage.sealed(&failed);
    assert_eq!((&row["state"], &row["cause"]), (&json!("failed"), &json!("launch")), "{row:#}");
    assert_eq!(
        row["launches"],
        Value::Array(Vec::new()),
        "nothing is started in a place that is not ready"
    );
}
