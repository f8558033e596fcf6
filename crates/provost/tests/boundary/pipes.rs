//! A FIFO in place of a file that a command reads: no command blocks on it.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use provost_testkit::{Home, Repo};
use rustix::fs::{CWD, FileType, Mode, mknodat};

/// The path of a FIFO and the command that reads it.
struct Case {
    /// Relative to the test's root; the repository is `repo`, the user's home is `user`.
    pipe: &'static str,
    args: &'static [&'static str],
    /// Whether the command must succeed anyway.
    succeeds: bool,
}

const CASES: &[Case] = &[
    Case { pipe: "repo/provost.toml", args: &["config", "show"], succeeds: false },
    Case { pipe: "repo/provost.toml", args: &["doctor", "--json"], succeeds: false },
    Case { pipe: "repo/provost.toml", args: &["spawn", "--", "true"], succeeds: false },
    Case { pipe: "user/.config/provost/provost.toml", args: &["config", "show"], succeeds: false },
    Case { pipe: "repo/WORKFLOW.md", args: &["serve", "--once"], succeeds: false },
    Case { pipe: "repo/WORKFLOW.md", args: &["trust", "--print"], succeeds: false },
    Case { pipe: "repo/issues/a.md", args: &["serve", "--once"], succeeds: false },
    Case { pipe: "repo/.codex/config.toml", args: &["trust", "--print"], succeeds: false },
    Case { pipe: "repo/.mcp.json", args: &["trust", "--print"], succeeds: false },
    Case { pipe: "repo/.agents/skills/s/SKILL.md", args: &["skills", "list"], succeeds: true },
    Case { pipe: "user/.agents/skills/s/SKILL.md", args: &["skills", "list"], succeeds: true },
    Case {
        pipe: "user/.agents/skills/provost-review/SKILL.md",
        args: &["skills", "install"],
        succeeds: false,
    },
    Case { pipe: "user/.npmrc", args: &["skills", "list"], succeeds: true },
    Case { pipe: "home/known-codex.json", args: &["doctor", "--json"], succeeds: false },
    Case { pipe: "user/.local/bin/codex", args: &["doctor", "--json"], succeeds: false },
    Case {
        pipe: "repo/.git/info/exclude",
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

fn make_pipe(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::remove_file(path).ok();
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR | Mode::XUSR, 0).unwrap();
}

/// A repository with a workflow that reads issues from files, and a program that poses as Codex.
fn stage(home: &Home) -> Repo {
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
fn f2_13_no_command_waits_for_a_pipe() {
    for Case { pipe, args, succeeds } in CASES {
        let home = Home::new();
        let repo = stage(&home);
        home.trust(repo.path());
        let path: PathBuf = match pipe.split_once('/').unwrap() {
            ("repo", rest) => repo.path().join(rest),
            ("home", rest) => home.path().join(rest),
            _ => home.root().join(pipe),
        };
        make_pipe(&path);
        // The harness kills a command that blocks, which fails the test.
        let output = home.provost_in(repo.path(), args);
        if *succeeds {
            assert!(output.code() == Some(0), "{pipe}: {output:?}");
        }
        home.provost(&["ls"]).ok();
    }
}
