//! Runs a program to completion within time limits, and captures its output.

use std::fmt;
use std::io::{Read, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::Value;

use super::wait::default_wait;
use crate::clock::Deadline;

/// The default time for which the output may stay open after the program has exited.
const OUTPUT_GRACE: Duration = Duration::from_secs(10);

/// The time limits of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimits {
    /// The time limit until the program exits.
    pub(super) end: Duration,
    /// The time limit from its exit until its output is closed. A longer time means that a child
    /// still holds the output, and that `$(provost …)` would hang.
    pub(super) output: Duration,
}

/// The output and exit status of a program.
#[derive(Clone)]
pub struct ProgramOutput {
    /// The command line, for messages.
    pub command: String,
    pub status: ExitStatus,
    /// The standard output, with invalid UTF-8 replaced.
    pub stdout: String,
    pub stderr: String,
    pub raw_stdout: Vec<u8>,
}

/// Omits the raw bytes, which would bury the rest of a message.
impl fmt::Debug for ProgramOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgramOutput { command, status, stdout, stderr, raw_stdout: _ } = self;
        write!(f, "`{command}` ended with {status}\nstdout:\n{stdout}\nstderr:\n{stderr}")
    }
}

impl ProgramOutput {
    /// Returns the exit code, or `None` if the program was killed by a signal.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Asserts exit code 0.
    #[track_caller]
    pub fn ok(&self) -> &Self {
        self.assert_code(0)
    }

    /// Asserts an exit code.
    #[track_caller]
    pub fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code(), Some(code), "{self:#?}");
        self
    }

    /// Parses stdout as a single JSON value.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON value ({error}): {self:#?}"))
    }

    /// Returns the `id` of the JSON object on stdout.
    #[track_caller]
    pub fn id(&self) -> String {
        string_value(&self.json()["id"])
    }

    /// Parses stdout as JSON lines.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        let parse = |line| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("not JSON ({error}): {line}\n{self:#?}"))
        };
        self.stdout.lines().map(parse).collect()
    }
}

/// Returns the text of a JSON string.
#[track_caller]
pub fn string_value(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

/// Runs a command with this input. An `Err` explains why it did not end within its limits.
pub(super) fn run(
    mut command: Command,
    input: Vec<u8>,
    patience: TimeLimits,
) -> Result<ProgramOutput, String> {
    let line = command_line(&command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {line}: {error}"))?;
    write_aside(&mut child, input);
    let stdout = read_aside(child.stdout.take());
    let stderr = read_aside(child.stderr.take());
    let ended = wait_for_end(&mut child, patience.end);
    let (stdout, stderr) =
        (stdout.recv_timeout(patience.output), stderr.recv_timeout(patience.output));
    let status =
        ended.map_err(|why| format!("{line} {why}; stdout: {stdout:?}; stderr: {stderr:?}"))?;
    let (Ok(raw_stdout), Ok(stderr)) = (stdout, stderr) else {
        return Err(format!("{line} ended ({status}), but a child still holds its output"));
    };
    let stdout = String::from_utf8_lossy(&raw_stdout).into_owned();
    Ok(ProgramOutput {
        command: line,
        status,
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        raw_stdout,
    })
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { end: default_wait(), output: OUTPUT_GRACE }
    }
}

/// Waits for a child's exit, and kills it after `wait`.
pub(super) fn wait_for_end(child: &mut Child, wait: Duration) -> Result<ExitStatus, String> {
    let in_time = ended_within(child, wait);
    if in_time != Ok(true) {
        child.kill().map_err(|error| format!("cannot be killed: {error}"))?;
    }
    let status = child.wait().map_err(|error| format!("cannot be waited for: {error}"))?;
    match in_time {
        Ok(true) => Ok(status),
        Ok(false) => Err(format!("did not end within {wait:?} and was killed")),
        Err(error) => Err(format!("cannot be watched: {error}")),
    }
}

fn ended_within(child: &Child, wait: Duration) -> Result<bool, String> {
    let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())
        .map_err(|error| error.to_string())?;
    let deadline = Deadline::after(wait);
    loop {
        let left = Timespec::try_from(deadline.left()).map_err(|error| error.to_string())?;
        match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Returns the program and its arguments, without the environment that `Debug` would show.
fn command_line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Writes the input in a separate thread, so that neither side can block the other.
fn write_aside(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        // A program may exit without reading its input.
        std::thread::spawn(move || drop(stdin.write_all(&input)));
    }
}

fn read_aside(from: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = from.map(|mut from| from.read_to_end(&mut bytes));
        // The receiver is gone if the wait was abandoned.
        if !matches!(read, Some(Err(_))) {
            drop(send.send(bytes));
        }
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: TimeLimits =
        TimeLimits { end: Duration::from_millis(200), output: Duration::from_millis(200) };

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn input_output_and_exit_code_are_captured() {
        let output =
            run(sh("cat; echo '[1]' >&2; exit 3"), b"{\"a\":1}".to_vec(), TimeLimits::default())
                .unwrap();
        assert_eq!(
            (output.assert_code(3).json()["a"].as_u64(), output.stderr.as_str()),
            (Some(1), "[1]\n")
        );
    }

    #[test]
    fn large_input_and_output_do_not_deadlock() {
        let input = vec![b'x'; 4 << 20];
        let output = run(sh("cat"), input.clone(), TimeLimits::default()).unwrap();
        assert!(output.raw_stdout == input);
    }

    #[test]
    fn hanging_program_is_killed_and_reported() {
        let why = run(sh("echo said; exec sleep 60"), Vec::new(), SHORT).unwrap_err();
        assert!(why.contains("did not end within 200ms and was killed"), "{why}");
    }

    #[test]
    fn output_held_by_child_is_an_error() {
        let why = run(sh("sleep 2 & exit 0"), Vec::new(), SHORT).unwrap_err();
        assert!(why.contains("still holds its output"), "{why}");
    }
}
