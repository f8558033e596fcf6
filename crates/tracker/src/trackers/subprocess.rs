//! Runs a program to completion, with limits on time and output.

use std::{
    io::{self, Read},
    os::unix::process::CommandExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// Time limit for a program.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of bytes of standard output.
const MAX_OUTPUT: u64 = 64 << 20;

/// The exit status and output of a program.
#[derive(Debug)]
pub(super) struct SubprocessOutput {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Runs a command without input. If it takes too long, kills it along with its process group.
pub(super) fn run(command: &mut Command) -> io::Result<SubprocessOutput> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let read = collect(&mut child);
    if read.is_err() {
        // The child has not been reaped, so its pid is still valid. The call fails if the group no
        // longer exists, which does no harm.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait()?;
    let (stdout, stderr) = read?;
    if stdout.len() as u64 > MAX_OUTPUT {
        return Err(io::Error::other(format!("the program printed more than {MAX_OUTPUT} bytes")));
    }
    Ok(SubprocessOutput { status, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
}

/// Reads both streams to the end, and waits for the process to exit.
fn collect(child: &mut Child) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let pid = Pid::from_child(child);
    let stdout = child.stdout.take().map(read_all).transpose()?;
    let stderr = child.stderr.take().map(read_all).transpose()?;
    let ended = on_thread(move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options).map(drop).map_err(io::Error::from)
    })?;
    let stdout = stdout.map_or_else(|| Ok(Vec::new()), |stream| within_time(&stream))?;
    let stderr = stderr.map_or_else(|| Ok(Vec::new()), |stream| within_time(&stream))?;
    within_time(&ended)?;
    Ok((stdout, stderr))
}

fn read_all(stream: impl Read + Send + 'static) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    on_thread(move || {
        let mut bytes = Vec::new();
        stream.take(MAX_OUTPUT + 1).read_to_end(&mut bytes).map(|_| bytes)
    })
}

/// Runs a blocking function on a thread, so that the caller can time out.
fn on_thread<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<Receiver<io::Result<T>>> {
    let (send, receive) = mpsc::sync_channel(1);
    thread::Builder::new().name("program".to_owned()).spawn(move || {
        // The send fails if the receiver has already timed out.
        drop(send.send(work()));
    })?;
    Ok(receive)
}

fn within_time<T>(result: &Receiver<io::Result<T>>) -> io::Result<T> {
    result.recv_timeout(TIME_LIMIT).map_err(timeout_error)?
}

fn timeout_error(why: RecvTimeoutError) -> io::Error {
    match why {
        RecvTimeoutError::Timeout => io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the program took longer than {TIME_LIMIT:?}"),
        ),
        RecvTimeoutError::Disconnected => io::Error::other("the program's output was lost"),
    }
}
