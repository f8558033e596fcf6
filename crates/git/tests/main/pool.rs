//! Clean checkouts in a pool.

use std::fs;
use std::os::unix::fs::symlink;

use provost_git::pool::Error;
use provost_git::{Checkout, Oid, Pool, checkout_detached};

use crate::test_env::{GitTestEnv, write};

#[test]
fn slot_is_cold_then_warm_and_always_clean() {
    let env = GitTestEnv::new();
    let first = env.rev("HEAD");
    env.write("a.txt", "two\n");
    env.write("b.txt", "b\n");
    let second = env.commit_all("second");
    let cold = check_out(&env, &first);
    assert!(!cold.warm);
    assert_eq!(cold.tree, env.rev(&format!("{first}^{{tree}}")));
    write(&cold.path.join("target/built"), "artefact");
    write(&cold.path.join("deep/target/built"), "artefact");
    write(&cold.path.join("left.log"), "ignored");
    write(&cold.path.join("left/over\nfile"), "untracked");
    write(&cold.path.join("a.txt"), "tampered\n");
    fs::remove_file(cold.path.join(".gitignore")).unwrap();
    let warm = check_out(&env, &second);
    assert!(warm.warm);
    assert_eq!(fs::read_to_string(warm.path.join("a.txt")).unwrap(), "two\n");
    assert_eq!(names(&warm), [".git", ".gitignore", "a.txt", "b.txt", "deep", "target"]);
    assert!(
        warm.path.join("target/built").exists() && warm.path.join("deep/target/built").exists()
    );
    let bare = checkout_detached(&env.git, &env.project(), &pool(&env), "0", &first, &[]).unwrap();
    assert!(bare.warm);
    assert_eq!(names(&bare), [".git", ".gitignore", "a.txt"]);
    assert_eq!(env.user(&bare.path, &["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
}

#[test]
fn unchanged_file_keeps_its_timestamp() {
    let env = GitTestEnv::new();
    let first = env.rev("HEAD");
    env.write("b.txt", "b\n");
    let second = env.commit_all("second");
    let file = check_out(&env, &first).path.join("a.txt");
    let time = fs::metadata(&file).unwrap().modified().unwrap();
    assert!(check_out(&env, &second).warm);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), time);
}

#[test]
fn check_that_moved_head_moves_no_branch() {
    let env = GitTestEnv::new();
    let commit = env.rev("HEAD");
    let slot = check_out(&env, &commit).path;
    env.user(&slot, &["checkout", "-q", "-b", "checks-own"]);
    write(&slot.join("a.txt"), "own\n");
    env.user(&slot, &["commit", "-qam", "own"]);
    let own = env.rev("checks-own");
    assert!(check_out(&env, &commit).warm);
    assert_eq!(env.rev("checks-own"), own);
    assert_eq!(env.rev("main"), commit);
}

#[test]
fn broken_slot_is_created_again() {
    let env = GitTestEnv::new();
    let commit = env.rev("HEAD");
    let slot = env.path("pool/0");
    let breakages: [(&str, &dyn Fn()); 7] = [
        ("no git file", &|| fs::remove_file(slot.join(".git")).unwrap()),
        ("a lock", &|| write(&env.top().join(".git/worktrees/0/index.lock"), "")),
        ("a broken index", &|| write(&env.top().join(".git/worktrees/0/index"), "garbage")),
        ("a hidden change", &|| {
            env.user(&slot, &["update-index", "--assume-unchanged", "a.txt"]);
            write(&slot.join("a.txt"), "tampered\n");
        }),
        ("no directory", &|| fs::remove_dir_all(&slot).unwrap()),
        ("a repository of its own", &|| {
            fs::remove_file(slot.join(".git")).unwrap();
            env.user(&slot, &["init", "-q"]);
        }),
        ("no registration", &|| fs::remove_dir_all(env.top().join(".git/worktrees/0")).unwrap()),
    ];
    for (what, break_it) in breakages {
        check_out(&env, &commit);
        break_it();
        let made = check_out(&env, &commit);
        assert!(!made.warm, "{what}");
        assert_eq!(fs::read_to_string(slot.join("a.txt")).unwrap(), "one\n", "{what}");
        assert_eq!(names(&made), [".git", ".gitignore", "a.txt"], "{what}");
    }
}

#[test]
fn link_as_slot_is_replaced_not_followed() {
    let env = GitTestEnv::new();
    write(&env.path("precious/.git"), "x");
    write(&env.path("precious/file"), "mine");
    symlink(env.path("precious"), env.path("pool/0")).unwrap();
    check_out(&env, &env.rev("HEAD"));
    assert_eq!(fs::read_to_string(env.path("precious/file")).unwrap(), "mine");
    assert!(env.path("pool/0").symlink_metadata().unwrap().is_dir());
}

#[test]
fn a_link_with_a_kept_name_is_not_kept() {
    let env = GitTestEnv::new();
    let commit = env.rev("HEAD");
    let slot = check_out(&env, &commit).path;
    write(&env.path("elsewhere/file"), "mine");
    symlink(env.path("elsewhere"), slot.join("target")).unwrap();
    assert!(check_out(&env, &commit).warm);
    assert!(slot.join("target").symlink_metadata().is_err());
    assert!(env.path("elsewhere/file").exists());
}

#[test]
fn escaping_names_and_roots_are_refused() {
    let env = GitTestEnv::new();
    let (project, commit) = (env.project(), env.rev("HEAD"));
    let (git, pool) = (&env.git, pool(&env));
    for slot in ["..", "../project", "/etc", "", ".git", "a/b"] {
        let made = checkout_detached(git, &project, &pool, slot, &commit, &[]);
        assert!(matches!(made, Err(Error::BadName { .. })), "{slot:?}");
    }
    let bad_keep = checkout_detached(git, &project, &pool, "0", &commit, &["!*"]);
    assert!(matches!(bad_keep, Err(Error::BadName { .. })));
    for root in [env.top(), env.top().join(".git"), env.path(".")] {
        let made = checkout_detached(git, &project, &Pool::new(&root).unwrap(), "0", &commit, &[]);
        assert!(matches!(made, Err(Error::BadRoot { .. })), "{root:?}");
    }
    assert!(env.top().join("a.txt").exists());
    let nothing = Oid::new(&"1".repeat(40)).unwrap();
    assert!(matches!(
        checkout_detached(git, &project, &pool, "0", &nothing, &[]),
        Err(Error::NoSuchCommit { .. })
    ));
}

#[test]
fn sparse_repository_is_checked_out_completely() {
    let env = GitTestEnv::new();
    env.write("in/file", "in\n");
    env.write("out/file", "out\n");
    let commit = env.commit_all("dirs");
    env.user(&env.top(), &["sparse-checkout", "set", "in"]);
    assert!(!check_out(&env, &commit).warm);
    let again = check_out(&env, &commit);
    assert!(again.warm);
    assert!(again.path.join("out/file").exists());
}

#[test]
fn submodule_is_reset_to_its_commit() {
    let env = GitTestEnv::new();
    env.add_submodule();
    let commit = env.rev("HEAD");
    let slot = check_out(&env, &commit).path;
    assert_eq!(fs::read_to_string(slot.join("sub/inner.txt")).unwrap(), "inner\n");
    write(&slot.join("sub/inner.txt"), "tampered\n");
    write(&slot.join("sub/more.txt"), "left\n");
    assert!(check_out(&env, &commit).warm);
    assert_eq!(fs::read_to_string(slot.join("sub/inner.txt")).unwrap(), "inner\n");
    assert!(!slot.join("sub/more.txt").exists());
}

#[test]
fn nonconforming_line_ends_are_not_a_change() {
    let env = GitTestEnv::new();
    fs::write(env.top().join("dos.txt"), "a\r\nb\r\n").unwrap();
    env.commit_all("before the rules");
    env.write(".gitattributes", "*.txt text\n");
    env.user(&env.top(), &["add", ".gitattributes"]);
    env.user(&env.top(), &["commit", "-qm", "rules"]);
    let commit = env.rev("HEAD");
    let slot = check_out(&env, &commit).path;
    // A new modification time makes git read the content.
    write(&slot.join("dos.txt"), "a\r\nb\r\n");
    check_out(&env, &commit);
    assert_eq!(fs::read(slot.join("dos.txt")).unwrap(), b"a\r\nb\r\n");
}

fn pool(env: &GitTestEnv) -> Pool {
    Pool::new(&env.path("pool")).unwrap()
}

fn check_out(env: &GitTestEnv, commit: &Oid) -> Checkout {
    checkout_detached(
        &env.git,
        &env.project(),
        &pool(env),
        "0",
        commit,
        &["target", "node_modules"],
    )
    .unwrap()
}

fn names(checkout: &Checkout) -> Vec<String> {
    let entries = fs::read_dir(&checkout.path).unwrap();
    let mut names: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
