//! Shortages: without threads, descriptors, disk space or inodes, Provost waits and reports the
//! shortage. It loses no work and fails no session.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use provost_testkit::harness::string_value;
use provost_testkit::{ProgramOutput, TestHome, eventually, eventually_within, provost_bin};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::full_disk::SmallDisk;

#[test]
fn f8_v1_follower_that_panics_is_restarted() {
    let mut home = TestHome::with_short_windows();
    home.set_env("PROVOST_FAILPOINT_UNWIND", "follow:2");
    let id = home.spawn(&["--exit-zero-completes", "--", "true"]);
    let row = home.wait_sealed(&id);
    assert_eq!((&row["state"], &row["process"]), (&"completed".into(), &"exit0".into()), "{row}");
}

#[test]
fn f8_v1_thread_shortage_ends_no_session() {
    let Some(mut limited) = LimitedDaemon::new("--nproc=48:48") else { return };
    let ids = limited.spawn_all(18, &["sleep", "600"]);
    eventually("launches wait for threads", || limited.check_waiting("threads"));
    limited.restart();
    let listed = limited.provost(&["ls", "--all", "--json"]);
    assert_eq!(session_rows(&listed.ok().json()).len(), ids.len());
    limited.end_all_agents(&ids);
    limited.assert_no_launch_failed(&ids);
}

#[test]
fn f8_v2_short_disk_does_not_refute_work() {
    let disk = SmallDisk::with_options("size=64m");
    let repo = disk.home.repo("work");
    fs::write(repo.path().join("big"), vec![b'x'; 8 << 20]).expect("the file can be written");
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "a big file"]);
    let go = disk.home.root().join("go");
    let id = spawn_waiting(&disk, repo.path(), &go, "echo more > more");
    let ballast = disk.fill(3 << 20);
    fs::write(&go, "").expect("the file can be written");
    let row = wait_shortage(&disk, &id, "disk_space");
    assert_eq!((&row["state"], &row["sealed"]), (&"verifying".into(), &false.into()), "{row}");
    // The partial checkout is removed, so that it does not use the remaining space.
    eventually("the partial checkout is gone", || {
        (disk.free_blocks() * 4096 > 2 << 20).then_some(())
    });
    fs::remove_file(ballast).expect("room can be made");
    let row = wait_ended(&disk, &id);
    assert_eq!(row["state"], "succeeded", "{row}");
    assert_eq!(row["checks"][0]["result"], "passed", "{row}");
}

#[test]
fn f8_v2_no_inodes_do_not_refute_work() {
    let disk = SmallDisk::with_options("size=64m,nr_inodes=900");
    let repo = disk.home.repo("work");
    for no in 0..300 {
        let dir = repo.path().join(format!("d{no}"));
        fs::create_dir(&dir).expect("a directory can be made");
        fs::write(dir.join("file"), "x").expect("the file can be written");
    }
    repo.git(&["add", "."]);
    repo.git(&["commit", "-qm", "many files"]);
    let go = disk.home.root().join("go");
    let id = spawn_waiting(&disk, repo.path(), &go, "echo more > more");
    let ballast = disk.fill_inodes(60);
    fs::write(&go, "").expect("the file can be written");
    let row = eventually("the check waits", || {
        let row = disk.row(&id);
        if row["shortage"].is_object() { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!((&row["state"], &row["sealed"]), (&"verifying".into(), &false.into()), "{row}");
    fs::remove_dir_all(ballast).expect("room can be made");
    assert_eq!(wait_ended(&disk, &id)["state"], "succeeded");
}

#[test]
fn f8_v4_launch_waits_for_disk_space() {
    let disk = SmallDisk::with_options("size=56m");
    let ballast = disk.fill(6 << 20);
    let id = disk.provost(&["spawn", "--json", "--", "true"]).ok().id();
    let row = wait_shortage(&disk, &id, "disk_space");
    assert!(string_value(&row["reason"]).contains("MiB"), "{row}");
    assert_eq!(row["sealed"], false, "{row}");
    fs::remove_file(ballast).expect("room can be made");
    let row = wait_ended(&disk, &id);
    assert_eq!(row["exit"]["code"], 0, "{row}");
}

#[test]
fn shortage_of_an_earlier_daemon_is_not_shown() {
    let disk = SmallDisk::with_options("size=56m");
    let ballast = disk.fill(6 << 20);
    let id = disk.provost(&["spawn", "--json", "--", "true"]).ok().id();
    // The next retry is seconds away.
    eventually("it was retried", || {
        let row = disk.row(&id);
        if row["shortage"]["tries"].as_u64() >= Some(3) { Ok(()) } else { Err(row.to_string()) }
    });
    disk.provost(&["daemon", "stop"]).ok();
    fs::remove_file(ballast).expect("room can be made");
    let list = disk.provost(&["ls", "--all", "--json"]).ok().json();
    assert_eq!(list["shortages"], serde_json::json!([]), "{list}");
    let row = &session_rows(&list)[0];
    assert!(row["shortage"].is_null(), "{list}");
    assert!(!row["flags"].to_string().contains("shortage"), "{list}");
    assert!(!disk.provost(&["ls"]).ok().stdout.contains("disk space"));
    assert_eq!(wait_ended(&disk, &id)["exit"]["code"], 0);
}

#[test]
fn f8_v4_launch_waits_for_inodes() {
    let disk = SmallDisk::with_options("size=64m,nr_inodes=400");
    // The daemon creates its own files before the disk is filled.
    disk.provost(&["ls"]).ok();
    let ballast = disk.fill_inodes(2);
    let id = disk.provost(&["spawn", "--json", "--", "true"]).ok().id();
    let row = eventually("the launch waits", || {
        let row = disk.row(&id);
        if row["shortage"].is_object() { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!(row["sealed"], false, "{row}");
    fs::remove_dir_all(ballast).expect("room can be made");
    assert_eq!(wait_ended(&disk, &id)["exit"]["code"], 0);
}

#[test]
fn f8_v4_waiting_launch_can_be_cancelled() {
    let disk = SmallDisk::with_options("size=56m");
    disk.fill(6 << 20);
    let id = disk.provost(&["spawn", "--json", "--", "true"]).ok().id();
    wait_shortage(&disk, &id, "disk_space");
    disk.provost(&["cancel", &id]).ok();
    assert_eq!(wait_ended(&disk, &id)["state"], "cancelled");
}

#[test]
fn f8_v4_launches_wait_for_descriptors() {
    let Some(mut limited) = LimitedDaemon::new("--nofile=100:100") else { return };
    let ids = limited.spawn_all(20, &["sleep", "600"]);
    eventually("launches wait for descriptors", || limited.check_waiting("descriptors"));
    limited.end_all_agents(&ids);
    limited.assert_no_launch_failed(&ids);
}

#[test]
fn f8_v4_missing_launches_directory_is_recreated() {
    let home = TestHome::with_short_windows();
    home.provost(&["ls"]).ok();
    fs::remove_dir(home.path().join("launches")).expect("it is empty");
    let id = home.spawn(&["--", "true"]);
    assert_eq!(home.wait_sealed(&id)["exit"]["code"], 0);
}

#[test]
fn f8_v4_launch_waits_for_writable_directory() {
    let Some(limited) = LimitedDaemon::new("--nofile=1024:1024") else { return };
    let launches = limited.home.path().join("launches");
    let mode = |mode| fs::set_permissions(&launches, fs::Permissions::from_mode(mode));
    mode(0o500).expect("the directory is there");
    let id = limited.spawn(&["true"]);
    let row = eventually("the launch waits", || {
        let row = limited.row(&id);
        let waits = row["shortage"]["resource"] == "directory";
        if waits { Ok(row) } else { Err(row.to_string()) }
    });
    assert!(string_value(&row["reason"]).contains("launches"), "{row}");
    mode(0o700).expect("the directory is there");
    let row = limited.wait_ended(&id);
    assert_eq!(row["exit"]["code"], 0, "{row}");
}

#[test]
fn f8_v6_commands_answer_at_the_descriptor_limit() {
    let Some(mut limited) = LimitedDaemon::new("--nofile=128:128") else { return };
    let ids = limited.spawn_all(30, &["sleep", "600"]);
    eventually("launches wait for descriptors", || limited.check_waiting("descriptors"));
    let socket = limited.home.path().join("daemon.sock");
    let half_open: Vec<UnixStream> = (0..250)
        .filter_map(|_| {
            let mut stream = UnixStream::connect(&socket).ok()?;
            // The write fails if the connection is already closed.
            stream.write_all(b"GET /v1/daemon HTTP/1.1\r\nhost:").ok()?;
            Some(stream)
        })
        .collect();
    for _ in 0..3 {
        limited.provost(&["ls"]).ok();
        let listed = limited.provost(&["ls", "--all", "--json"]).ok().json();
        assert_eq!(session_rows(&listed).len(), ids.len());
        limited.provost(&["daemon", "status"]).ok();
    }
    drop(half_open);
    limited.provost(&["ls"]).ok();
    limited.end_all_agents(&ids);
    limited.assert_no_launch_failed(&ids);
}

#[test]
fn f8_v7_full_disk_is_shown_and_dead_process_too() {
    let disk = SmallDisk::with_options("size=56m");
    let spawned = disk.provost(&["spawn", "--json", "--", "sleep", "600"]);
    let id = spawned.ok().id();
    let row = eventually("it runs", || {
        Some(disk.row(&id)).filter(|row| row["launches"][0]["pid"].is_number())
    });
    let ballast = disk.fill(0);
    for command in [&["ls"][..], &["status"], &["daemon", "status"]] {
        let shown = disk.provost(command);
        assert!(shown.ok().stdout.contains("short of disk space"), "{shown:#?}");
        let json = disk.provost(&[command, &["--json"]].concat()).ok().json();
        assert_eq!(json["shortages"][0]["resource"], "disk_space", "{json}");
    }
    kill_agent(&row["launches"][0]["pid"]);
    let row = eventually("the process is not shown as alive", || {
        let row = disk.row(&id);
        if row["process"] == "alive" { Err(row.to_string()) } else { Ok(row) }
    });
    assert_eq!(row["sealed"], false, "{row}");
    for args in [&["ls", "--json"][..], &["ls", "--all", "--json"]] {
        let listed = disk.provost(args).ok().json();
        assert_ne!(session_rows(&listed)[0]["process"], "alive", "{listed}");
    }
    let listed = disk.provost(&["ls"]);
    assert!(listed.ok().stdout.contains("ended, not recorded yet"), "{listed:#?}");
    let why = disk.provost(&["status", &id, "--why"]);
    let sentence = why.ok().stdout.lines().next().unwrap_or_default().to_owned();
    assert!(sentence.contains("the process has ended"), "{why:#?}");
    assert!(!why.stdout.contains("heard within the window"), "{why:#?}");
    assert!(why.stdout.contains("disk space"), "{why:#?}");
    let status = disk.provost(&["daemon", "status", "--json"]).ok().json();
    assert_eq!(status["running_agents"], 0, "{status}");
    fs::remove_file(ballast).expect("room can be made");
    let row = eventually("the session is over", || {
        let row = disk.row(&id);
        assert_ne!(row["process"], "alive", "{row}");
        if row["sealed"] == true { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!((&row["state"], &row["cause"]), (&"failed".into(), &"crash".into()), "{row}");
    let shown = disk.provost(&["daemon", "status", "--json"]).ok().json();
    assert_eq!(shown["shortages"], serde_json::json!([]), "{shown}");
}

#[test]
fn f8_v7_report_without_room_still_counts() {
    let disk = SmallDisk::with_options("size=56m");
    let (go, reported) = (disk.home.root().join("go"), disk.home.root().join("reported"));
    let script = format!(
        "until [ -e {} ]; do sleep 0.05; done; \"$PROVOST_BIN\" report completed -m done; echo $? > {}",
        go.display(),
        reported.display()
    );
    let spawned = disk.provost(&["spawn", "--json", "--", "sh", "-c", &script]);
    let id = spawned.ok().id();
    eventually("it runs", || {
        Some(disk.row(&id)).filter(|row| row["launches"][0]["pid"].is_number())
    });
    let ballast = disk.fill(0);
    eventually("nothing can be written", || {
        (disk.provost(&["spawn", "--json", "--", "true"]).code() == Some(6)).then_some(())
    });
    fs::write(&go, "").expect("the file can be written");
    eventually("the agent has reported", || {
        fs::read_to_string(&reported).ok().filter(|code| code.ends_with('\n'))
    });
    fs::remove_file(ballast).expect("room can be made");
    let row = wait_ended(&disk, &id);
    assert_eq!((&row["state"], &row["claim_text"]), (&"completed".into(), &"done".into()), "{row}");
}

/// Spawns an agent with a check, which works in a repository once `go` exists.
#[track_caller]
fn spawn_waiting(disk: &SmallDisk, repo: &Path, go: &Path, work: &str) -> String {
    let script = format!("until [ -e {} ]; do sleep 0.05; done; {work}", go.display());
    let args =
        ["spawn", "--json", "--exit-zero-completes", "--check", "true", "--", "sh", "-c", &script];
    let id = disk.provost_in(repo, &args).ok().id();
    eventually("it runs", || {
        Some(disk.row(&id)).filter(|row| row["launches"][0]["pid"].is_number())
    });
    id
}

/// Waits until a launch or check of a session waits for a resource.
#[track_caller]
fn wait_shortage(disk: &SmallDisk, id: &str, resource: &str) -> Value {
    eventually(&format!("it waits for {resource}"), || {
        let row = disk.row(id);
        if row["shortage"]["resource"] == resource { Ok(row) } else { Err(row.to_string()) }
    })
}

#[track_caller]
fn wait_ended(disk: &SmallDisk, id: &str) -> Value {
    eventually("the session is over", || {
        let row = disk.row(id);
        if row["sealed"] == true { Ok(row) } else { Err(row.to_string()) }
    })
}

fn session_rows(listed: &Value) -> &[Value] {
    listed["sessions"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn kill_agent(pid: &Value) {
    let pid = pid.as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    // Killing fails if the process has just ended, which is fine.
    kill_process(pid.expect("a pid"), Signal::KILL).ok();
}

/// A home of a separate user, whose daemon has a limit. Limits do not apply to root, and only root can create such a
/// home.
struct LimitedDaemon {
    home: TestHome,
    limit: &'static str,
    uid: u32,
    daemon: Child,
    /// The directory of the copied program, removed after the home.
    _program: TempDir,
}

/// Copies the program to a directory where other users can run it. They may have no access to the
/// original directory.
fn copy_program() -> TempDir {
    let dir = tempfile::Builder::new().prefix("provost-program-").tempdir().expect("a directory");
    let everyone = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path(), everyone).expect("the directory can be opened");
    fs::copy(provost_bin(), dir.path().join("provost")).expect("the program can be copied");
    dir
}

impl LimitedDaemon {
    fn new(limit: &'static str) -> Option<LimitedDaemon> {
        if !geteuid().is_root() {
            return None;
        }
        let program = copy_program();
        let mut home = TestHome::with_provost(program.path().join("provost"));
        home.set_short_windows();
        // The user id is unique to this test, so no other process counts towards its limits.
        let uid = 3_000_000 + std::process::id();
        let mut chown = Command::new("chown");
        chown.arg("-R").arg(format!("{uid}:{uid}")).arg(home.root());
        assert!(chown.status().expect("chown can be run").success());
        let daemon = start_daemon(&home, uid, limit);
        Some(LimitedDaemon { home, limit, uid, daemon, _program: program })
    }

    /// Kills the daemon and starts another with the same limit.
    fn restart(&mut self) {
        self.daemon.kill().expect("the daemon can be killed");
        self.daemon.wait().expect("the daemon ends");
        self.daemon = start_daemon(&self.home, self.uid, self.limit);
    }

    #[track_caller]
    fn provost(&self, args: &[&str]) -> ProgramOutput {
        let provost = self.home.command(args);
        let mut command = Command::new("timeout");
        command.arg("60").arg(provost.get_program()).args(args).current_dir(self.home.root());
        command.env_clear();
        command.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.uid(self.uid).gid(self.uid).stdin(Stdio::null());
        let ran = command.output().expect("the program can be run");
        ProgramOutput {
            command: format!("{command:?}"),
            status: ran.status,
            stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
            raw_stdout: ran.stdout,
        }
    }

    #[track_caller]
    fn spawn(&self, argv: &[&str]) -> String {
        let spawned = self.provost(&[&["spawn", "--json", "--"], argv].concat());
        spawned.ok().id()
    }

    #[track_caller]
    fn spawn_all(&self, count: usize, argv: &[&str]) -> Vec<String> {
        (0..count).map(|_| self.spawn(argv)).collect()
    }

    #[track_caller]
    fn row(&self, id: &str) -> Value {
        self.provost(&["status", id, "--json"]).ok().json()
    }

    #[track_caller]
    fn wait_ended(&self, id: &str) -> Value {
        eventually("the session is over", || {
            let row = self.row(id);
            if row["sealed"] == true { Ok(row) } else { Err(row.to_string()) }
        })
    }

    #[track_caller]
    fn list(&self) -> Vec<Value> {
        session_rows(&self.provost(&["ls", "--all", "--json"]).ok().json()).to_vec()
    }

    /// Whether the daemon reports that something waits for a resource.
    fn check_waiting(&self, resource: &str) -> Result<(), String> {
        let status = self.provost(&["daemon", "status", "--json"]).ok().json();
        let shortages = status["shortages"].as_array().cloned().unwrap_or_default();
        let found = shortages.iter().any(|one| one["resource"] == resource && one["waiting"] != 0);
        if found { Ok(()) } else { Err(status.to_string()) }
    }

    /// Kills agents until every one was started and has ended.
    #[track_caller]
    fn end_all_agents(&mut self, ids: &[String]) {
        // The retry interval of a waiting launch grows, so this timeout is long.
        let patience = Duration::from_secs(150);
        eventually_within(patience, "every session has run and ended", || {
            let listed = self.list();
            for launch in listed.iter().filter(|row| row["sealed"] == false) {
                if launch["launches"][0]["phase"] == "running" {
                    kill_agent(&launch["launches"][0]["pid"]);
                }
            }
            let open = listed.iter().filter(|row| row["sealed"] == false).count();
            let all = listed.len() == ids.len() && open == 0;
            if all { Ok(()) } else { Err(format!("{open} of {} are open", listed.len())) }
        });
    }

    /// Asserts that every session ended because its agent was killed, and none because it could not start.
    #[track_caller]
    fn assert_no_launch_failed(&self, ids: &[String]) {
        let listed = self.list();
        assert_eq!(listed.len(), ids.len());
        for row in &listed {
            assert_eq!(
                (&row["state"], &row["cause"]),
                (&"failed".into(), &"crash".into()),
                "{row}"
            );
        }
    }
}

impl Drop for LimitedDaemon {
    fn drop(&mut self) {
        drop(self.provost(&["daemon", "stop"]));
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }
}

/// Starts a daemon with a limit as a child of the test, and waits until it answers.
#[track_caller]
fn start_daemon(home: &TestHome, uid: u32, limit: &str) -> Child {
    let provost = home.command(&["daemon", "run"]);
    let mut command = Command::new("prlimit");
    command.arg(limit).arg(provost.get_program()).args(["daemon", "run"]);
    command.current_dir(home.root()).env_clear();
    command.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.uid(uid).gid(uid);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut daemon = command.spawn().expect("the daemon can be started");
    let mut first = String::new();
    let stdout = daemon.stdout.as_mut().expect("its output is a pipe");
    BufReader::new(stdout).read_line(&mut first).expect("the daemon can be heard");
    assert_eq!(first, "ready\n");
    daemon
}
