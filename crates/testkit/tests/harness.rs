//! The harness, with shell scripts as fakes of `provost`.

use std::fs;
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use provost_testkit::{TestHome, eventually, leftovers_under};
use serde_json::json;
use tempfile::TempDir;

use crate::agent_env::{script_at, status_of, wait_gone};

/// Answers like a daemon whose process is a `sleep`, and records its calls.
const STAND_IN: &str = r#"
dir=$(dirname "$0")
echo "$*" >> "$dir/asked"
alive() { pid=$(cat "$dir/$1" 2>/dev/null) && grep -q '^State:.[^ZX]' "/proc/$pid/status" 2>/dev/null; }
case "$*" in
  "start "*) sleep 300 >/dev/null 2>&1 </dev/null & echo $! > "$dir/$2" ;;
  "daemon status --json") alive daemon || exit 6; echo "{\"ok\":true,\"pid\":$(cat "$dir/daemon")}" ;;
  "daemon stop") kill "$(cat "$dir/daemon")" ;;
  "ls --all --json") if alive s1; then process=alive; else process=exit0; fi
    echo "{\"ok\":true,\"sessions\":[{\"id\":\"s1\",\"process\":\"$process\"},{\"id\":\"s2\",\"process\":\"exit0\"}]}" ;;
  "stop "*) kill "$(cat "$dir/$2")" ;;
  "status s1 --json") if alive s1; then state=working; else state=completed; fi; echo "{\"ok\":true,\"state\":\"$state\"}" ;;
  "env") env ;;
  "follow") echo one; echo two; exec sleep 300 ;;
  *) echo "unknown: $*" >&2; exit 2 ;;
esac
"#;

/// Creates a fake in its own directory, outside every home.
fn stand_in() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary directory can be made");
    let program = script_at(&dir.path().join("provost"), STAND_IN);
    (dir, program)
}

/// Creates a home whose end waits only briefly for processes to exit.
fn impatient_home() -> TestHome {
    let mut home = TestHome::with_provost("/bin/false".into());
    home.set_end_wait(Duration::from_millis(100));
    home
}

fn sleeper(set_up: impl FnOnce(&mut Command) -> &mut Command) -> Child {
    let mut command = Command::new("sleep");
    set_up(command.arg("300").stdin(Stdio::null())).spawn().expect("sleep can be started")
}

/// Returns the error at the end of a home, or an empty text.
fn complaint(home: TestHome) -> String {
    match catch_unwind(AssertUnwindSafe(|| drop(home))) {
        Ok(()) => String::new(),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_default(),
    }
}

#[test]
fn programs_run_with_a_known_environment_only() {
    let (_dir, program) = stand_in();
    let mut home = TestHome::with_provost(program);
    home.set_env("EXTRA", "1");
    let output = home.provost(&["env"]);
    let mut names: Vec<&str> =
        output.ok().stdout.lines().filter_map(|line| line.split('=').next()).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name));
    names.sort_unstable();
    let expected = [
        "EXTRA",
        "GIT_CONFIG_NOSYSTEM",
        "HOME",
        "LANG",
        "PATH",
        "PROVOST_BIN",
        "PROVOST_HOME",
        "PROVOST_SESSION_SETTLE",
        "TMPDIR",
        "TMUX_TMPDIR",
        "TZ",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ];
    assert_eq!(names, expected);
    assert!(output.stdout.contains(&format!("PROVOST_HOME={}\n", home.path().display())));
}

#[test]
fn home_is_private_short_and_removed() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TestHome::new();
    let (root, path) = (home.root().to_owned(), home.path());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(path.file_name().is_some_and(|name| name.len() <= 8), "{path:?}");
    drop(home);
    assert!(!root.exists());
}

#[test]
fn daemon_status_kill_and_stop_work() {
    let (_dir, program) = stand_in();
    let home = TestHome::with_provost(program);
    assert_eq!(home.daemon().pid(), None);
    home.provost(&["start", "daemon"]).ok();
    let pid = home.daemon().pid().unwrap();
    assert_eq!(home.daemon().kill(), pid);
    assert_eq!((home.daemon().pid(), status_of(pid, "Pid")), (None, None));
    home.provost(&["start", "daemon"]).ok();
    home.daemon().stop();
    assert_eq!(home.daemon().status(), None);
}

#[test]
fn foreign_pid_is_never_killed() {
    let mut stranger = sleeper(|command| command);
    let dir = tempfile::tempdir().unwrap();
    let liar = format!("echo '{{\"pid\":{}}}'", stranger.id());
    let home = TestHome::with_provost(script_at(&dir.path().join("provost"), &liar));
    let killed = catch_unwind(AssertUnwindSafe(|| home.daemon().kill()));
    assert!(killed.is_err());
    assert!(stranger.try_wait().unwrap().is_none(), "the unrelated process was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn wait_state_waits_for_an_accepted_status() {
    let (_dir, program) = stand_in();
    let home = TestHome::with_provost(program);
    home.provost(&["start", "s1"]).ok();
    assert_eq!(home.wait_state("s1", |row| row["state"] == "working")["ok"], json!(true));
    home.provost(&["stop", "s1"]).ok();
    assert_eq!(home.wait_state("s1", |row| row["state"] != "working")["state"], "completed");
}

#[test]
fn follower_returns_lines_and_dies_with_handle() {
    let (_dir, program) = stand_in();
    let home = TestHome::with_provost(program);
    let follower = home.follow(&["follow"]);
    assert_eq!(follower.wait_line("two", |line| (line == "two").then(|| line.to_owned())), "two");
    let pid = follower.pid();
    drop(follower);
    assert_eq!(status_of(pid, "Pid"), None);
}

#[test]
fn home_drop_stops_sessions_then_daemon() {
    let (dir, program) = stand_in();
    let home = TestHome::with_provost(program);
    home.provost(&["start", "s1"]).ok();
    home.provost(&["start", "daemon"]).ok();
    drop(home);
    let asked = fs::read_to_string(dir.path().join("asked")).unwrap();
    // The daemon is stopped only when it lists no living session, which may take several polls.
    let rest = asked.strip_prefix("start s1\nstart daemon\nls --all --json\nstop s1\n");
    let looks = rest.and_then(|rest| rest.strip_suffix("daemon stop\n"));
    let looks: Vec<&str> = looks.expect("it stops sessions, then the daemon").lines().collect();
    assert!(!looks.is_empty() && looks.iter().all(|look| *look == "ls --all --json"), "{asked}");
}

#[test]
fn leftover_processes_are_found_and_killed() {
    let home = impatient_home();
    fs::create_dir_all(home.path().join("launches/l1")).unwrap();
    fs::write(
        home.path().join("launches/l1/held.json"),
        r#"{"version":1,"key":"launch-of-testkit-harness"}"#,
    )
    .unwrap();
    let mut marked = [
        sleeper(|command| command.env("PROVOST_HOME", home.path())),
        sleeper(|command| command.env("PROVOST_LAUNCH", "launch-of-testkit-harness")),
        sleeper(|command| {
            command.current_dir(home.path()).env_clear().env("PATH", "/usr/bin:/bin")
        }),
    ];
    let mut stranger = sleeper(|command| command.env("PROVOST_LAUNCH", "of-another-home"));
    let complaint = complaint(home);
    for child in &mut marked {
        assert!(
            complaint.contains(&format!("process left running: {} sleep 300", child.id())),
            "{complaint}"
        );
        wait_gone(child.id());
        child.wait().unwrap();
    }
    assert!(stranger.try_wait().unwrap().is_none(), "an unrelated process was killed");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn unchecked_home_kills_silently() {
    let mut home = impatient_home();
    home.leave_unchecked();
    let mut child = sleeper(|command| command.env("PROVOST_HOME", home.path()));
    assert_eq!(complaint(home), "");
    assert!(!child.wait().unwrap().success());
}

#[test]
fn only_listening_sockets_are_leftovers() {
    let home = impatient_home();
    let deep = home.path().join("x".repeat(120));
    fs::create_dir_all(&deep).unwrap();
    let listener = bind(&deep, "io.sock");
    let line = format!("socket that accepts: {}", deep.join("io.sock").display());
    assert_eq!(home.leftovers(), [line]);
    drop(listener);
    assert_eq!(home.leftovers(), [] as [&str; 0], "a stale socket is only a file");
}

#[test]
fn panic_in_log_is_reported() {
    let home = impatient_home();
    fs::create_dir(home.path().join("log")).unwrap();
    fs::write(
        home.path().join("log/daemon.log"),
        "fine\nthread 'main' panicked at src/x.rs:1:2:\nmore\n",
    )
    .unwrap();
    assert!(complaint(home).contains("daemon.log: thread 'main' panicked at src/x.rs:1:2:"));
}

#[test]
fn missing_and_outside_worktrees_are_reported() {
    let mut home = impatient_home();
    home.leave_unchecked();
    let (repo, elsewhere) = (home.repo("sample"), tempfile::tempdir().unwrap());
    let add = |path: &Path| {
        repo.git(&["worktree", "add", "--quiet", "--detach", &path.display().to_string()])
    };
    add(&home.path().join("worktrees/kept"));
    assert_eq!(home.leftovers(), [] as [&str; 0]);
    add(&home.path().join("worktrees/gone"));
    fs::remove_dir_all(home.path().join("worktrees/gone")).unwrap();
    add(&elsewhere.path().join("away"));
    let found = home.leftovers().join("\n");
    assert!(
        found.contains("worktrees/gone") && found.contains("/away") && !found.contains("kept"),
        "{found}"
    );
    assert_eq!(repo.worktrees().len(), 3);
}

#[test]
fn processes_of_removed_homes_are_reported() {
    let test_root = tempfile::tempdir().unwrap();
    assert_eq!(leftovers_under(test_root.path()), [] as [&str; 0]);
    fs::create_dir_all(test_root.path().join("pv-abc/home")).unwrap();
    let mut child =
        sleeper(|command| command.env("PROVOST_HOME", test_root.path().join("pv-gone/home")));
    let found = eventually("both findings", || {
        Some(leftovers_under(test_root.path())).filter(|found| found.len() == 2)
    });
    assert!(
        found[0].starts_with("home left behind: ") && found[0].ends_with("pv-abc"),
        "{found:?}"
    );
    assert!(found[1].starts_with(&format!("process left running: {} ", child.id())), "{found:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(leftovers_under(&test_root.path().join("absent")), [] as [&str; 0]);
}

/// Binds a socket whose path may be too long for a socket address.
fn bind(dir: &Path, name: &str) -> UnixListener {
    use std::os::fd::AsRawFd as _;
    let dir = fs::File::open(dir).expect("the directory can be opened");
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
        .expect("the socket can be bound")
}
