//! How git is located and bounded, and how its failures are described.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use provost_git::command::{Error, GitExit, OUTPUT_LIMIT};
use provost_git::{Git, Project, project};

use crate::test_env::{GitTestEnv, search_path};

#[test]
fn git_is_found_in_absolute_directories_only() {
    let found = Git::find(OsStr::new(".:relative"), Path::new("/"));
    assert!(matches!(found, Err(Error::NotFound { .. })));
    assert!(Git::find(&search_path(), Path::new("/")).is_ok());
}

#[test]
fn hanging_git_is_ended_with_its_children() {
    let env = GitTestEnv::empty();
    let (pids, script) = (env.path("pids"), env.path("hanging"));
    // The grandchild ignores TERM and holds the output open.
    let hang = "(trap '' TERM; sleep 1000 & wait) & echo $! $$";
    fake(&script, &format!("{hang} > {}; echo partial; sleep 1000", pids.display()));
    let git = Git::new(&script, &search_path(), &env.path("home"))
        .with_time_limit(Duration::from_millis(500));
    let error = command_error(Project::find(&git, &env.top()));
    assert!(
        matches!(error, Error::TimedOut { ref command, .. } if command.starts_with("git rev-parse")),
        "{error:?}"
    );
    for pid in fs::read_to_string(&pids).unwrap().split_whitespace() {
        wait_gone(pid);
    }
}

#[test]
fn leftover_children_of_git_are_killed() {
    let env = GitTestEnv::empty();
    let (pids, script) = (env.path("pids"), env.path("leaving"));
    fake(&script, &format!("sleep 1000 & echo $! > {}; echo odd answer", pids.display()));
    let git = Git::new(&script, &search_path(), &env.path("home"));
    let began = now();
    let error = command_error(Project::find(&git, &env.top()));
    assert!(matches!(error, Error::Unexpected { .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_secs(30));
    wait_gone(fs::read_to_string(&pids).unwrap().trim());
}

#[test]
fn output_flood_is_cut_off() {
    let env = GitTestEnv::empty();
    let script = env.path("flooding");
    fake(&script, "exec yes");
    let git = Git::new(&script, &search_path(), &env.path("home"));
    let error = command_error(Project::find(&git, &env.top()));
    assert!(matches!(error, Error::TooMuchOutput { limit: OUTPUT_LIMIT, .. }), "{error:?}");
}

#[test]
fn failure_has_command_code_and_escaped_stderr() {
    let env = GitTestEnv::empty();
    let script = env.path("failing");
    fake(&script, "printf 'first\\n' >&2; seq 100 >&2; printf 'red \\033[31m\\n' >&2; exit 7");
    let git = Git::new(&script, &search_path(), &env.path("home"));
    let Error::Failed { command, exit, stderr } = command_error(Project::find(&git, &env.top()))
    else {
        panic!()
    };
    assert!(command.starts_with("git rev-parse --is-bare-repository"), "{command}");
    assert_eq!(exit, GitExit::Code(7));
    assert!(stderr.ends_with("100\nred \\u{1b}[31m"), "{stderr:?}");
    assert!(!stderr.contains("first"), "{stderr:?}");
}

#[test]
fn environment_contains_only_given_variables() {
    let env = GitTestEnv::empty();
    let (seen, script) = (env.path("seen"), env.path("telling"));
    fake(&script, &format!("env > {}; exit 1", seen.display()));
    let git = Git::new(&script, &search_path(), &env.path("home"));
    command_error(Project::find(&git, &env.top()));
    let seen = fs::read_to_string(seen).unwrap();
    let value = |name: &str| seen.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
    assert_eq!(value("HOME"), env.path("home").to_str());
    assert_eq!(value("GIT_TERMINAL_PROMPT"), Some("0"));
    assert_eq!(value("GIT_OPTIONAL_LOCKS"), Some("0"));
    assert_eq!(value("LC_ALL"), Some("C"));
    // Cargo sets this variable for every test, so an inherited environment would contain it.
    assert_eq!(value("CARGO_MANIFEST_DIR"), None);
}

fn fake(path: &PathBuf, body: &str) {
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command_error(found: Result<Project, project::Error>) -> Error {
    match found {
        Err(project::Error::Git(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Waits until the process is gone, or is a zombie to be reaped by init.
fn wait_gone(pid: &str) {
    let began = now();
    let alive = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
    };
    while alive() {
        assert!(began.elapsed() < Duration::from_secs(20), "process {pid} is still there");
        std::thread::yield_now();
    }
}

#[expect(clippy::disallowed_methods, reason = "the bound of a wait")]
fn now() -> Instant {
    Instant::now()
}
