//! Programs that a repository's configuration makes git run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use provost_testkit::harness::{TestHome, TestRepo, eventually};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

/// The number of sessions that race against the file swaps. Without the fix, one of the first few
/// lost.
const RACES: usize = 6;

/// A home, a repository, and a program that leaves a file behind if it ever runs.
struct GitTrap {
    home: TestHome,
    repo: TestRepo,
}

impl GitTrap {
    fn new() -> Self {
        let home = TestHome::new();
        let repo = home.repo("work");
        let trap = Self { home, repo };
        let text = format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", trap.canary().display());
        write_executable(&trap.planted_program(), &text);
        trap
    }

    /// The file that only the planted program writes.
    fn canary(&self) -> PathBuf {
        self.home.root().join("canary")
    }

    fn planted_program(&self) -> PathBuf {
        self.home.root().join("evil")
    }

    fn config_path(&self) -> PathBuf {
        self.repo.path().join(".git/config")
    }

    /// Appends text to the repository's git configuration, with `EVIL` replaced by the program's path.
    fn append_config(&self, text: &str) {
        let armed = fs::read_to_string(self.config_path()).unwrap() + &self.fill_template(text);
        fs::write(self.config_path(), armed).unwrap();
    }

    fn fill_template(&self, text: &str) -> String {
        text.replace("EVIL", self.planted_program().to_str().unwrap())
    }

    /// Runs a shell line as an agent in its own worktree and returns the sealed session.
    fn run_session(&self, line: &str) -> Value {
        let flags = ["spawn", "--json", "--worktree", "--exit-zero-completes", "--check", "true"];
        let line = self.fill_template(line);
        let args = [&flags[..], &["--", "sh", "-ec", &line]].concat();
        let spawned = self.home.provost_in(self.repo.path(), &args);
        let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
        self.home.wait_sealed(&id)
    }

    #[track_caller]
    fn assert_nothing_ran(&self) {
        let ran = fs::read_to_string(self.canary()).unwrap_or_default();
        assert_eq!(ran, "", "git ran a program of the repository");
    }
}

fn write_executable(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Swaps two files in a loop until dropped.
struct FileSwapper {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FileSwapper {
    fn start(one: PathBuf, other: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                #[expect(clippy::disallowed_methods, reason = "sets the pace of the attack")]
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for FileSwapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn f2_8a_swapped_config_runs_no_filter() {
    let trap = GitTrap::new();
    let other = trap.repo.path().join(".git/config.other");
    let plain = fs::read_to_string(trap.config_path()).unwrap();
    let armed = plain + &trap.fill_template("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    fs::write(&other, armed).unwrap();
    let exchange = FileSwapper::start(trap.config_path(), other);
    for n in 0..RACES {
        trap.run_session(&format!("echo '* filter=x' > .gitattributes; echo {n} > file-{n}"));
    }
    drop(exchange);
    trap.assert_nothing_ran();
}

#[test]
fn f2_8b_configured_hooks_do_not_run() {
    let trap = GitTrap::new();
    let mut hooks = String::new();
    for event in ["post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"] {
        hooks += &format!("[hook \"{event}-x\"]\n\tevent = {event}\n\tcommand = EVIL\n");
        write_executable(
            &trap.repo.path().join(".git/hooks").join(event),
            &fs::read_to_string(trap.planted_program()).unwrap(),
        );
    }
    trap.append_config(&hooks);
    let row = trap.run_session("echo b > b.txt");
    assert_eq!(row["state"], "succeeded", "{row:#}");
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_fsmonitor_and_hooks_path_do_not_run() {
    let trap = GitTrap::new();
    let hooks = trap.home.root().join("hooks");
    fs::create_dir(&hooks).unwrap();
    for event in ["post-index-change", "reference-transaction", "post-checkout"] {
        write_executable(&hooks.join(event), &fs::read_to_string(trap.planted_program()).unwrap());
    }
    let path = hooks.display();
    trap.append_config(&format!(
        "[core]\n\tfsmonitor = EVIL\n\thooksPath = {path}\n\tpager = EVIL\n"
    ));
    let row = trap.run_session("echo b > b.txt");
    assert_eq!(row["state"], "succeeded", "{row:#}");
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_untrusted_filter_is_refused_before_start() {
    let trap = GitTrap::new();
    trap.repo.write(".gitattributes", "*.bin filter=x\n");
    trap.repo.write("big.bin", "big\n");
    trap.repo.commit("A file that needs a filter");
    trap.append_config("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    let args = ["spawn", "--worktree", "--", "true"];
    let refused = trap.home.provost_in(trap.repo.path(), &args);
    assert_ne!(refused.code(), Some(0), "{}", refused.stdout);
    for part in ["filter", "\"x\"", "big.bin", "git.filters"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_untrusted_filter_is_refused_at_staging() {
    let trap = GitTrap::new();
    trap.append_config("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    let row = trap.run_session("echo '*.bin filter=x' > .gitattributes; echo big > big.bin");
    assert_eq!(row["state"], "failed", "{row:#}");
    assert!(row.to_string().contains("filter"), "{row:#}");
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_trusted_filter_comes_from_user_config_only() {
    let trap = GitTrap::new();
    let cipher = trap.home.root().join("cipher");
    write_executable(&cipher, "#!/bin/sh\nexec tr a-z A-Z\n");
    let user = trap.home.root().join("user/.gitconfig");
    let text = format!(
        "[filter \"x\"]\n\tclean = {}\n\tsmudge = cat\n\trequired = true\n",
        cipher.display()
    );
    fs::write(&user, fs::read_to_string(&user).unwrap() + &text).unwrap();
    trap.home.configure("[git]\nfilters = [\"x\"]\n");
    trap.append_config("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    let row = trap.run_session("echo '*.bin filter=x' > .gitattributes; echo big > big.bin");
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(trap.repo.git(&["cat-file", "blob", &format!("{commit}:big.bin")]), "BIG");
    trap.assert_nothing_ran();
}

/// A fake `gh` that logs the remote URL git reports and returns no issues.
const FAKE_GH: &str = "#!/bin/sh
cd \"$PROJECT\" || exit 1
git config --get remote.origin.url >> SEEN
echo '[]'
";

#[test]
fn f2_20_issues_come_from_the_startup_remote() {
    let mut home = TestHome::new();
    let repo = home.repo("work");
    let (first, second) = ("https://example.invalid/mine.git", "https://example.invalid/evil.git");
    repo.git(&["remote", "add", "origin", first]);
    let seen = home.root().join("seen");
    let text = FAKE_GH.replace("SEEN", seen.to_str().unwrap());
    let programs = home.root().join("programs");
    write_executable(
        &programs.join("gh"),
        &text.replace("$PROJECT", repo.path().to_str().unwrap()),
    );
    #[expect(clippy::disallowed_methods, reason = "extends the search path of the test")]
    let path = std::env::var("PATH").unwrap();
    home.set_env("PATH", format!("{}:{path}", programs.display()));
    let front = "tracker: {kind: github}\npolling: {interval_ms: 100}\nprovost: {agent: none}\n";
    repo.write("WORKFLOW.md", &format!("---\n{front}---\nDo it.\n"));
    let mut serving = home.command(&["serve"]);
    let mut serving = serving.current_dir(repo.path()).spawn().unwrap();
    let lines = || fs::read_to_string(&seen).unwrap_or_default().lines().count();
    eventually("gh is called", || (lines() > 0).then_some(()));
    repo.git(&["remote", "set-url", "origin", second]);
    let before = lines();
    eventually("gh is called again", || (lines() > before + 2).then_some(()));
    serving.kill().unwrap();
    serving.wait().unwrap();
    let all = fs::read_to_string(&seen).unwrap();
    assert!(all.lines().all(|url| url == first), "{all}");
}

/// Git supports the reftable format since 2.45.
#[test]
fn reftable_repo_supports_worktree_and_check() {
    let home = TestHome::new();
    let repo = home.repo("work");
    let version = repo.git(&["version"]);
    let numbers = version.rsplit(' ').next().unwrap_or_default().split('.');
    let numbers: Vec<u32> = numbers.map_while(|number| number.parse().ok()).collect();
    if numbers.as_slice() < &[2, 45] {
        return;
    }
    fs::remove_dir_all(repo.path().join(".git")).unwrap();
    repo.git(&["init", "--quiet", "--initial-branch=main", "--ref-format=reftable"]);
    repo.git(&["config", "user.name", "Sample Person"]);
    repo.git(&["config", "user.email", "person@example.invalid"]);
    repo.commit("Initial commit");
    assert!(repo.path().join(".git/reftable").is_dir());
    let trap = GitTrap { home, repo };
    let flags =
        ["spawn", "--json", "--worktree", "--exit-zero-completes", "--check", "test -e made"];
    let args = [&flags[..], &["--", "sh", "-ec", "echo made > made"]].concat();
    let spawned = trap.home.provost_in(trap.repo.path(), &args);
    let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
    let row = trap.home.wait_sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let branches = trap.repo.git(&["branch", "--list", "provost/*"]);
    assert!(!branches.is_empty(), "the session has a branch: {row:#}");
    trap.repo.git(&["fsck", "--strict"]);
}
