//! Runs a program and pauses it at an exact point: right after the system call that wrote a file.
//!
//! Usage: `paused-program DIR FILE LINE PROGRAM [ARG…]`. The program runs until the first line of
//! FILE is LINE. Then it is stopped, and DIR/stopped contains its process id. When DIR/go exists,
//! it continues. DIR/ended contains its exit status. This program then exits or dies in the same
//! way as PROGRAM.
//!
//! The program is traced until the pause, so that it cannot get past that point, however busy the machine is.

use std::{
    fs, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus},
    thread,
    time::Duration,
};

use nix::{
    sys::{
        ptrace,
        signal::{Signal, kill, raise},
        wait::{WaitStatus, waitpid},
    },
    unistd::Pid,
};

/// The first argument of the copy of this program that becomes the traced program.
const TRACED: &str = "--traced";
/// The interval at which the paused program looks for DIR/go.
const POLL: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        [TRACED, program, rest @ ..] => become_traced(program, rest),
        [dir, file, line, command @ ..] if !command.is_empty() => {
            run(Path::new(dir), &PausePoint { file, line }, command)
        }
        _ => Err(io::Error::other("usage: paused-program DIR FILE LINE PROGRAM [ARG…]")),
    };
    match result {
        Ok(status) => end_like(status),
        Err(error) => panic!("paused-program: {error}"),
    }
}

/// The program stops once the first line of `file` is `line`.
struct PausePoint<'a> {
    file: &'a str,
    line: &'a str,
}

impl PausePoint<'_> {
    fn is_reached(&self) -> bool {
        let text = fs::read_to_string(self.file).unwrap_or_default();
        text.lines().next() == Some(self.line)
    }
}

fn become_traced(program: &str, args: &[&str]) -> io::Result<ExitStatus> {
    ptrace::traceme()?;
    Err(Command::new(program).args(args).exec())
}

fn run(dir: &Path, point: &PausePoint<'_>, command: &[&str]) -> io::Result<ExitStatus> {
    let mut child = Command::new(std::env::current_exe()?).arg(TRACED).args(command).spawn()?;
    let status = match trace(process_id(&child), point)? {
        TraceEnd::Paused => {
            fs::write(dir.join("new"), child.id().to_string())?;
            fs::rename(dir.join("new"), dir.join("stopped"))?;
            wait_for(&dir.join("go"));
            kill(process_id(&child), Signal::SIGCONT)?;
            child.wait()?
        }
        TraceEnd::Ended(status) => status,
    };
    fs::write(dir.join("ended"), status.to_string())?;
    Ok(status)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a process gets no event when the file it waits for appears"
)]
fn wait_for(file: &Path) {
    while !file.exists() {
        thread::sleep(POLL);
    }
}

fn process_id(child: &Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// The result of tracing a process.
enum TraceEnd {
    /// The program is stopped and no longer traced.
    Paused,
    Ended(ExitStatus),
}

/// Runs the program from one system call to the next until it reaches the pause point.
fn trace(pid: Pid, point: &PausePoint<'_>) -> io::Result<TraceEnd> {
    let mut is_pausing = false;
    loop {
        let signal = match waitpid(pid, None)? {
            WaitStatus::Exited(_, code) => {
                return Ok(TraceEnd::Ended(ExitStatus::from_raw(code << 8)));
            }
            WaitStatus::Signaled(_, signal, _) => {
                return Ok(TraceEnd::Ended(ExitStatus::from_raw(signal as i32)));
            }
            WaitStatus::Stopped(_, Signal::SIGSTOP) if is_pausing => {
                ptrace::detach(pid, Signal::SIGSTOP)?;
                return Ok(TraceEnd::Paused);
            }
            // The program stops before and after each system call, and after `exec`.
            WaitStatus::Stopped(_, Signal::SIGTRAP) => None,
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::PtraceEvent(..)
            | WaitStatus::PtraceSyscall(_)
            | WaitStatus::Continued(_)
            | WaitStatus::StillAlive => None,
        };
        if !is_pausing && point.is_reached() {
            kill(pid, Signal::SIGSTOP)?;
            is_pausing = true;
        }
        ptrace::syscall(pid, signal)?;
    }
}

/// Exits with the program's status, or dies by the signal that ended it.
fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal().and_then(|number| Signal::try_from(number).ok()) {
        // SIGKILL and SIGTERM end this program too.
        raise(signal).ok();
    }
    ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1))
}
