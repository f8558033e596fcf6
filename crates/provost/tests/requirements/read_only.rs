//! Reading changes nothing.

use std::{collections::BTreeMap, fs, path::Path};

use provost_testkit::env::{HANGS, TestEnv, text};

#[test]
fn a06_reads_change_nothing() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let ended = stage.spawn_scenario_in(
        repo.path(),
        "[[step]]\nsay = \"hello\"\n[[step]]\nreport = \"completed\"\n",
        &["--worktree", "--check", "true", "--allow-empty-diff"],
    );
    let asks = stage.spawn_sample("needs_input_exit0", &[]);
    let lives = stage.spawn_scenario(HANGS, &[]);
    stage.wait_sealed(&ended);
    stage
        .home
        .wait_state(&asks, |row| row["state"] == "needs_input" && row["activity"] == "exited");
    stage.pid(&lives);
    stage.provost(&["team", "new", "limits", "--goal", "limit the callers"]).ok();
    stage
        .provost(&["team", "bind", "limits", "hand", "--role", "worker", "--session", &ended])
        .ok();
    stage.provost(&["team", "send", "hand", "Begin.", "-t", "limits"]).ok();
    let bundle = stage.file("bundle");
    stage.provost(&["export", "limits", "--snapshot", "--to", &bundle]).ok();
    let before = snapshot_files(&stage);
    let dir = text(repo.path());
    let reads: Vec<Vec<&str>> = vec![
        vec!["ls"],
        vec!["ls", "--all"],
        vec!["ls", "--state", "failed"],
        vec!["ls", "--project", &dir],
        vec!["status"],
        vec!["status", &ended],
        vec!["status", &ended, "--why"],
        vec!["status", &lives, "--why"],
        vec!["status", &asks, "--why"],
        vec!["logs", &ended],
        vec!["logs", &ended, "-f"],
        vec!["logs", &ended, "--check", "1"],
        vec!["logs", &lives],
        vec!["events"],
        vec!["events", &ended],
        vec!["events", "--since", "3"],
        vec!["status", "limits"],
        vec!["status", &ended, "--at", "3"],
        vec!["status", &ended, "--diff", "2..5"],
        vec!["replay", "limits"],
        vec!["replay", "limits", "--as", "timeline", "--content"],
        vec!["audit", "limits"],
        vec!["search", "limits", "begin"],
        vec!["telemetry"],
        vec!["import", &bundle, "--dry-run"],
        vec!["config", "show"],
        vec!["config", "show", "--cwd", &dir],
        vec!["config", "schema"],
        vec!["doctor"],
        vec!["completions", "bash"],
        vec!["help", "exit-codes"],
        vec!["ledger", "verify"],
        vec!["ledger", "export"],
        vec!["ledger", "path"],
        vec!["daemon", "status"],
        vec!["gc"],
        vec!["gc", "--older-than", "0s"],
        vec!["ledger", "archive", "--older-than", "0s"],
    ];
    for arguments in reads {
        for json in [None, Some("--json")] {
            let arguments: Vec<&str> = arguments.iter().copied().chain(json).collect();
            stage.home.provost(&arguments).ok();
            assert_eq!(snapshot_files(&stage), before, "{arguments:?} changed something");
        }
    }
}

/// Returns digests of the ledger and of every file in the home, the user's directory and the
/// repositories.
fn snapshot_files(stage: &TestEnv) -> BTreeMap<String, u64> {
    let exported = stage.home.provost(&["ledger", "export"]).ok().raw_stdout.clone();
    let mut found = BTreeMap::from([("the export".to_owned(), digest(&exported))]);
    for top in ["home", "user", "repos"] {
        add_files(&stage.home.root().join(top), &mut found);
    }
    found
}

fn add_files(dir: &Path, found: &mut BTreeMap<String, u64>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.insert(text(&path), 0);
            add_files(&path, found);
        } else if is_shared_memory(&path) {
            // Readers register themselves in this file. SQLite can rebuild it from the log at any
            // time.
        } else if kind.is_file() {
            found.insert(text(&path), digest(&fs::read(&path).unwrap()));
        } else {
            found.insert(text(&path), 0);
        }
    }
}

fn is_shared_memory(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "ledger.db-shm")
}

fn digest(bytes: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
