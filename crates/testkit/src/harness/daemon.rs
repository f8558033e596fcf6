//! Control of a home's daemon.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::Value;

use super::crash::Crash;
use super::home::TestHome;
use super::processes::{self, HomeProcess};
use super::wait::eventually;

/// The daemon of a home, which may or may not be running.
#[derive(Debug, Clone, Copy)]
pub struct HomeDaemon<'a>(pub(super) &'a TestHome);

impl HomeDaemon<'_> {
    /// Returns the output of `provost daemon status --json`, or `None` if no daemon answers.
    pub fn status(&self) -> Option<Value> {
        let output = self.0.provost(&["daemon", "status", "--json"]);
        (output.code() == Some(0)).then(|| output.json())
    }

    /// Returns the pid of the running daemon.
    pub fn pid(&self) -> Option<u32> {
        let pid = self.status()?["pid"].as_u64()?;
        u32::try_from(pid).ok()
    }

    /// Starts a daemon as a child of the test and waits until it answers. The daemon crashes at the
    /// given point, but its successor does not.
    #[track_caller]
    pub fn start(&self, crash: Option<&Crash>) -> Child {
        let mut command = self.0.command(&["daemon", "run"]);
        command.envs(crash.map(|crash| ("PROVOST_FAILPOINT", crash.to_string())));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut daemon = command.spawn().expect("the daemon can be started");
        let mut first = String::new();
        let stdout = daemon.stdout.as_mut().expect("the daemon's output is a pipe");
        BufReader::new(stdout).read_line(&mut first).expect("the daemon's output can be read");
        assert_eq!(first, "ready\n");
        daemon
    }

    /// Kills the daemon with SIGKILL, waits until it has exited, and returns its pid.
    ///
    /// # Panics
    /// If no daemon runs, or if its reported pid is not a process of this home.
    #[track_caller]
    pub fn kill(&self) -> u32 {
        let pid = self.pid().expect("a daemon is running");
        let process = self.process(pid);
        process.kill().expect("the daemon can be killed");
        eventually("the killed daemon is gone", || (!process.is_alive()).then_some(()));
        pid
    }

    /// Stops the daemon with its own command and waits until its process has exited.
    #[track_caller]
    pub fn stop(&self) {
        let process = self.pid().map(|pid| self.process(pid));
        self.0.provost(&["daemon", "stop"]).ok();
        if let Some(process) = process {
            eventually("the stopped daemon is gone", || (!process.is_alive()).then_some(()));
        }
    }

    #[track_caller]
    fn process(&self, pid: u32) -> HomeProcess {
        let pid = i32::try_from(pid).expect("a pid is small");
        let process = processes::process(pid).expect("the daemon's process lives");
        let ours = self.0.processes().iter().any(|found| found.pid == pid);
        assert!(ours, "the pid {pid} ({}) does not belong to this home", process.command);
        process
    }
}
