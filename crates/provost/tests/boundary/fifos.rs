//! A FIFO in place of a file that a command or its git reads: nothing blocks on it for long.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use provost_testkit::{
    TestHome, TestRepo,
    harness::{eventually, read_nonempty},
};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The path of a FIFO and the command that reads it.
struct FifoCase {
    /// The path of the FIFO, relative to the test's root. The repository is `repo`, the user's home
    /// is `user`.
    fifo: &'static str,
    args: &'static [&'static str],
    /// Whether the command must succeed despite the FIFO.
    succeeds: bool,
}

const CASES: &[FifoCase] = &[
    FifoCase { fifo: "repo/provost.toml", args: &["config", "show"], succeeds: false },
    FifoCase { fifo: "repo/provost.toml", args: &["doctor", "--json"], succeeds: false },
    FifoCase { fifo: "repo/provost.toml", args: &["spawn", "--", "true"], succeeds: false },
    FifoCase {
        fifo: "user/.config/provost/provost.toml",
        args: &["config", "show"],
        succeeds: false,
    },
    FifoCase { fifo: "repo/WORKFLOW.md", args: &["serve", "--once"], succeeds: false },
    FifoCase { fifo: "repo/WORKFLOW.md", args: &["trust", "--print"], succeeds: false },
    FifoCase { fifo: "repo/issues/a.md", args: &["serve", "--once"], succeeds: false },
    FifoCase { fifo: "repo/.codex/config.toml", args: &["trust", "--print"], succeeds: false },
    FifoCase { fifo: "repo/.mcp.json", args: &["trust", "--print"], succeeds: false },
    FifoCase { fifo: "repo/.agents/skills/s/SKILL.md", args: &["skills", "list"], succeeds: true },
    FifoCase { fifo: "user/.agents/skills/s/SKILL.md", args: &["skills", "list"], succeeds: true },
    FifoCase {
        fifo: "user/.agents/skills/provost-review/SKILL.md",
        args: &["skills", "install"],
        succeeds: false,
    },
    FifoCase { fifo: "user/.npmrc", args: &["skills", "list"], succeeds: true },
    FifoCase { fifo: "home/known-codex.json", args: &["doctor", "--json"], succeeds: false },
    FifoCase { fifo: "user/.local/bin/codex", args: &["doctor", "--json"], succeeds: false },
    FifoCase {
        fifo: "repo/.git/info/exclude",
        args: &[
            "spawn",
            "--worktree",
            "--wait",
            "--exit-zero-completes",
            "--check",
            "true",
            "--",
            "sh",
            "-c",
            "echo made > made",
        ],
        succeeds: true,
    },
];

fn make_fifo(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::remove_file(path).ok();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR | Mode::XUSR, 0).unwrap();
}

/// A repository with a workflow that reads issues from files, and a program that poses as Codex.
fn setup_repo(home: &TestHome) -> TestRepo {
    let repo = home.repo("repo");
    repo.write("WORKFLOW.md", "---\ntracker: {kind: file}\nprovost: {agent: true}\n---\nDo it.\n");
    fs::create_dir_all(repo.path().join("issues")).unwrap();
    let bin = home.root().join("user/.local/bin");
    fs::create_dir_all(&bin).unwrap();
    fs::copy("/bin/true", bin.join("codex")).unwrap();
    fs::set_permissions(bin.join("codex"), fs::Permissions::from_mode(0o755)).unwrap();
    repo
}

#[test]
fn f2_13_no_command_blocks_on_a_fifo() {
    for FifoCase { fifo: pipe, args, succeeds } in CASES {
        let home = TestHome::new();
        let repo = setup_repo(&home);
        home.trust(repo.path());
        let path: PathBuf = match pipe.split_once('/').unwrap() {
            ("repo", rest) => repo.path().join(rest),
            ("home", rest) => home.path().join(rest),
            _ => home.root().join(pipe),
        };
        make_fifo(&path);
        // The harness kills a command that blocks, which fails the test.
        let output = home.provost_in(repo.path(), args);
        if *succeeds {
            assert!(output.code() == Some(0), "{pipe}: {output:?}");
        }
        home.provost(&["ls"]).ok();
    }
}

/// Starts an agent in a worktree that runs a shell line, and returns the text of its session once it has ended.
fn run_in_worktree(home: &TestHome, repo: &TestRepo, line: &str) -> String {
    let words = ["spawn", "--json", "--worktree", "--exit-zero-completes", "--", "sh", "-ec", line];
    let id = home.provost_in(repo.path(), &words).ok().json()["id"].as_str().unwrap().to_owned();
    home.wait_sealed(&id);
    let events: Vec<String> = home.events(&id).iter().map(ToString::to_string).collect();
    events.join("\n")
}

#[test]
fn fifo_of_an_agent_is_named_and_delays_no_git() {
    for (fifo, name) in [
        (".gitignore", ".gitignore"),
        ("sub/.gitattributes", "sub/.gitattributes"),
        ("$(git rev-parse --git-path index)", "/index"),
    ] {
        let home = TestHome::new();
        let repo = home.repo("repo");
        let line = format!("mkdir sub; rm -f {fifo}; mkfifo {fifo}; echo made > sub/made");
        let events = run_in_worktree(&home, &repo, &line);
        assert!(!events.contains("did not finish within"), "{fifo}: {events}");
        assert!(events.contains(name) && events.contains("not a regular file"), "{fifo}: {events}");
    }
}

#[test]
fn fifo_as_head_of_a_worktree_is_named() {
    let home = TestHome::new();
    let repo = home.repo("repo");
    run_in_worktree(&home, &repo, "echo made > made");
    let registered = fs::read_dir(repo.path().join(".git/worktrees")).unwrap().next().unwrap();
    let head = registered.unwrap().path().join("HEAD");
    let commit = fs::read(&head).unwrap();
    make_fifo(&head);
    let refused = run_in_worktree(&home, &repo, "echo made > made");
    assert!(!refused.contains("did not finish within"), "{refused}");
    let named = head.display().to_string();
    assert!(refused.contains(&named) && refused.contains("not a regular file"), "{refused}");
    // Once the file is removed, everything works again.
    fs::remove_file(&head).unwrap();
    fs::write(&head, commit).unwrap();
    let events = run_in_worktree(&home, &repo, "echo made > made");
    assert!(!events.contains("not a regular file"), "{events}");
}

/// A git that blocks, and the daemon that waits for it, end together.
#[test]
fn blocked_git_ends_with_the_daemon() {
    for kill in [false, true] {
        let mut home = TestHome::new();
        let repo = home.repo("repo");
        let bin = home.root().join("blocking-git");
        fs::create_dir_all(&bin).unwrap();
        let here = bin.display();
        #[expect(clippy::disallowed_methods, reason = "tests run the git of the machine")]
        let path = std::env::var("PATH").unwrap();
        let real = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.exists());
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = add ] || exec {} \"$@\"\necho $$ > {here}/pid.new\nmv {here}/pid.new {here}/pid\nexec sleep 600\n",
            real.unwrap().display()
        );
        fs::write(bin.join("git"), script).unwrap();
        fs::set_permissions(bin.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        home.set_env("PATH", format!("{here}:{path}"));
        let line =
            ["spawn", "--worktree", "--exit-zero-completes", "--", "sh", "-c", "echo > made"];
        home.provost_in(repo.path(), &line).ok();
        let pid = eventually("git blocks", || read_nonempty(bin.join("pid")));
        let process = PathBuf::from(format!("/proc/{}", pid.trim()));
        assert!(process.exists());
        if kill {
            home.daemon().kill();
        } else {
            home.daemon().stop();
        }
        eventually("the blocked git ended", || (!process.exists()).then_some(()));
        // The next daemon takes the snapshot.
        fs::remove_file(bin.join("git")).unwrap();
        home.provost(&["ls"]).ok();
    }
}
