//! `git commit` in a sandbox changes nothing that other worktrees share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use provost_sandbox::{GitDirs, SandboxRequest};

use crate::kit::{SandboxRun, TestEnv, everywhere};

/// Runs git outside of the sandbox.
fn git(env: &TestEnv, directory: &str, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(env.root.join(directory)).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", env.root.join("nowhere"));
    // The files may belong to another user.
    let settings = [("safe.directory", "*"), ("user.name", "t"), ("user.email", "t@example.com")];
    command.env("GIT_CONFIG_COUNT", "3");
    for (number, (key, value)) in settings.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{number}"), key);
        command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {text}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Creates a repository with a linked worktree whose HEAD is detached.
fn linked(env: &TestEnv) -> SandboxRequest {
    fs::create_dir(env.root.join("repo")).unwrap();
    git(env, "repo", &["init", "--quiet", "--initial-branch", "main"]);
    env.write("repo/file", "one\n");
    git(env, "repo", &["add", "file"]);
    git(env, "repo", &["commit", "--quiet", "-m", "first"]);
    git(env, "repo", &["branch", "other"]);
    fs::remove_dir(env.worktree()).unwrap();
    git(env, "repo", &["worktree", "add", "--quiet", "--detach", "../work"]);
    git(env, "repo", &["config", "user.name", "t"]);
    git(env, "repo", &["config", "user.email", "t@example.com"]);
    let shared = env.root.join("repo/.git");
    let dirs = GitDirs { own: shared.join("worktrees/work"), shared };
    SandboxRequest { git: Some(dirs), ..env.request() }
}

/// Returns the content of every file of the shared directory except objects and the worktree's own
/// files.
fn shared_files(env: &TestEnv) -> Vec<(PathBuf, Vec<u8>)> {
    let top = env.root.join("repo/.git");
    let mut found = Vec::new();
    collect(&top, &top, &mut found);
    found.sort();
    found
}

fn collect(top: &Path, directory: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(top).unwrap();
        if name == Path::new("objects") || name == Path::new("worktrees") {
            continue;
        }
        if path.is_dir() {
            collect(top, &path, found);
        } else {
            found.push((name.to_owned(), fs::read(&path).unwrap()));
        }
    }
}

#[test]
fn commit_works_and_changes_no_shared_file() {
    everywhere(|env, level| {
        let request = linked(env);
        let before = shared_files(env);
        let script = "echo two >>file && git add file && git commit --quiet -m second && \
                      git commit --quiet --amend -m third && git stash list && \
                      git log --format=%s && git status --porcelain && git diff HEAD~1 --stat";
        let run = env.run(&request, level, script);
        // Git complains that it cannot lock `packed-refs` for a cleanup, but the commit is complete.
        assert_eq!(run.code, Some(0), "{level} {run:?}");
        assert!(run.stdout.starts_with("third\nfirst\n"), "{level} {run:?}");
        assert_eq!(shared_files(env), before, "{level}");
        // The repository outside has the new commit.
        let head = git(env, "work", &["rev-parse", "HEAD"]);
        assert_eq!(git(env, "repo", &["log", "-1", "--format=%s", &head]), "third");
        git(env, "repo", &["fsck", "--strict"]);
    });
}

/// Attempts to change each shared part of the repository, and the links between its parts.
const ATTACKS: &[&str] = &[
    "git config core.hooksPath /tmp",
    "git config --worktree core.fsmonitor 'touch /tmp/pwned'",
    "git branch mine",
    "git branch --force other HEAD",
    "git update-ref refs/heads/main HEAD~0 --create-reflog",
    "git branch -D other",
    "git checkout --quiet -b mine",
    "git tag v1",
    "git pack-refs --all",
    "git worktree add ../second",
    "printf '#!/bin/sh\\n' >\"$G/hooks/pre-commit\"",
    "echo x >\"$G/info/attributes\"",
    "echo x >\"$G/objects/info/alternates\"",
    "rm -rf \"$G/refs\"",
    "mv \"$G/config\" \"$G/old\"",
];

#[test]
fn shared_refs_configuration_and_hooks_cannot_be_changed() {
    everywhere(|env, level| {
        let request = linked(env);
        fs::create_dir_all(env.root.join("repo/.git/hooks")).unwrap();
        let before = shared_files(env);
        for attack in ATTACKS {
            let run = env.run(&request, level, &format!("G=\"$R/repo/.git\"; {attack}"));
            assert_eq!(shared_files(env), before, "{level} {attack} {run:?}");
        }
        assert!(!env.root.join("second").exists());
    });
}

#[test]
fn attacks_on_the_repository_succeed_without_a_sandbox() {
    everywhere(|env, level| {
        let request = linked(env);
        let request = SandboxRequest { mode: provost_sandbox::SandboxMode::Off, ..request };
        for attack in ["git branch mine", "git config core.hooksPath /tmp"] {
            let before = shared_files(env);
            let run: SandboxRun = env.run(&request, level, attack);
            assert_eq!(run.code, Some(0), "{level} {attack} {run:?}");
            assert_ne!(shared_files(env), before, "{level} {attack}");
        }
    });
}

#[test]
fn links_of_the_worktree_cannot_be_replaced() {
    if !crate::kit::has_full() {
        return;
    }
    let env = TestEnv::new(crate::kit::TestUser::Current);
    let request = linked(&env);
    let links =
        ["work/.git", "repo/.git/worktrees/work/commondir", "repo/.git/worktrees/work/gitdir"];
    let before = links.map(|link| env.read(link));
    let script = "for f in .git \"$R/repo/.git/worktrees/work/commondir\" \
                  \"$R/repo/.git/worktrees/work/gitdir\"; do echo x >\"$f\"; rm -f \"$f\"; \
                  mv \"$f\" moved; ln -sf /etc/passwd \"$f\"; done; true";
    let run = env.run(&request, provost_sandbox::SandboxLevel::Full, script);
    assert_eq!(links.map(|link| env.read(link)), before, "{run:?}");
}
