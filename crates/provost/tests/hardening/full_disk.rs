//! A full disk: the home is on a small file system, in a mount namespace that ends with the test.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use provost_testkit::{ProgramOutput, TestHome, eventually, scripted_agent_bin};
use serde_json::Value;

/// The size of the disk. A launch needs 16 MiB to start.
const SIZE: &str = "64m";
const BALLAST: usize = 36 << 20;

/// The size of the output in bytes. It does not fit next to the ballast file; without the ballast,
/// it leaves room for a launch.
const OUTPUT: u64 = 40 << 20;

#[test]
fn full_disk_blocks_agent_and_loses_nothing() {
    let disk = SmallDisk::new();
    let ballast = disk.host_path("ballast");
    fs::write(&ballast, vec![0; BALLAST]).expect("the ballast fits");
    let scenario = disk.home.scenario(
        "agent",
        &format!("[[step]]\nflood = {{ bytes = {OUTPUT}, line = 80, channel = \"stdout\" }}\n[[step]]\nexit = 0\n"),
    );
    let agent = scripted_agent_bin().display().to_string();
    let args =
        ["spawn", "--json", "--exit-zero-completes", "--", &agent, &scenario.display().to_string()];
    let id = disk.provost(&args).ok().id();
    eventually("the disk is full", || (disk.free_blocks() == 0).then_some(()));
    // Changes that cannot be recorded are refused, and existing records can still be read.
    let refused = eventually("a change is refused", || {
        let output = disk.provost(&["spawn", "--json", "--", "true"]);
        if output.code() == Some(6) { Ok(output) } else { Err(output) }
    });
    assert_eq!(refused.json()["error"]["code"], "storage", "{refused:#?}");
    let row = disk.row(&id);
    assert_eq!((&row["process"], &row["sealed"]), (&"alive".into(), &false.into()), "{row}");
    let status = disk.provost(&["daemon", "status", "--json"]).ok().json();
    assert_eq!(status["shortages"][0]["resource"], "disk_space", "{status:#}");
    fs::remove_file(ballast).expect("room can be made");
    let row = eventually("the session completes", || {
        let row = disk.row(&id);
        if row["sealed"] == true { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!((&row["state"], &row["exit"]["code"]), (&"completed".into(), &0.into()), "{row}");
    // The shortage is over. The disk was full, so raising another limit would not have helped.
    let events = disk.provost(&["events", &id, "--json", "--limit", "1000"]).ok().json();
    let events = events["events"].as_array().cloned().unwrap_or_default();
    let count = |kind: &str| events.iter().filter(|event| event["kind"] == kind).count();
    assert_eq!(count("output.at_limit"), 0, "{events:#?}");
    // The ledger is on the same disk, so the pause is recorded only if it still had room.
    assert!(count("output.resumed") <= count("output.disk_full"), "{events:#?}");
    let logs = disk.provost(&["logs", &id, "--raw"]);
    assert_eq!(logs.ok().raw_stdout.len() as u64, OUTPUT, "no output is lost");
    disk.provost(&["ledger", "verify", "--json"]).ok();
    let again = disk.provost(&["spawn", "--json", "--", "true"]).id();
    let row = eventually("the next one has ended", || {
        let row = disk.row(&again);
        if row["sealed"] == true { Ok(row) } else { Err(row.to_string()) }
    });
    assert_eq!((&row["state"], &row["exit"]["code"]), (&"completed".into(), &0.into()), "{row}");
}

/// A home on a small disk. Everything that uses it enters its namespace.
pub(crate) struct SmallDisk {
    pub(crate) home: TestHome,
    /// The process that keeps the namespace alive.
    keeper: Child,
}

impl SmallDisk {
    fn new() -> SmallDisk {
        SmallDisk::with_options(&format!("size={SIZE}"))
    }

    /// Creates a disk with these tmpfs options.
    pub(crate) fn with_options(options: &str) -> SmallDisk {
        let home = TestHome::with_short_windows();
        let script = format!(
            "mount -t tmpfs -o {options},mode=0700 tmpfs {} && echo ready && exec sleep 600",
            home.path().display()
        );
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut keeper = command.spawn().expect("unshare can be run");
        let mut line = String::new();
        let stdout = keeper.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("the keeper responds");
        assert_eq!(line, "ready\n", "a small disk cannot be mounted here");
        SmallDisk { home, keeper }
    }

    /// The path of a file on the disk, as seen from outside the namespace.
    pub(crate) fn host_path(&self, name: &str) -> PathBuf {
        let path = self.home.path().join(name);
        let below = path.strip_prefix("/").expect("a home's path is absolute");
        PathBuf::from(format!("/proc/{}/root", self.keeper.id())).join(below)
    }

    pub(crate) fn free_blocks(&self) -> u64 {
        let about = rustix::fs::statvfs(self.host_path("")).expect("the disk can be looked at");
        about.f_bavail
    }

    /// Fills the disk except for `left` bytes, and returns the file whose removal frees it.
    pub(crate) fn fill(&self, left: u64) -> PathBuf {
        let ballast = self.host_path("ballast");
        let about = rustix::fs::statvfs(self.host_path("")).expect("the disk can be looked at");
        let free = about.f_bavail.saturating_mul(about.f_frsize);
        let bytes = usize::try_from(free.saturating_sub(left)).expect("a small disk");
        // Another process may have taken the last block.
        drop(fs::write(&ballast, vec![0; bytes]));
        ballast
    }

    /// Uses all inodes except `left`, and returns the directory whose removal frees them.
    pub(crate) fn fill_inodes(&self, left: u64) -> PathBuf {
        let ballast = self.host_path("inodes");
        fs::create_dir(&ballast).expect("there is an inode left");
        let free = || rustix::fs::statvfs(&ballast).expect("the disk can be looked at").f_favail;
        let mut no = 0;
        while free() > left {
            fs::write(ballast.join(no.to_string()), "").expect("there is an inode left");
            no += 1;
        }
        ballast
    }

    pub(crate) fn row(&self, id: &str) -> Value {
        self.provost(&["status", id, "--json"]).json()
    }

    #[track_caller]
    pub(crate) fn provost(&self, args: &[&str]) -> ProgramOutput {
        self.provost_in(Path::new("/"), args)
    }

    /// Runs `provost` in a directory.
    #[track_caller]
    pub(crate) fn provost_in(&self, dir: &Path, args: &[&str]) -> ProgramOutput {
        let provost = self.home.command(args);
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &self.keeper.id().to_string(),
            "--user",
            "--mount",
            "--preserve-credentials",
        ]);
        command
            .arg(format!("--wd={}", dir.display()))
            .arg(provost.get_program())
            .args(args)
            .env_clear();
        command.envs(provost.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let ran = command.stdin(Stdio::null()).output().expect("nsenter can be run");
        ProgramOutput {
            command: format!("{command:?}"),
            status: ran.status,
            stdout: String::from_utf8_lossy(&ran.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&ran.stderr).into_owned(),
            raw_stdout: ran.stdout,
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.provost(&["daemon", "stop"]));
        drop(self.keeper.kill());
        drop(self.keeper.wait());
        // The checkouts of checks disappeared with the disk.
        for repo in fs::read_dir(self.home.root().join("repos")).into_iter().flatten().flatten() {
            let mut git = Command::new("git");
            git.args(["worktree", "prune", "--expire=now"]).current_dir(repo.path());
            drop(git.status());
        }
    }
}

#[test]
fn gc_without_disk_space_says_so() {
    let disk = SmallDisk::new();
    let repo = disk.home.repo("work");
    let work = ["spawn", "--worktree", "--wait", "--json", "--exit-zero-completes"];
    let work = [&work[..], &["--check", "true", "--", "sh", "-c", "echo a > a"]].concat();
    disk.provost_in(repo.path(), &work).ok();
    let ballast = disk.fill(0);
    let kept = disk.provost(&["gc", "--apply", "--json"]).ok().json();
    let reason = kept["kept"][0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("No space left"), "{kept:#}");
    fs::remove_file(ballast).expect("room can be made");
    let removed = disk.provost(&["gc", "--apply", "--json"]).ok().json();
    assert_eq!(removed["removed"][0]["kind"], "worktree", "{removed:#}");
}
