//! Worktrees and checks have a repository's submodules, or report that they lack them.

use std::fs;

use provost_testkit::harness::TestRepo;
use serde_json::json;

use provost_testkit::env::{TestEnv, text};

const WRITES_FILE: &str = "[[step]]\nwrite = { path = \"b.txt\", content = \"b\" }\n";

/// A repository with the submodule `lib`, which has `inner.txt`.
fn with_submodule(stage: &TestEnv) -> TestRepo {
    let (repo, origin) = (stage.home.repo("work"), stage.home.repo("origin"));
    origin.write("inner.txt", "inner\n");
    origin.commit("Add the inner file");
    let from = text(origin.path());
    let allow = "protocol.file.allow=always";
    repo.git(&["-c", allow, "submodule", "--quiet", "add", &from, "lib"]);
    repo.commit("Add a submodule");
    repo
}

#[test]
fn worktree_and_checks_have_submodule_files() {
    let stage = TestEnv::new();
    let repo = with_submodule(&stage);
    let flags = ["--worktree", "--check", "test \"$(cat lib/inner.txt)\" = inner"];
    let id = stage.spawn_scenario_in(repo.path(), WRITES_FILE, &flags);
    let row = stage.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_eq!(row["warnings"], json!([]));
    let worktree = row["worktree"]["path"].as_str().unwrap();
    assert_eq!(fs::read_to_string(format!("{worktree}/lib/inner.txt")).unwrap(), "inner\n");
    // The same applies to the user's own checkout, whose files belong to no worktree.
    let id = stage.spawn_scenario_in(repo.path(), WRITES_FILE, &flags[1..]);
    assert_eq!(stage.wait_sealed(&id)["state"], "succeeded");
}

#[test]
fn missing_submodule_warns_and_is_recorded() {
    let stage = TestEnv::new();
    let repo = with_submodule(&stage);
    repo.git(&["submodule", "--quiet", "deinit", "--force", "lib"]);
    fs::remove_dir_all(repo.path().join(".git/modules")).unwrap();
    let arguments = ["spawn", "--json", "--worktree", "--", "true"];
    let reply = stage.home.provost_in(repo.path(), &arguments).ok().json();
    let warning = reply["warnings"][0].as_str().unwrap();
    assert!(warning.contains("submodule lib is not initialised"), "{warning}");
    let id = reply["id"].as_str().unwrap();
    assert_eq!(stage.wait_sealed(id)["warnings"], json!([warning]));
    let shown = stage.home.provost(&["status", id]);
    assert!(shown.ok().stdout.contains("submodule lib is not initialised"), "{shown:#?}");
}

#[test]
fn submodule_without_commit_is_refused_with_hint() {
    let stage = TestEnv::new();
    let repo = with_submodule(&stage);
    let nowhere = "1234567890123456789012345678901234567890";
    repo.git(&["update-index", "--cacheinfo", &format!("160000,{nowhere},lib")]);
    repo.git(&["commit", "--quiet", "--message", "Point to nothing"]);
    let arguments = ["spawn", "--json", "--worktree", "--", "true"];
    let refused = stage.home.provost_in(repo.path(), &arguments).assert_code(2).json();
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains(nowhere), "{message}");
    assert!(refused["error"]["next"][0].as_str().unwrap().contains("git submodule update"));
}
