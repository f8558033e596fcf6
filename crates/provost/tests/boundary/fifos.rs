//! A FIFO in place of a file that a command reads: no command blocks on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use provost_testkit::{TestHome, TestRepo};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The path of a FIFO and the command that reads it.
struct FifoCase {
    /// Relative to the test's root; the repository is `repo`, the user's home is `user`.
    fifo: &'static str,
    args: &'static [&'static str],
    /// Whether the command must succeed anyway.
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
            "--exit0-is-done",
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
