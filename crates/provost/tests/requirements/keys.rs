//! An idempotency key names one change: repeating that change returns the first answer; any other change is refused.

use serde_json::Value;

use crate::kit::Stage;

fn spawn(stage: &Stage, arguments: &[&str], exit: i32) -> Value {
    let spawned = stage.home.provost(&[&["spawn", "--json", "--key", "k"], arguments].concat());
    spawned.exits(exit).json()
}

#[test]
fn a_key_of_spawn_is_for_one_command() {
    let stage = Stage::new();
    let first = spawn(&stage, &["--", "echo", "one"], 0);
    assert_eq!(spawn(&stage, &["--", "echo", "one"], 0)["id"], first["id"]);
    for other in [&["--", "echo", "two"][..], &["--role", "x", "--", "echo", "one"]] {
        let refused = spawn(&stage, other, 4);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("the key was already used"), "{message}");
        assert!(message.contains(first["id"].as_str().unwrap()), "{message}");
        assert_eq!(refused["error"]["next"][0], "use another --key");
    }
    // Also after the first session is closed and another daemon runs.
    stage.sealed(first["id"].as_str().unwrap());
    stage.home.daemon().kill();
    assert_eq!(spawn(&stage, &["--", "echo", "one"], 0)["id"], first["id"]);
    let refused = spawn(&stage, &["--", "echo", "two"], 4);
    assert!(refused["error"]["message"].as_str().unwrap().contains("another command"));
    assert_eq!(stage.rows().len(), 1);
}

#[test]
fn the_same_worktree_asked_for_again_is_the_same() {
    let stage = Stage::new();
    let repo = stage.home.repo("work");
    let arguments = ["spawn", "--json", "--key", "k", "--worktree", "--", "true"];
    let first = stage.home.provost_in(repo.path(), &arguments).ok().json();
    let again = stage.home.provost_in(repo.path(), &arguments).ok().json();
    assert_eq!(again["id"], first["id"]);
    stage.sealed(first["id"].as_str().unwrap());
}
