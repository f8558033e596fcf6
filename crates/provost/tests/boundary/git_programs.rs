//! Programs that a repository's configuration makes git run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use provost_testkit::harness::{Home, Repo, eventually};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::Value;

/// Number of sessions that race against the exchange. The old code lost within the first few.
const RACES: usize = 6;

/// A home, a repository, and a program that leaves a file behind if it ever runs.
struct Trap {
    home: Home,
    repo: Repo,
}

impl Trap {
    fn new() -> Self {
        let home = Home::new();
        let repo = home.repo("work");
        let trap = Self { home, repo };
        let text = format!("#!/bin/sh\necho \"$0 $*\" >> {}\ncat\n", trap.canary().display());
        program(&trap.evil(), &text);
        trap
    }

    /// The file that only the planted program writes.
    fn canary(&self) -> PathBuf {
        self.home.root().join("canary")
    }

    fn evil(&self) -> PathBuf {
        self.home.root().join("evil")
    }

    fn config(&self) -> PathBuf {
        self.repo.path().join(".git/config")
    }

    /// Appends text to the repository's git configuration, with `EVIL` replaced by the program's path.
    fn arm(&self, text: &str) {
        let armed = fs::read_to_string(self.config()).unwrap() + &self.filled(text);
        fs::write(self.config(), armed).unwrap();
    }

    fn filled(&self, text: &str) -> String {
        text.replace("EVIL", self.evil().to_str().unwrap())
    }

    /// Runs a shell line as an agent in its own worktree and returns the sealed session.
    fn session(&self, line: &str) -> Value {
        let flags = ["spawn", "--json", "--worktree", "--exit0-is-done", "--check", "true"];
        let line = self.filled(line);
        let args = [&flags[..], &["--", "sh", "-ec", &line]].concat();
        let spawned = self.home.provost_in(self.repo.path(), &args);
        let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
        self.home.sealed(&id)
    }

    #[track_caller]
    fn assert_nothing_ran(&self) {
        let ran = fs::read_to_string(self.canary()).unwrap_or_default();
        assert_eq!(ran, "", "git ran a program of the repository");
    }
}

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Swaps two files in a loop until dropped.
struct Exchange {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchange {
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

impl Drop for Exchange {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn f2_8a_exchanged_configuration_runs_no_filter() {
    let trap = Trap::new();
    let other = trap.repo.path().join(".git/config.other");
    let plain = fs::read_to_string(trap.config()).unwrap();
    let armed = plain + &trap.filled("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    fs::write(&other, armed).unwrap();
    let exchange = Exchange::start(trap.config(), other);
    for n in 0..RACES {
        trap.session(&format!("echo '* filter=x' > .gitattributes; echo {n} > file-{n}"));
    }
    drop(exchange);
    trap.assert_nothing_ran();
}

#[test]
fn f2_8b_hooks_of_the_configuration_do_not_run() {
    let trap = Trap::new();
    let mut hooks = String::new();
    for event in ["post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"] {
        hooks += &format!("[hook \"{event}-x\"]\n\tevent = {event}\n\tcommand = EVIL\n");
        program(
            &trap.repo.path().join(".git/hooks").join(event),
            &fs::read_to_string(trap.evil()).unwrap(),
        );
    }
    trap.arm(&hooks);
    let row = trap.session("echo b > b.txt");
    assert_eq!(row["state"], "succeeded", "{row:#}");
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_file_system_monitor_and_hooks_path_do_not_run() {
    let trap = Trap::new();
    let hooks = trap.home.root().join("hooks");
    fs::create_dir(&hooks).unwrap();
    for event in ["post-index-change", "reference-transaction", "post-checkout"] {
        program(&hooks.join(event), &fs::read_to_string(trap.evil()).unwrap());
    }
    let path = hooks.display();
    trap.arm(&format!("[core]\n\tfsmonitor = EVIL\n\thooksPath = {path}\n\tpager = EVIL\n"));
    let row = trap.session("echo b > b.txt");
    assert_eq!(row["state"], "succeeded", "{row:#}");
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_untrusted_filter_is_refused_before_work_starts() {
    let trap = Trap::new();
    trap.repo.write(".gitattributes", "*.bin filter=x\n");
    trap.repo.write("big.bin", "big\n");
    trap.repo.commit("A file that needs a filter");
    trap.arm("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
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
    let trap = Trap::new();
    trap.arm("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    let row = trap.session("echo '*.bin filter=x' > .gitattributes; echo big > big.bin");
    assert_eq!(row["state"], "failed", "{row:#}");
    assert!(row.to_string().contains("filter"), "{row:#}");
    trap.assert_nothing_ran();
}

#[test]
fn f2_8_trusted_filter_runs_from_the_users_configuration_alone() {
    let trap = Trap::new();
    let cipher = trap.home.root().join("cipher");
    program(&cipher, "#!/bin/sh\nexec tr a-z A-Z\n");
    let user = trap.home.root().join("user/.gitconfig");
    let text = format!(
        "[filter \"x\"]\n\tclean = {}\n\tsmudge = cat\n\trequired = true\n",
        cipher.display()
    );
    fs::write(&user, fs::read_to_string(&user).unwrap() + &text).unwrap();
    trap.home.configure("[git]\nfilters = [\"x\"]\n");
    trap.arm("[filter \"x\"]\n\tclean = EVIL\n\tsmudge = EVIL\n");
    let row = trap.session("echo '*.bin filter=x' > .gitattributes; echo big > big.bin");
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let commit = row["commit"].as_str().unwrap();
    assert_eq!(trap.repo.git(&["cat-file", "blob", &format!("{commit}:big.bin")]), "BIG");
    trap.assert_nothing_ran();
}

/// A fake `gh` that logs the remote URL git reports and returns no issues.
const GH: &str = "#!/bin/sh
cd \"$PROJECT\" || exit 1
git config --get remote.origin.url >> SEEN
echo '[]'
";

#[test]
fn f2_20_issues_are_read_from_the_remote_of_the_start() {
    let mut home = Home::new();
    let repo = home.repo("work");
    let (first, second) = ("https://example.invalid/mine.git", "https://example.invalid/evil.git");
    repo.git(&["remote", "add", "origin", first]);
    let seen = home.root().join("seen");
    let text = GH.replace("SEEN", seen.to_str().unwrap());
    let programs = home.root().join("programs");
    program(&programs.join("gh"), &text.replace("$PROJECT", repo.path().to_str().unwrap()));
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
fn reftable_repository_takes_a_worktree_session_with_a_check() {
    let home = Home::new();
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
    let trap = Trap { home, repo };
    let flags = ["spawn", "--json", "--worktree", "--exit0-is-done", "--check", "test -e made"];
    let args = [&flags[..], &["--", "sh", "-ec", "echo made > made"]].concat();
    let spawned = trap.home.provost_in(trap.repo.path(), &args);
    let id = spawned.ok().json()["id"].as_str().unwrap().to_owned();
    let row = trap.home.sealed(&id);
    assert_eq!(row["state"], "succeeded", "{row:#}");
    let branches = trap.repo.git(&["branch", "--list", "provost/*"]);
    assert!(!branches.is_empty(), "the session has a branch: {row:#}");
    trap.repo.git(&["fsck", "--strict"]);
}
