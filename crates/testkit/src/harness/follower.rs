//! A command that prints continuously (`events -f`, `logs -f`), read line by line with time limits.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};

use super::output::wait_for_end;
use super::wait::default_wait;
use crate::clock::Deadline;

/// The number of lines that may wait to be read before the follower's pipe fills up.
const QUEUE: usize = 4096;

/// A running command whose lines a test waits for. Dropping it kills the command.
#[derive(Debug)]
pub struct OutputFollower {
    child: Child,
    lines: Receiver<String>,
}

impl OutputFollower {
    #[track_caller]
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child =
            command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = child.stdout.take().expect("stdout is a pipe");
        let (send, lines) = mpsc::sync_channel(QUEUE);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if send.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        Self { child, lines }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads lines until `accept` returns a value for one, and returns that value.
    #[track_caller]
    pub fn wait_line<T>(&self, what: &str, mut accept: impl FnMut(&str) -> Option<T>) -> T {
        let deadline = Deadline::after(default_wait());
        let mut last = None;
        loop {
            match self.lines.recv_timeout(deadline.left()) {
                Ok(line) => match accept(&line) {
                    Some(found) => return found,
                    None => last = Some(line),
                },
                Err(why) => panic!("no line for: {what} ({why}); last seen: {last:?}"),
            }
        }
    }

    /// Waits until the command exits by itself.
    #[track_caller]
    pub fn wait_end(&mut self) -> ExitStatus {
        wait_for_end(&mut self.child, default_wait())
            .unwrap_or_else(|why| panic!("the follower {why}"))
    }
}

impl Drop for OutputFollower {
    fn drop(&mut self) {
        // The command may have exited already, so a failure to kill it is ignored.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
