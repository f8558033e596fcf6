//! Several sessions share the user's credentials, and the lock on them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};

use provost_agent_codex::home::CarryMethod;
use provost_agent_codex::prepare;
use rustix::fs::{FlockOperation, flock};

use crate::real;
use crate::test_env::{CodexHomeEnv, wait_until};

const LOGGED_IN: &str = "{\"auth_mode\":\"apikey\",\"OPENAI_API_KEY\":\"sk-old\"}";

#[test]
fn session_login_is_shared_with_user() {
    for codex in [real::codex(), real::old_codex()].into_iter().flatten() {
        let env = CodexHomeEnv::new();
        env.write("home/.codex/auth.json", LOGGED_IN);
        for session in ["s1", "s2"] {
            prepare(&env.session(session)).unwrap();
        }
        assert!(log_in(&env, &codex, "s1", "sk-new").wait().unwrap().success());
        for place in ["home/.codex", "s1", "s2"] {
            let text = fs::read_to_string(env.path(place).join("auth.json")).unwrap();
            assert!(text.contains("sk-new"), "{place}: {text}");
        }
        assert!(env.path("s1/auth.json").is_symlink());
    }
}

#[test]
fn credential_lock_is_shared() {
    let Some(codex) = real::codex() else { return };
    let env = CodexHomeEnv::new();
    env.write("home/.codex/auth.json", LOGGED_IN);
    for session in ["s1", "s2"] {
        prepare(&env.session(session)).unwrap();
    }
    // Codex opens the lock through a link whose target does not exist yet.
    let lock = File::create(env.path("s1/auth.lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();

    let mut login = log_in(&env, &codex, "s2", "sk-new");

    let inode = env.path("home/.codex/auth.lock").metadata().unwrap().ino();
    wait_until("the login waits for the lock", || is_waited_for(inode));
    assert_eq!(fs::read_to_string(env.path("home/.codex/auth.json")).unwrap(), LOGGED_IN);
    drop(lock);
    assert!(login.wait().unwrap().success());
    let text = fs::read_to_string(env.path("home/.codex/auth.json")).unwrap();
    assert!(text.contains("sk-new"), "{text}");
}

#[test]
fn stale_lock_is_replaced_own_login_is_kept() {
    let env = CodexHomeEnv::new();
    prepare(&env.session("s")).unwrap();
    env.write("s/auth.lock", "");
    env.write("s/auth.json", "of the session");
    env.write("home/.codex/auth.json", LOGGED_IN);
    let prepared = prepare(&env.session("s")).unwrap();
    assert_eq!(fs::read_link(env.path("s/auth.lock")).unwrap(), env.path("home/.codex/auth.lock"));
    assert_eq!(fs::read_to_string(env.path("s/auth.json")).unwrap(), "of the session");
    let is_linked = |name: &str| {
        prepared.carried.iter().any(|one| one.name == name && one.how == CarryMethod::Linked)
    };
    assert!(is_linked("auth.lock") && !is_linked("auth.json"));
    assert_eq!(prepared.skipped[0].name, "auth.json");
}

#[test]
fn keyring_credentials_are_reported_skipped() {
    let env = CodexHomeEnv::new();
    env.write("home/.codex/config.toml", "cli_auth_credentials_store = \"keyring\"\n");
    let prepared = prepare(&env.session("s")).unwrap();
    assert_eq!(prepared.skipped[0].name, "credentials");
}

fn log_in(env: &CodexHomeEnv, codex: &Path, session: &str, key: &str) -> Child {
    let mut command = real::command(env, codex, &env.path(session));
    command.args(["login", "--with-api-key"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{key}").unwrap();
    child
}

/// Whether the kernel lists a process that waits for a lock on the file.
fn is_waited_for(inode: u64) -> bool {
    let locks = fs::read_to_string("/proc/locks").unwrap();
    let mut waiting = locks.lines().filter(|line| line.contains("->"));
    let file = format!(":{inode}");
    waiting.any(|line| line.split_whitespace().any(|word| word.ends_with(&file)))
}
