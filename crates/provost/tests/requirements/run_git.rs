//! Git calls that outlive the daemon: landings, worktrees and checkouts survive the daemon's end at
//! any point.
//!
//! A wrapper runs in front of git. It pauses one call as soon as a certain file was written, and
//! continues when the test releases it. So the daemon ends while git is in the middle of its work.
//! The test kit's `paused-program` says how.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use provost_testkit::harness::{TestRepo, eventually, is_deep, paused_program_bin, read_nonempty};
use serde_json::Value;

use crate::run_env::RunEnv;
use provost_testkit::env::{TestEnv, text};

/// The work of the agents in these tests: rewrites every file.
const REWRITES_FILES: &str = "for file in many/*; do echo new > $file; done";

/// How the daemon ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DaemonEnd {
    Stop,
    Kill,
}

/// A git that is paused in the middle of one call.
struct PausedGit {
    dir: PathBuf,
}

/// Selects the git call to pause, and when.
struct PausePoint<'a> {
    subcommand: &'a str,
    /// A pattern for the working directory of the call.
    dir_pattern: &'a str,
    /// Pauses once this file contains `line`.
    file: String,
    line: &'a str,
}

impl PausedGit {
    /// Puts the wrapper in front of git, for all processes that are started from now on.
    fn install(stage: &mut TestEnv, at: &PausePoint<'_>) -> PausedGit {
        let dir = stage.root().join("stopped-git");
        let PausePoint { subcommand, dir_pattern: place, file, line } = at;
        let (here, git) = (text(&dir), text(&real_git()));
        let pauser = text(&paused_program_bin());
        let script = format!(
            "#!/bin/sh\n\
             case \"$1 $PWD\" in {subcommand}\\ {place}) ;; *) exec {git} \"$@\" ;; esac\n\
             if ! mkdir {here}/taken 2> /dev/null; then\n\
             [ -e {here}/ended ] || echo $1 >> {here}/beside\n\
             exec {git} \"$@\"\n\
             fi\n\
             exec {pauser} {here} {file} {line} {git} \"$@\"\n"
        );
        install_git_wrapper(stage, &dir, &script);
        PausedGit { dir }
    }

    /// Waits until git is paused in the middle of its work.
    #[track_caller]
    fn wait(&self) {
        eventually("git is stopped", || read_nonempty(self.dir.join("stopped")));
    }

    fn resume(&self) {
        fs::write(self.dir.join("go"), "").unwrap();
    }

    /// Asserts that no other call worked in the same directory before this one ended.
    #[track_caller]
    fn assert_worked_alone(&self) {
        assert_eq!(read_nonempty(self.dir.join("beside")), None);
    }

    /// Ends the paused git. With `-TERM` git removes its lock file, with `-KILL` it does not.
    fn end(&self, signal: &str) {
        let pid = fs::read_to_string(self.dir.join("stopped")).unwrap();
        let sent = Command::new("kill").args([signal, pid.trim()]).status().unwrap();
        assert!(sent.success());
        self.resume();
    }
}

/// Installs a program that is found before git.
fn install_git_wrapper(stage: &mut TestEnv, dir: &Path, script: &str) {
    fs::create_dir(dir).unwrap();
    fs::write(dir.join("git"), script).unwrap();
    fs::set_permissions(dir.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = search_path();
    let all = std::iter::once(dir.to_owned()).chain(std::env::split_paths(&path));
    stage.home.set_env("PATH", std::env::join_paths(all).unwrap());
}

#[expect(clippy::disallowed_methods, reason = "tests run the git of the machine")]
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap()
}

fn real_git() -> PathBuf {
    let path = search_path();
    let mut found = std::env::split_paths(&path).map(|dir| dir.join("git"));
    found.find(|file| file.is_file()).expect("git is installed")
}

/// A repository with many files, and with uncommitted changes of its user.
fn large_repo(stage: &TestEnv, files: usize) -> TestRepo {
    let repo = stage.home.repo("work");
    for no in 0..files {
        repo.write(&format!("many/f{no:04}"), "old\n");
    }
    repo.commit("many files");
    repo.write("README.md", "mine\n");
    repo.write("notes.txt", "mine as well\n");
    repo
}

/// Returns the points at which the daemon ends, as numbers of written files: two by default, ten in
/// the deep run.
fn kill_points(files: usize) -> Vec<usize> {
    let every = if is_deep() { 10 } else { 2 };
    (0..every).map(|no| files * (2 * no + 1) / (2 * every)).collect()
}

/// Returns the number of files. Only the deep run has a realistic number.
fn file_count(deep_files: usize) -> usize {
    if is_deep() { deep_files } else { deep_files / 3 }
}

/// Starts `provost daemon stop`, which may have to wait.
fn stop_daemon(stage: &TestEnv) -> Child {
    let mut stop = stage.home.command(&["daemon", "stop"]);
    stop.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Asserts that `provost daemon stop` reports that it has to wait.
#[track_caller]
fn assert_waits(stop: &mut Child) {
    let mut stderr = BufReader::new(stop.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert_eq!(line, "waiting for a landing or a clean-up to finish\n");
}

#[track_caller]
fn assert_user_files_untouched(repo: &TestRepo) {
    assert_eq!(repo.git(&["status", "--porcelain"]), " M README.md\n?? notes.txt");
    assert_eq!(repo.read("README.md"), "mine\n");
    assert_eq!(repo.read("notes.txt"), "mine as well\n");
    assert!(!repo.path().join(".git/index.lock").exists());
}

#[track_caller]
fn assert_landed(env: &RunEnv, id: &str, before: &str, files: usize) -> Value {
    let row = env.wait_sealed(id);
    assert_eq!(row["state"], "completed", "{row:#}");
    let failed = env.stage.events_of(id, "run.landing_failed");
    assert!(failed.is_empty(), "{failed:#?}");
    assert_ne!(env.repo.head(), before);
    let last = files - 1;
    assert_eq!(env.repo.git(&["show", &format!("HEAD:many/f{last:04}")]), "new");
    assert_eq!(env.repo.read(&format!("many/f{last:04}")), "new\n");
    assert_user_files_untouched(&env.repo);
    row
}

/// Asserts that all commands show the git process that they wait for.
#[track_caller]
fn shows_earlier_git(env: &RunEnv, id: &str) {
    let detail = eventually("the run waits for git", || {
        let row = env.stage.status(id);
        let waits = row["shortage"]["resource"] == "git";
        if waits { Ok(row["shortage"]["detail"].to_string()) } else { Err(row.to_string()) }
    });
    assert!(detail.contains("(pid ") && detail.contains("an earlier daemon"), "{detail}");
    for command in [&["ls"][..], &["status"], &["daemon", "status"], &["status", id]] {
        let shown = env.stage.home.provost(command);
        assert!(shown.ok().stdout.contains("that an earlier daemon started"), "{shown:#?}");
    }
}

/// Ends the daemon while git lands, and asserts that the work still lands.
fn assert_lands_despite(end: DaemonEnd, files: usize, point: usize) {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, files);
    let file = format!("many/f{point:04}");
    let at = PausePoint { subcommand: "merge", dir_pattern: "*/repos/work", file, line: "new" };
    let git = PausedGit::install(&mut stage, &at);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let before = env.repo.head();
    let id = env.open_run(&["--no-check", "--land", "merge"]);
    git.wait();
    match end {
        DaemonEnd::Kill => {
            env.stage.daemon().kill();
            // The next daemon finds the git of the first one still running.
            let row = env.stage.status(&id);
            assert_eq!((&row["sealed"], env.repo.head()), (&Value::Bool(false), before.clone()));
            shows_earlier_git(&env, &id);
            git.resume();
        }
        DaemonEnd::Stop => {
            let pid = env.stage.daemon().pid().unwrap();
            let mut stop = stop_daemon(&env.stage);
            assert_waits(&mut stop);
            assert_eq!(env.stage.daemon().pid(), Some(pid), "it waits");
            git.resume();
            assert!(stop.wait().unwrap().success());
        }
    }
    assert_landed(&env, &id, &before, files);
    git.assert_worked_alone();
}

#[test]
fn f5_g1a_stopped_daemon_waits_for_a_landing() {
    let files = file_count(3_000);
    kill_points(files)
        .into_iter()
        .for_each(|point| assert_lands_despite(DaemonEnd::Stop, files, point));
}

#[test]
fn f5_g1b_landing_of_killed_daemon_is_continued() {
    let files = file_count(3_000);
    kill_points(files)
        .into_iter()
        .for_each(|point| assert_lands_despite(DaemonEnd::Kill, files, point));
}

#[test]
fn stopped_daemon_finishes_the_removal_of_a_worktree() {
    let mut stage = TestEnv::new();
    let dir = stage.root().join("stopped-git");
    let (here, git) = (text(&dir), text(&real_git()));
    // The files of a worktree are gone when git unregisters it.
    let script = format!(
        "#!/bin/sh\nPATH=/usr/bin:/bin\n\
         case \"$1 $2\" in worktree\\ remove) ;; *) exec {git} \"$@\" ;; esac\n\
         echo $$ > {here}/stopped\nwhile ! [ -e {here}/go ]; do sleep 0.05; done\n\
         exec {git} \"$@\"\n"
    );
    install_git_wrapper(&mut stage, &dir, &script);
    let git = PausedGit { dir };
    let repo = stage.home.repo("work");
    let claims = "[[step]]\nreport = \"completed\"\n";
    let id = stage.spawn_scenario_in(repo.path(), claims, &["--worktree"]);
    stage.wait_sealed(&id);
    let mut collect = stage.home.command(&["gc", "--apply"]).stdin(Stdio::null()).spawn().unwrap();
    git.wait();
    // The removal continues without its client.
    collect.kill().unwrap();
    collect.wait().unwrap();
    let mut stop = stop_daemon(&stage);
    assert_waits(&mut stop);
    git.resume();
    assert!(stop.wait().unwrap().success());
    assert_eq!(repo.worktrees(), Vec::<PathBuf>::new(), "no registration is left");
    // The client that asked for it could not record it. The next clean-up does.
    stage.provost(&["gc", "--apply"]).ok();
    assert_eq!(stage.status(&id)["worktree"]["removed"], true);
}

#[test]
fn f5_g1a_half_written_checkout_is_finished() {
    for kill_the_daemon in [false, true] {
        finish_after("-TERM", kill_the_daemon);
    }
}

#[test]
fn f5_g1a_lock_of_a_killed_git_is_removed() {
    for kill_the_daemon in [false, true] {
        finish_after("-KILL", kill_the_daemon);
    }
}

#[test]
fn f5_g1a_files_without_room_are_finished_by_the_next_daemon() {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, 30);
    let dir = stage.root().join("short-git");
    let (here, git) = (text(&dir), text(&real_git()));
    let script = format!(
        "#!/bin/sh\n\
         case \"$1 $PWD\" in merge\\ */repos/work) ;; *) exec {git} \"$@\" ;; esac\n\
         [ ! -e {here}/room ] || exec {git} \"$@\"\n\
         if mkdir {here}/taken 2> /dev/null; then\n\
         for file in many/f0003 many/f0004; do rm $file; printf n > $file; done\n\
         fi\n\
         echo error: unable to write file many/f0003 >&2\n\
         exit 1\n"
    );
    install_git_wrapper(&mut stage, &dir, &script);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let before = env.repo.head();
    let id = env.open_run(&["--no-check", "--land", "merge"]);
    eventually("the landing waits for room", || {
        let row = env.stage.status(&id);
        if row["shortage"]["resource"] == "disk_space" { Ok(()) } else { Err(row.to_string()) }
    });
    env.stage.daemon().kill();
    fs::write(dir.join("room"), "").unwrap();
    assert_landed(&env, &id, &before, 30);
    let starts = fs::read_dir(env.stage.home.path().join("starts")).unwrap();
    let names = starts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> = names.filter(|name| name.ends_with(".git.json")).collect();
    assert!(left.is_empty(), "what was repaired is forgotten: {left:?}");
}

#[test]
fn file_named_like_a_shortage_does_not_make_a_landing_wait() {
    let stage = TestEnv::new();
    let repo = stage.home.repo("work");
    let name = "a: No space left on device";
    repo.write(name, "old\n");
    repo.commit("a file");
    repo.write(name, "mine\n");
    let env = RunEnv::with_script(stage, repo, "echo new > 'a: No space left on device'");
    let id = env.open_run(&["--no-check", "--land", "merge"]);
    eventually("the landing is refused", || {
        let failed = env.stage.events_of(&id, "run.landing_failed");
        if failed.is_empty() { Err(env.stage.status(&id).to_string()) } else { Ok(()) }
    });
    assert_eq!(env.repo.read(name), "mine\n");
    // git's message has several lines.
    for args in [&["status", &id][..], &["status", &id, "--why"], &["events", &id], &["ls"]] {
        let shown = env.stage.home.provost(args);
        assert!(!shown.ok().stdout.contains(['␊', '␉']), "{}", shown.stdout);
    }
    let shown = env.stage.home.provost(&["status", &id]).ok().stdout.clone();
    let at = shown.lines().position(|line| line.contains("overwritten")).expect("the reason");
    assert_eq!(shown.lines().nth(at + 1).map(str::trim), Some(name), "{shown}");
}

/// Ends git while it lands, and asserts that the work still lands.
fn finish_after(signal: &str, kill_the_daemon: bool) {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, 300);
    let file = "many/f0150".to_owned();
    let at = PausePoint { subcommand: "merge", dir_pattern: "*/repos/work", file, line: "new" };
    let git = PausedGit::install(&mut stage, &at);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let before = env.repo.head();
    let id = env.open_run(&["--no-check", "--land", "merge"]);
    git.wait();
    if kill_the_daemon {
        env.stage.daemon().kill();
    }
    git.end(signal);
    assert_landed(&env, &id, &before, 300);
    git.assert_worked_alone();
}

#[test]
fn f5_g1b_foreign_index_lock_is_awaited() {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, 3);
    let dir = stage.root().join("noting-git");
    let (here, git) = (text(&dir), text(&real_git()));
    let script = format!(
        "#!/bin/sh\n\
         {git} \"$@\"\n\
         status=$?\n\
         case \"$1 $PWD\" in merge\\ */repos/work) echo $status >> {here}/ended ;; esac\n\
         exit $status\n"
    );
    install_git_wrapper(&mut stage, &dir, &script);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let (before, lock) = (env.repo.head(), env.repo.path().join(".git/index.lock"));
    fs::write(&lock, "").unwrap();
    let id = env.open_run(&["--no-check", "--land", "merge"]);
    eventually("git met the lock", || read_nonempty(dir.join("ended")));
    assert!(lock.exists(), "the lock of another program is left alone");
    fs::remove_file(&lock).unwrap();
    assert_landed(&env, &id, &before, 3);
}

/// Ends the daemon while git creates a worktree, and asserts that the work continues in it.
fn assert_works_despite(end: DaemonEnd, files: usize, point: usize) {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, files);
    let file = format!("many/f{point:04}");
    let at =
        PausePoint { subcommand: "reset", dir_pattern: "*/home/worktrees/*", file, line: "old" };
    let git = PausedGit::install(&mut stage, &at);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let before = env.repo.head();
    let id = env.open_run(&["--no-check", "--land", "merge"]);
    git.wait();
    match end {
        DaemonEnd::Kill => drop(env.stage.daemon().kill()),
        DaemonEnd::Stop => env.stage.daemon().stop(),
    }
    assert_eq!(env.stage.status(&id)["sealed"], false);
    let session = env.stage.list_sessions()[0]["id"].as_str().unwrap().to_owned();
    eventually("the session waits for git", || {
        let row = env.stage.status(&session);
        let listed = &env.stage.list_sessions()[0]["shortage"]["resource"];
        let waits = row["shortage"]["resource"] == "git" && listed == "git";
        if waits { Ok(()) } else { Err(row.to_string()) }
    });
    git.resume();
    assert_landed(&env, &id, &before, files);
    git.assert_worked_alone();
    let sessions = env.stage.list_sessions();
    assert_eq!(sessions.len(), 1, "nothing was tried twice: {sessions:#?}");
}

#[test]
fn session_that_waits_for_an_earlier_git_says_so() {
    assert_works_despite(DaemonEnd::Kill, 90, 45);
}

#[test]
fn f5_g1c_worktree_is_made_once_despite_kill() {
    let files = file_count(8_000);
    kill_points(files)
        .into_iter()
        .for_each(|point| assert_works_despite(DaemonEnd::Kill, files, point));
}

#[test]
fn f5_g1c_worktree_is_made_once_despite_stop() {
    let files = file_count(8_000);
    kill_points(files)
        .into_iter()
        .for_each(|point| assert_works_despite(DaemonEnd::Stop, files, point));
}

#[test]
fn f5_g1d_checkout_of_killed_daemon_is_awaited() {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, 300);
    let file = "many/f0150".to_owned();
    let at = PausePoint { subcommand: "reset", dir_pattern: "*/home/pool/*", file, line: "new" };
    let git = PausedGit::install(&mut stage, &at);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let id = env.open_run(&["--check", "grep -q new many/f0299", "--land", "merge"]);
    git.wait();
    env.stage.daemon().kill();
    assert_eq!(env.stage.status(&id)["sealed"], false);
    git.resume();
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    assert_user_files_untouched(&env.repo);
    git.assert_worked_alone();
}

/// Opens a run whose first `times` checkouts fail.
fn run_with_broken_pool(times: u32) -> (RunEnv, String) {
    let mut stage = TestEnv::new();
    let repo = large_repo(&stage, 3);
    let dir = stage.root().join("failing-git");
    let (here, git) = (text(&dir), text(&real_git()));
    let script = format!(
        "#!/bin/sh\n\
         case \"$1 $PWD\" in reset\\ */home/pool/*) ;; *) exec {git} \"$@\" ;; esac\n\
         echo >> {here}/calls\n\
         [ $(wc -l < {here}/calls) -le {times} ] || exec {git} \"$@\"\n\
         echo fatal: Could not write new index file. >&2\n\
         exit 128\n"
    );
    install_git_wrapper(&mut stage, &dir, &script);
    let env = RunEnv::with_script(stage, repo, REWRITES_FILES);
    let id = env.open_run(&["--check", "grep -q new many/f0002", "--land", "merge"]);
    (env, id)
}

#[test]
fn f5_g1d_failed_checkout_is_retried() {
    let (env, id) = run_with_broken_pool(2);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
}

#[test]
fn f5_g1d_failing_checkout_is_not_failed_verification() {
    let (env, id) = run_with_broken_pool(1_000);
    let row = env.wait_sealed(&id);
    assert_eq!(row["state"], "failed", "{row:#}");
    let detail = row["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("checks_not_run"), "{row:#}");
    assert!(detail.contains("could not be run: "), "{row:#}");
    let sessions = env.stage.list_sessions();
    assert_eq!(sessions[0]["cause"], "checks_not_run", "{sessions:#?}");
    // The failure is not the agent's, so the agent is not asked to fix it.
    let sent = env.stage.events_of(sessions[0]["id"].as_str().unwrap(), "rework.sent");
    assert!(sent.is_empty(), "{sent:#?}");
}
