//! Agents' files that a session gets from a commit, or finds below the repository's top.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use provost_testkit::harness::{ProgramOutput, TestHome, TestRepo};

/// A server that the operator has not seen.
const EVIL: &str = "{\"EVIL\": 1}\n";

/// Starts a program in a worktree that shows a file of its working directory.
fn spawn_cat(home: &TestHome, dir: &Path, file: &str) -> ProgramOutput {
    let words =
        ["spawn", "--json", "--worktree", "--wait", "--exit-zero-completes", "--allow-empty-diff"];
    home.provost_in(dir, &[&words[..], &["--", "cat", file]].concat())
}

/// Asserts that the command was refused, that its output has these texts, and that nothing was
/// started.
#[track_caller]
fn assert_refused(home: &TestHome, output: &ProgramOutput, texts: &[&str]) {
    let error = output.assert_code(4).json()["error"].to_string();
    for text in texts {
        assert!(error.contains(text), "{text}: {error}");
    }
    let sessions = home.provost(&["ls", "--all", "--json"]).ok().json();
    assert_eq!(sessions["sessions"].as_array().map(Vec::len), Some(0), "{sessions}");
}

/// A repository whose commit has an `.mcp.json` that the checkout does not have.
fn repo_with_committed_server(home: &TestHome) -> TestRepo {
    let repo = home.repo("committed");
    repo.write(".mcp.json", EVIL);
    repo.commit("Add a server");
    fs::remove_file(repo.path().join(".mcp.json")).unwrap();
    repo
}

#[test]
fn committed_agent_file_needs_trust() {
    let home = TestHome::new();
    let repo = repo_with_committed_server(&home);
    let head = repo.git(&["rev-parse", "--short=12", "HEAD"]);
    let named = [".mcp.json of commit", head.trim(), "provost trust"];
    assert_refused(&home, &spawn_cat(&home, repo.path(), ".mcp.json"), &named);
    for words in [&["run", "Do it.", "--json"][..], &["plan", "Do it.", "--json"]] {
        assert_refused(&home, &home.provost_in(repo.path(), words), &named);
    }
    // The operator trusts the checkout's content, but the commit still has different content.
    repo.write(".mcp.json", "{}\n");
    let print = || home.provost_in(repo.path(), &["trust", "--print", "--json"]).ok().json();
    let shown = print();
    assert_eq!(shown["trusted"], false, "{shown}");
    assert!(shown["committed"]["files"].to_string().contains("EVIL"), "{shown}");
    fs::remove_file(repo.path().join(".mcp.json")).unwrap();
    repo.git(&["stash", "push", "-q"]);
    let clean = print();
    assert_eq!(clean["committed"], serde_json::Value::Null, "the same as the checkout: {clean}");
}

#[test]
fn trust_of_checkout_covers_no_other_commit() {
    let home = TestHome::new();
    let repo = home.repo("later");
    repo.write(".mcp.json", "{}\n");
    repo.commit("Add a harmless server");
    home.trust(repo.path());
    spawn_cat(&home, repo.path(), ".mcp.json").ok();
    repo.write(".mcp.json", EVIL);
    repo.commit("Change it");
    repo.write(".mcp.json", "{}\n");
    let refused = spawn_cat(&home, repo.path(), ".mcp.json");
    let error = refused.assert_code(4).json()["error"].to_string();
    assert!(error.contains(".mcp.json of commit"), "{error}");
    // Work in the checkout itself gets the checkout's files.
    let words = ["spawn", "--no-worktree", "--wait", "--exit-zero-completes", "--", "true"];
    home.provost_in(repo.path(), &words).ok();
}

#[test]
fn trust_shows_and_covers_checkout_and_commit() {
    let home = TestHome::new();
    let repo = repo_with_committed_server(&home);
    repo.write(".claude/settings.local.json", "{}\n");
    let shown = home.provost_in(repo.path(), &["trust", "--yes"]).ok().stdout.clone();
    for text in ["EVIL", ".claude/settings.local.json", ".mcp.json of commit"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    spawn_cat(&home, repo.path(), ".mcp.json").ok();
    // The digest for CI covers the files of the checkout and of the commit.
    let digest = || {
        let print = home.provost_in(repo.path(), &["trust", "--print", "--json"]).ok().json();
        print["digest"].as_str().unwrap().to_owned()
    };
    let before = digest();
    repo.git(&["checkout", "-q", "--", ".mcp.json"]);
    repo.write(".mcp.json", "{ }\n");
    repo.git(&["commit", "-qam", "Change the server"]);
    fs::remove_file(repo.path().join(".mcp.json")).unwrap();
    assert_ne!(before, digest());
    home.provost_in(repo.path(), &["trust", "--trust", &before]).assert_code(4);
    spawn_cat(&home, repo.path(), ".mcp.json").assert_code(4);
}

#[test]
fn local_agent_file_does_not_bar_the_commit() {
    let home = TestHome::new();
    let repo = home.repo("local");
    repo.write(".mcp.json", "{}\n");
    repo.commit("Add a server");
    repo.write(".claude/settings.local.json", "{}\n");
    home.trust(repo.path());
    spawn_cat(&home, repo.path(), ".mcp.json").ok();
    // Provost does not read its own files in the worktree, so another version there needs no trust.
    repo.write("provost.toml", "[worktree]\nsetup = \"false\"\n");
    repo.git(&["add", "provost.toml"]);
    repo.git(&["commit", "-qm", "Add a setup"]);
    fs::remove_file(repo.path().join("provost.toml")).unwrap();
    spawn_cat(&home, repo.path(), ".mcp.json").ok();
}

#[test]
fn committed_link_in_place_of_agent_file_is_refused() {
    let home = TestHome::new();
    let repo = home.repo("links");
    repo.write("evil/.mcp.json", EVIL);
    symlink("evil/.mcp.json", repo.path().join(".mcp.json")).unwrap();
    symlink("evil", repo.path().join("sub")).unwrap();
    repo.commit("Add links");
    fs::remove_file(repo.path().join(".mcp.json")).unwrap();
    fs::remove_file(repo.path().join("sub")).unwrap();
    assert_refused(&home, &spawn_cat(&home, repo.path(), ".mcp.json"), &[".mcp.json", "link"]);
    repo.git(&["rm", "-q", "--cached", ".mcp.json"]);
    repo.git(&["commit", "-qm", "Remove one link"]);
    let sub = repo.path().join("sub");
    fs::create_dir(&sub).unwrap();
    assert_refused(&home, &spawn_cat(&home, &sub, ".mcp.json"), &["sub of commit", "link"]);
}

#[test]
fn agent_files_below_the_top_need_trust() {
    let home = TestHome::new();
    let repo = home.repo("nested");
    repo.write("sub/.mcp.json", EVIL);
    repo.write("sub/.claude/settings.json", "{}\n");
    let sub = repo.path().join("sub");
    let named = ["sub/.mcp.json", "sub/.claude/settings.json", "provost trust"];
    let here = ["spawn", "--json", "--", "true"];
    assert_refused(&home, &home.provost_in(&sub, &here), &named);
    repo.commit("Add a server below");
    assert_refused(&home, &spawn_cat(&home, &sub, ".mcp.json"), &named);
    let print = home.provost_in(&sub, &["trust", "--print"]).ok().stdout.clone();
    assert!(print.contains("not trusted") && print.contains("sub/.mcp.json"), "{print}");
    home.provost_in(repo.path(), &["spawn", "--wait", "--exit-zero-completes", "--", "true"]).ok();

    home.trust(&sub);
    spawn_cat(&home, &sub, ".mcp.json").ok();
    let top = home.provost_in(repo.path(), &["trust", "--print"]).ok().stdout.clone();
    assert!(top.contains("nothing needs trust"), "{top}");
    // The checkout alone is harmless now, but the commit is not.
    home.provost_in(&sub, &["trust", "--revoke"]).ok();
    fs::remove_dir_all(sub.join(".claude")).unwrap();
    fs::remove_file(sub.join(".mcp.json")).unwrap();
    spawn_cat(&home, &sub, ".mcp.json").assert_code(4);
}

#[test]
fn agent_file_below_writable_directory_is_refused() {
    let home = TestHome::new();
    let repo = home.repo("writable");
    repo.write("a/b/.mcp.json", "{}\n");
    let middle = repo.path().join("a");
    fs::set_permissions(&middle, fs::Permissions::from_mode(0o777)).unwrap();
    let refused = home.provost_in(&middle.join("b"), &["trust", "--yes", "--json"]);
    let error = refused.assert_code(4).json()["error"].to_string();
    assert!(error.contains("chmod"), "{error}");
}

#[test]
fn removed_agent_file_is_named_once() {
    let home = TestHome::new();
    let repo = home.repo("removed");
    repo.write(".mcp.json", "{}\n");
    repo.write(".codex/config.toml", "\n");
    home.trust(repo.path());
    fs::remove_file(repo.path().join(".mcp.json")).unwrap();
    let print = home.provost_in(repo.path(), &["trust", "--print"]).ok().stdout.clone();
    assert!(print.contains("- .mcp.json (removed)"), "{print}");
    let refused = home.provost_in(repo.path(), &["spawn", "--json", "--", "true"]);
    let error = refused.assert_code(4).json()["error"].to_string();
    assert!(error.contains(".mcp.json was removed"), "{error}");
}
