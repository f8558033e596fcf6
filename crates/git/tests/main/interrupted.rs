//! Calls that write files: interruptions, and how they are finished.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use provost_git::command::GitExit;
use provost_git::landing::{Error, fast_forward};
use provost_git::long_call::{CutOffCall, LongCall, LongCallResult, LongCalls};
use provost_git::{FastForward, Git, Oid, RefName, command, move_branch};

use crate::test_env::{GitTestEnv, branch, write};

/// Creates a commit beside `main` that changes, adds and removes files.
fn work(env: &GitTestEnv) -> Oid {
    let tree = env.path("tree");
    let path = tree.to_str().unwrap().to_owned();
    env.write("b.txt", "one\n");
    env.write("c.txt", "one\n");
    env.write("d.txt", "one\n");
    env.commit_all("more");
    env.user(&env.top(), &["worktree", "add", "-q", "--detach", &path]);
    write(&tree.join("a.txt"), "two and a half\n");
    write(&tree.join("b.txt"), "two\n");
    fs::remove_file(tree.join("c.txt")).unwrap();
    write(&tree.join("new.txt"), "two\n");
    env.user(&tree, &["add", "-A"]);
    env.user(&tree, &["commit", "-qm", "work"]);
    let commit = env.user(&tree, &["rev-parse", "HEAD"]);
    env.user(&env.top(), &["worktree", "remove", "--force", &path]);
    Oid::new(commit.trim()).unwrap()
}

/// Creates the state of a call that was killed after it wrote some of the files.
fn half_land(env: &GitTestEnv) {
    env.write("b.txt", "two\n");
    env.write("new.txt", "two\n");
    fs::remove_file(env.top().join("c.txt")).unwrap();
}

fn main_branch() -> RefName {
    RefName::from_branch("main")
}

#[test]
fn half_written_checkout_is_finished() {
    let env = GitTestEnv::new();
    let done = work(&env);
    half_land(&env);
    env.write("d.txt", "mine\n");
    let moved = fast_forward(&env.git, &env.project(), &main_branch(), &done).unwrap();
    assert_eq!((moved, env.rev("main")), (FastForward::Done, done));
    assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), " M d.txt");
    assert_eq!(fs::read_to_string(env.top().join("a.txt")).unwrap(), "two and a half\n");
}

#[test]
fn half_moved_worktree_is_finished() {
    let env = GitTestEnv::new();
    let done = work(&env);
    half_land(&env);
    let from = env.rev("main");
    move_branch(&env.git, &env.project(), &main_branch(), &from, &done).unwrap();
    assert_eq!(env.rev("main"), done);
    assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), "");
}

#[test]
fn half_written_checkout_keeps_user_changes() {
    let beginning_of_the_new_text = "two and";
    for change in ["mine\n", beginning_of_the_new_text] {
        let env = GitTestEnv::new();
        let (done, before) = (work(&env), env.rev("main"));
        half_land(&env);
        env.write("a.txt", change);
        let status = env.user(&env.top(), &["status", "--porcelain"]);
        let refused = fast_forward(&env.git, &env.project(), &main_branch(), &done).unwrap_err();
        assert!(matches!(&refused, Error::Refused { output, .. } if output.contains("a.txt")));
        assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), status);
        assert_eq!(env.rev("main"), before);
    }
}

#[test]
fn half_written_checkout_keeps_staged_changes() {
    let env = GitTestEnv::new();
    let (done, before) = (work(&env), env.rev("main"));
    env.write("b.txt", "mine\n");
    env.user(&env.top(), &["add", "b.txt"]);
    half_land(&env);
    fast_forward(&env.git, &env.project(), &main_branch(), &done).unwrap_err();
    assert_eq!(env.user(&env.top(), &["show", ":b.txt"]), "mine");
    assert_eq!(env.rev("main"), before);
}

/// Runs calls in this process. The first call is interrupted after it has written a part of some
/// files.
struct CutOffOnce {
    calls: AtomicUsize,
    seen: Mutex<Vec<LongCall>>,
    cut_off: Mutex<Vec<CutOffCall>>,
    leaves: fn(&Path),
    /// The reported time of the call, if it differs from the actual one.
    ran: Option<CutOffCall>,
}

/// Creates the state of a call that was killed in the middle of a file.
fn one_torn_file(top: &Path) {
    write_anew(&top.join("a.txt"), "two and");
    write_anew(&top.join("b.txt"), "two\n");
}

/// Creates the state of a call that ran out of disk space.
fn several_torn_files(top: &Path) {
    one_torn_file(top);
    write_anew(&top.join("b.txt"), "");
    write_anew(&top.join("new.txt"), "tw");
}

fn locked_index(top: &Path) {
    one_torn_file(top);
    write(&top.join(".git/index.lock"), "");
}

/// Creates the state of a reset that was killed while it held the lock of its branch. The
/// repository is beside the worktrees.
fn locked_branch(top: &Path) {
    let root = top.ancestors().nth(2).expect("the tree is in trees/");
    let entries = fs::read_dir(root).unwrap().flatten();
    let mut heads = entries.map(|entry| entry.path().join(".git/refs/heads"));
    let heads = heads.find(|heads| heads.is_dir()).expect("there is a repository");
    write(&heads.join("provost/t1.lock"), "");
}

const LONG_AGO: CutOffCall = CutOffCall { began: UNIX_EPOCH, ended: UNIX_EPOCH };

/// Writes a file as git does, by creating a new one.
fn write_anew(path: &Path, text: &str) {
    fs::remove_file(path).ok();
    write(path, text);
}

impl LongCalls for CutOffOnce {
    #[expect(clippy::disallowed_methods, reason = "when the call ran")]
    fn run(&self, call: LongCall) -> LongCallResult {
        if self.calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let began = SystemTime::now();
            (self.leaves)(&call.cwd);
            let ran = CutOffCall { began, ended: SystemTime::now() };
            self.cut_off.lock().unwrap().push(self.ran.unwrap_or(ran));
            self.seen.lock().unwrap().push(call);
            return LongCallResult::Interrupted("it was killed".to_owned());
        }
        let [program, args @ ..] = &call.argv[..] else { panic!("there is a program") };
        let mut command = Command::new(program);
        command.args(args).env_clear().envs(call.env.clone()).current_dir(&call.cwd);
        let ran = command.output().unwrap();
        self.seen.lock().unwrap().push(call);
        LongCallResult::Exited { exit: GitExit::from(ran.status), stderr: ran.stderr }
    }

    fn cut_off_calls(&self) -> Vec<CutOffCall> {
        self.cut_off.lock().unwrap().clone()
    }
}

fn cut_off_once(git: &Git) -> (Git, Arc<CutOffOnce>) {
    cut_off_leaving(git, one_torn_file, None)
}

fn cut_off_leaving(
    git: &Git,
    leaves: fn(&Path),
    ran: Option<CutOffCall>,
) -> (Git, Arc<CutOffOnce>) {
    let calls = Arc::new(CutOffOnce {
        calls: AtomicUsize::new(0),
        seen: Mutex::default(),
        cut_off: Mutex::default(),
        leaves,
        ran,
    });
    (git.clone().with_long_calls(Arc::clone(&calls) as Arc<dyn LongCalls>), calls)
}

fn long_directories(scratch: &Path) -> usize {
    let entries = fs::read_dir(scratch).unwrap().flatten();
    entries.filter(|one| one.file_name().to_string_lossy().starts_with("provost-long-")).count()
}

#[test]
fn interrupted_landing_is_repeated() {
    let env = GitTestEnv::new();
    let done = work(&env);
    let (git, calls) = cut_off_once(&env.git);
    env.write("d.txt", "mine\n");
    let moved = fast_forward(&git, &env.project(), &main_branch(), &done).unwrap();
    assert_eq!((moved, env.rev("main")), (FastForward::Done, done));
    assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), " M d.txt");
    assert_eq!(fs::read_to_string(env.top().join("a.txt")).unwrap(), "two and a half\n");
    let seen = calls.seen.lock().unwrap();
    assert!(seen.iter().all(|call| call.argv.iter().any(|word| word == "merge")), "{seen:?}");
    let has_mark = |call: &LongCall| call.env.iter().any(|(name, _)| name == "PROVOST_LAUNCH");
    assert!(!seen.iter().any(has_mark), "a holder sets its own mark");
    assert_eq!(long_directories(&env.path("scratch")), 0);
}

#[test]
fn all_files_that_a_landing_left_half_written_are_repaired() {
    let env = GitTestEnv::new();
    let done = work(&env);
    let (git, _) = cut_off_leaving(&env.git, several_torn_files, None);
    env.write("d.txt", "mine\n");
    let moved = fast_forward(&git, &env.project(), &main_branch(), &done).unwrap();
    assert_eq!((moved, env.rev("main")), (FastForward::Done, done));
    assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), " M d.txt");
}

#[test]
fn file_changed_while_no_call_ran_is_the_users() {
    for leaves in [one_torn_file, several_torn_files] {
        let env = GitTestEnv::new();
        let (done, before) = (work(&env), env.rev("main"));
        let (git, _) = cut_off_leaving(&env.git, leaves, Some(LONG_AGO));
        let refused = fast_forward(&git, &env.project(), &main_branch(), &done).unwrap_err();
        assert!(matches!(&refused, Error::Refused { .. }), "{refused}");
        assert_eq!(fs::read_to_string(env.top().join("a.txt")).unwrap(), "two and");
        assert_eq!(env.rev("main"), before);
    }
}

#[test]
fn lock_that_a_killed_call_left_is_removed() {
    let env = GitTestEnv::new();
    let done = work(&env);
    let (git, _) = cut_off_leaving(&env.git, locked_index, None);
    let moved = fast_forward(&git, &env.project(), &main_branch(), &done).unwrap();
    assert_eq!((moved, env.rev("main")), (FastForward::Done, done));
    assert_eq!(env.user(&env.top(), &["status", "--porcelain"]), "");
}

#[test]
fn lock_made_while_no_call_ran_stays_and_is_named() {
    let env = GitTestEnv::new();
    let done = work(&env);
    let (git, _) = cut_off_leaving(&env.git, locked_index, Some(LONG_AGO));
    let git = git.with_lock_limit(Duration::from_millis(100));
    let refused = fast_forward(&git, &env.project(), &main_branch(), &done).unwrap_err();
    assert!(matches!(&refused, Error::Git(command::Error::Locked { .. })), "{refused}");
    assert!(env.top().join(".git/index.lock").exists());
}

#[test]
fn interrupted_worktree_reset_is_repeated() {
    let env = GitTestEnv::new();
    let (git, calls) = cut_off_once(&env.git);
    let path = env.path("trees/w1");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made =
        provost_git::worktree_add(&git, &env.project(), &path, &branch("provost/t1"), "main");
    let made = made.unwrap();
    assert_eq!(env.user(&made.path, &["status", "--porcelain"]), "?? b.txt");
    assert_eq!(fs::read_to_string(made.path.join("a.txt")).unwrap(), "one\n");
    assert_eq!(calls.calls.load(Ordering::SeqCst), 2);
}

#[test]
fn branch_lock_that_a_killed_reset_left_is_removed() {
    let env = GitTestEnv::new();
    let (git, _) = cut_off_leaving(&env.git, locked_branch, None);
    let path = env.path("trees/w1");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let made =
        provost_git::worktree_add(&git, &env.project(), &path, &branch("provost/t1"), "main");
    assert_eq!(env.user(&made.unwrap().path, &["status", "--porcelain"]), "");
}

#[test]
fn held_lock_is_reported_and_kept_after_timeout() {
    let env = GitTestEnv::new();
    let (done, before) = (work(&env), env.rev("main"));
    let git = env.git.clone().with_lock_limit(Duration::from_millis(100));
    let lock = env.top().join(".git/index.lock");
    write(&lock, "");
    let refused = fast_forward(&git, &env.project(), &main_branch(), &done).unwrap_err();
    let Error::Git(command::Error::Locked { path, .. }) = &refused else { panic!("{refused}") };
    assert_eq!(*path, lock);
    assert!(refused.hint().unwrap().contains("then resume"), "{refused}");
    assert!(lock.exists());
    fs::remove_file(&lock).unwrap();
    assert_eq!(env.rev("main"), before);
    assert_eq!(
        fast_forward(&git, &env.project(), &main_branch(), &done).unwrap(),
        FastForward::Done
    );
}

#[test]
fn released_lock_is_waited_for() {
    let env = GitTestEnv::new();
    let done = work(&env);
    let lock = env.top().join(".git/index.lock");
    write(&lock, "");
    let (git, calls) = cut_off_once(&env.git);
    // The first call must not be cut off.
    calls.calls.store(1, Ordering::SeqCst);
    let project = env.project();
    std::thread::scope(|scope| {
        let landing = scope.spawn(|| fast_forward(&git, &project, &main_branch(), &done));
        while calls.seen.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        fs::remove_file(&lock).unwrap();
        assert_eq!(landing.join().unwrap().unwrap(), FastForward::Done);
    });
    assert_eq!(env.rev("main"), done);
}
