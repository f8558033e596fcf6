//! An idempotency key identifies one change. Repeating that change returns the first answer, and
//! any other change is refused.

use serde_json::Value;

use provost_testkit::env::TestEnv;

fn spawn(stage: &TestEnv, arguments: &[&str], exit: i32) -> Value {
    let spawned = stage.home.provost(&[&["spawn", "--json", "--key", "k"], arguments].concat());
    spawned.assert_code(exit).json()
}

#[test]
fn spawn_key_is_bound_to_one_command() {
    let stage = TestEnv::new();
    let first = spawn(&stage, &["--", "echo", "one"], 0);
    assert_eq!(spawn(&stage, &["--", "echo", "one"], 0)["id"], first["id"]);
    for other in [&["--", "echo", "two"][..], &["--role", "x", "--", "echo", "one"]] {
        let refused = spawn(&stage, other, 4);
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains("the key was already used"), "{message}");
        assert!(message.contains(first["id"].as_str().unwrap()), "{message}");
        assert_eq!(refused["error"]["next"][0], "use another --key");
    }
    // The key is still known after the first session is closed and another daemon runs.
    stage.wait_sealed(first["id"].as_str().unwrap());
    stage.home.daemon().kill();
    assert_eq!(spawn(&stage, &["--", "echo", "one"], 0)["id"], first["id"]);
    let refused = spawn(&stage, &["--", "echo", "two"], 4);
    assert!(refused["error"]["message"].as_str().unwrap().contains("another command"));
    assert_eq!(stage.list_sessions().len(), 1);
}

#[test]
fn repeated_key_with_worktree_is_one_session() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let arguments = ["spawn", "--json", "--key", "k", "--worktree", "--", "true"];
    let first = stage.home.provost_in(repo.path(), &arguments).ok().json();
    let again = stage.home.provost_in(repo.path(), &arguments).ok().json();
    assert_eq!(again["id"], first["id"]);
    stage.wait_sealed(first["id"].as_str().unwrap());
}
