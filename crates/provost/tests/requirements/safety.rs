//! Commands that stop agents or clean up never lose work.

use std::{collections::BTreeMap, fs, path::Path};

use provost_testkit::harness::TestRepo;
use serde_json::Value;

use provost_testkit::env::{TALKER, TestEnv};

/// Leaves every kind of work: committed, changed, staged, new, ignored and binary.
const LEAVES_UNSAVED_WORK: &str = r#"
[[step]]
write = { path = "done.txt", content = "committed\n" }
[[step]]
git_commit = "Work of the agent"
[[step]]
append = { path = "README.md", content = "changed\n" }
[[step]]
write = { path = "staged.txt", content = "staged\n" }
[[step]]
run = ["git", "add", "staged.txt"]
[[step]]
write = { path = "deep/new.txt", content = "new\n" }
[[step]]
run = ["sh", "-c", "printf '\\000\\377' > raw.bin"]
[[step]]
write = { path = "notes.ignored", content = "kept to myself\n" }
[[step]]
touch = "finished"
[[step]]
hang = true
"#;

/// A session whose own worktree is full of unsaved work.
struct DirtySession {
    id: String,
    worktree: String,
    branch: String,
    files: BTreeMap<String, Vec<u8>>,
    commit: String,
}

fn spawn_dirty(stage: &TestEnv, repo: &TestRepo, name: &str) -> DirtySession {
    let id =
        stage.spawn_scenario_in(repo.path(), LEAVES_UNSAVED_WORK, &["--worktree", "--name", name]);
    let row = stage.home.wait_state(&id, is_finished);
    let word = |field: &str| row["worktree"][field].as_str().unwrap().to_owned();
    let (worktree, branch) = (word("path"), word("branch"));
    let files = files(Path::new(&worktree));
    assert!(files.len() >= 8, "{files:?}");
    DirtySession { id, commit: repo.git(&["rev-parse", &branch]), worktree, branch, files }
}

fn is_finished(row: &Value) -> bool {
    row["worktree"]["path"].as_str().is_some_and(|path| Path::new(path).join("finished").exists())
}

impl DirtySession {
    #[track_caller]
    fn assert_nothing_lost(&self, repo: &TestRepo, after: &str) {
        assert_eq!(files(Path::new(&self.worktree)), self.files, "{after} changed files");
        assert_eq!(repo.git(&["rev-parse", &self.branch]), self.commit, "{after} moved the branch");
    }
}

#[test]
fn a05_stop_cancel_and_gc_keep_dirty_worktrees() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write(".gitignore", "*.ignored\n");
    repo.commit("Ignore");
    let stopped = spawn_dirty(&stage, &repo, "stopped");
    let cancelled = spawn_dirty(&stage, &repo, "cancelled");
    stage.home.provost(&["stop", &stopped.id]).ok();
    stage.home.provost(&["cancel", &cancelled.id]).ok();
    let ended = [&stopped, &cancelled].map(|one| stage.wait_sealed(&one.id)["state"].clone());
    assert_eq!(ended, ["stopped", "cancelled"]);
    stopped.assert_nothing_lost(&repo, "stop");
    cancelled.assert_nothing_lost(&repo, "cancel");
    let collected =
        stage.home.provost(&["gc", "--apply", "--older-than", "0s", "--json"]).ok().json();
    let kept = collected["kept"].as_array().unwrap();
    assert_eq!(kept.len(), 2, "{collected}");
    assert!(kept.iter().all(|one| !one["reason"].as_str().unwrap().is_empty()), "{collected}");
    stopped.assert_nothing_lost(&repo, "gc");
    cancelled.assert_nothing_lost(&repo, "gc");
    assert!(repo.is_clean(), "the user's own checkout was touched");
}

#[test]
fn a05_gc_removes_clean_worktree_keeps_branch() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let steps = "[[step]]\nwrite = { path = \"a.txt\", content = \"a\" }\n[[step]]\ngit_commit = \"Add a\"\n[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario_in(repo.path(), steps, &["--worktree"]);
    let row = stage.wait_sealed(&id);
    let (path, branch) =
        (row["worktree"]["path"].as_str().unwrap(), row["worktree"]["branch"].as_str().unwrap());
    let commit = repo.git(&["rev-parse", branch]);
    let listed = stage.home.provost(&["gc", "--json"]).ok().json();
    assert!(
        Path::new(path).exists() && !listed["removed"].as_array().unwrap().is_empty(),
        "{listed}"
    );
    stage.home.provost(&["gc", "--apply"]).ok();
    assert!(!Path::new(path).exists(), "a clean worktree stays");
    assert_eq!(stage.status(&id)["worktree"]["removed"], true);
    assert_eq!(repo.git(&["rev-parse", branch]), commit);
    assert_eq!(repo.git(&["show", &format!("{branch}:a.txt")]), "a");
}

#[test]
fn session_state_survives_worktree_gc() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let steps = "[[step]]\nwrite = { path = \"a.txt\", content = \"a\" }\n[[step]]\ngit_commit = \"Add a\"\n[[step]]\nreport = \"completed\"\n";
    stage.configure_talker(steps, "");
    let id = stage.spawn_in(repo.path(), &["--worktree", "--agent", TALKER, "Add a"]);
    let before = stage.wait_sealed(&id);
    assert_eq!(before["state"], "completed", "{before}");
    let branch = before["worktree"]["branch"].as_str().unwrap();
    stage.home.wait_state(&id, |row| row["process"] != "alive");
    stage.home.provost(&["gc", "--apply"]).ok();
    for arguments in [vec!["resume", &id], vec!["send", &id, "more"]] {
        let refused = stage.home.provost(&arguments);
        assert_eq!(refused.code(), Some(4), "{refused:#?}");
        let next = format!("git switch {branch} && provost spawn --agent {TALKER} INSTRUCTION");
        assert!(refused.stderr.contains(&next), "{refused:#?}");
    }
    let row = stage.status(&id);
    assert_eq!((&row["state"], &row["attempt"]), (&before["state"], &before["attempt"]), "{row}");
}

#[test]
fn a05_gc_keeps_ignored_nested_repository() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write(".gitignore", "vendor/\n");
    repo.commit("Ignore");
    let id = spawn_line(
        &stage,
        &repo,
        "mkdir -p vendor/x && cd vendor/x && git init -q && echo only > here && git add here \
         && git -c user.name=A -c user.email=a@example.invalid commit -q -m only",
    );
    let path = worktree_of(&stage.wait_sealed(&id));
    for apply in [&["gc", "--json"][..], &["gc", "--apply", "--json"]] {
        let found = stage.home.provost(apply).ok().json();
        let reason = found["kept"][0]["reason"].as_str().unwrap();
        assert!(reason.contains("vendor/x"), "{found}");
        assert_eq!(found["removed"].as_array().unwrap().len(), 0, "{found}");
    }
    assert_eq!(fs::read_to_string(Path::new(&path).join("vendor/x/here")).unwrap(), "only\n");
}

#[test]
fn a05_gc_keeps_dropped_commits_by_a_ref() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    repo.write(".gitignore", "*.ignored\n");
    repo.commit("Ignore");
    let id = spawn_line(
        &stage,
        &repo,
        "git checkout -q --detach && echo x > lost.txt && touch a.ignored && git add lost.txt \
         && git -c user.name=A -c user.email=a@example.invalid commit -q -m lost \
         && git reset -q --hard HEAD~1",
    );
    let path = worktree_of(&stage.wait_sealed(&id));
    let listed = stage.home.provost(&["gc"]).ok().stdout.clone();
    for part in ["1 ignored files", "1 dropped commits are kept"] {
        assert!(listed.contains(part), "{part:?} is not in {listed:?}");
    }
    let gone = stage.home.provost(&["gc", "--apply", "--json"]).ok().json();
    assert!(!Path::new(&path).exists(), "{gone}");
    let kept = gone["removed"][0]["kept_ref"].as_str().unwrap();
    assert_eq!(repo.git(&["show", &format!("{kept}^:lost.txt")]), "x");
}

#[test]
fn a05_gc_dry_run_matches_apply() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let lines = [
        "rm .git",
        "rm .git && git init -q",
        "mv .git .. && ln -s ../.git .git",
        "d=$PWD && mkdir ../away && cd .. && mv $d away/ && ln -s away/$(basename $d) $d",
    ];
    let ids: Vec<String> = lines.iter().map(|line| spawn_line(&stage, &repo, line)).collect();
    ids.iter().for_each(|id| drop(stage.wait_sealed(id)));
    let listed = stage.home.provost(&["gc", "--json"]).ok().json();
    assert_eq!(listed["removed"].as_array().unwrap().len(), 0, "{listed:#}");
    assert_eq!(listed["kept"].as_array().unwrap().len(), lines.len(), "{listed:#}");
    let applied = stage.home.provost(&["gc", "--apply", "--json"]).ok().json();
    assert_eq!((&applied["removed"], &applied["kept"]), (&listed["removed"], &listed["kept"]));
}

#[test]
fn a05_symlinked_outside_files_are_not_committed() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let private = stage.home.root().join("private");
    fs::create_dir(&private).unwrap();
    fs::write(private.join("secret"), "secret").unwrap();
    let line = format!("d=$PWD && cd .. && mv $d away && ln -s {} $d", private.display());
    let flags = ["--worktree", "--exit-zero-completes", "--allow-empty-diff", "--check", "true"];
    let id = stage.spawn_in(repo.path(), &[&flags[..], &["--", "sh", "-ec", &line]].concat());
    let row = stage.wait_sealed(&id);
    assert_ne!(row["state"], "succeeded", "{row:#}");
    assert!(
        row["reason"].as_str().unwrap().contains("the worktree's directory was replaced"),
        "{row:#}"
    );
    let branch = row["worktree"]["branch"].as_str().unwrap();
    assert_eq!(repo.git(&["rev-parse", branch]), repo.head());
    assert_eq!(repo.git(&["log", "--all", "--format=%H", "--", "secret"]), "");
}

/// Starts a session in a worktree whose agent runs this line and claims completion.
fn spawn_line(stage: &TestEnv, repo: &TestRepo, line: &str) -> String {
    let steps =
        format!("[[step]]\nrun = [\"sh\", \"-c\", {line:?}]\n[[step]]\nreport = \"completed\"\n");
    stage.spawn_scenario_in(repo.path(), &steps, &["--worktree"])
}

fn worktree_of(row: &Value) -> String {
    row["worktree"]["path"].as_str().unwrap().to_owned()
}

/// Returns every file below a directory with its content, except git's own.
fn files(top: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![top.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(top).unwrap().to_str().unwrap().to_owned();
            if name == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(path);
            } else {
                found.insert(name, fs::read(path).unwrap());
            }
        }
    }
    found
}
