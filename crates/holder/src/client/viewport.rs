//! A viewport shows the command's terminal in the user's terminal and forwards the keys.
//!
//! The user detaches with Ctrl-\, as in `dtach` and `abduco`; every other key goes to the command.
//! The command keeps running after the user has detached. Output is passed through unchanged, and
//! the user's terminal is restored on detach.

mod keys;
mod proxy;
mod redraw;
mod user_terminal;

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use self::proxy::{ProgramViewEnd, run_program};

use self::keys::TypedKeys;
use self::redraw::Redraw;
use self::user_terminal::UserTerminal;
use crate::clock::{mono_ms, timespec};
use crate::launch_dir::LaunchDir;
use crate::spec::Tty;
use crate::wire::{HolderFault, HolderMessage, HolderOp, HolderRequest, TerminalView, WireBytes};

/// The number of bytes to read at a time.
const CHUNK: usize = 16 << 10;
/// Cancels an escape sequence whose remaining bytes were lost.
const CANCEL: &[u8] = b"\x18";
/// Clears the screen when the viewport opens.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// The user's terminal. It is neither read from nor written to after the viewport is detached.
#[derive(Debug, Clone, Copy)]
pub struct ViewportIo<'a> {
    /// The terminal from which keys are read.
    pub input: BorrowedFd<'a>,
    /// The terminal on which output is shown.
    pub output: BorrowedFd<'a>,
    /// The read end of a pipe on which the caller forwards signals, as one byte per
    /// [`ViewportCall`].
    pub calls: BorrowedFd<'a>,
    /// Whether a user is watching at the start. A tmux window is unattended until a client displays
    /// it.
    pub attended: bool,
}

/// A command from the caller to a viewport, sent as one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ViewportCall {
    /// The user's terminal was resized.
    Resized = b'r',
    /// Detach.
    Leave = b'l',
    /// A user started watching the terminal.
    Attended = b'a',
    /// No user is watching.
    Unattended = b'u',
}

/// The reason why a viewport was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewportExit {
    /// The user detached, the user's terminal hung up, or the caller requested it.
    Detached,
    /// The holder exited because the command has exited.
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot show the command's screen: standard input and output are not a terminal")]
    NoTerminal(#[source] io::Error),
    #[error("could not start the program")]
    Start(#[source] io::Error),
    #[error("could not reach the holder")]
    Reach(#[source] io::Error),
    #[error("could not view the terminal")]
    Refused(#[from] HolderFault),
    #[error("could not show the terminal")]
    Io(#[from] io::Error),
    #[error("could not parse the holder's message")]
    Malformed(#[from] serde_json::Error),
}

impl ViewportCall {
    /// Returns the byte to send for this call.
    pub fn byte(self) -> u8 {
        self as u8
    }
}

/// Shows the terminal of a launch until the user detaches or the holder exits. The user's terminal
/// is restored in every case, including a panic.
pub fn view(dir: &Path, place: ViewportIo<'_>) -> Result<ViewportExit, Error> {
    let socket = LaunchDir::open(dir).and_then(|dir| dir.connect()).map_err(Error::Reach)?;
    let mut viewport = Viewport::begin(socket, place)?;
    let left = viewport.run();
    match left {
        // An exiting holder may close the connection while this side is writing to it.
        Err(Error::Io(error)) if is_hangup(&error) => Ok(ViewportExit::Ended),
        other => other,
    }
}

/// The state of one viewport.
struct Viewport<'a> {
    person: UserTerminal<'a>,
    calls: BorrowedFd<'a>,
    socket: UnixStream,
    received: Vec<u8>,
    next_id: u64,
    /// The request whose keys the command has not read yet. No more keys are read from the user
    /// until the command has read them.
    typing: Option<u64>,
    redraw: Redraw,
}

/// The event sources that are ready after a wait.
struct ViewportReady {
    typed: bool,
    shown: bool,
    called: bool,
}

impl<'a> Viewport<'a> {
    /// Requests the view. Does not change the user's terminal yet.
    fn begin(socket: UnixStream, place: ViewportIo<'a>) -> Result<Self, Error> {
        let ViewportIo { input, output, calls, attended } = place;
        let person = UserTerminal::open(input, output)?;
        let mut viewport = Self {
            person,
            calls,
            socket,
            received: Vec::new(),
            next_id: 1,
            typing: None,
            redraw: Redraw::default(),
        };
        if !attended {
            // The message is sent before the view is requested, so that the viewport is never
            // counted as attended. Older holders reject the message and count the viewport.
            viewport.attend(false)?;
            viewport.await_answer()?;
        }
        viewport.send_request(HolderOp::View)?;
        if let Some(fault) = viewport.await_answer()? {
            return Err(fault.into());
        }
        viewport.person.take_over()?;
        viewport.person.show(CLEAR)?;
        viewport.begin_redraw()?;
        Ok(viewport)
    }

    /// Reads the response, which precedes everything else. Returns the reason if the holder refused
    /// the request.
    fn await_answer(&mut self) -> Result<Option<HolderFault>, Error> {
        while !self.received.contains(&b'\n') {
            if self.receive()? == 0 {
                return Err(Error::Reach(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(match self.next_message()? {
            Some(HolderMessage::Reply(reply)) => reply.error,
            Some(HolderMessage::Notice(_) | HolderMessage::View(_)) | None => None,
        })
    }

    fn run(&mut self) -> Result<ViewportExit, Error> {
        loop {
            let ready = self.wait()?;
            if ready.called && self.handle_call()? {
                return Ok(ViewportExit::Detached);
            }
            if ready.shown && self.receive()? == 0 {
                return Ok(ViewportExit::Ended);
            }
            while let Some(message) = self.next_message()? {
                self.take(message)?;
            }
            if let Some(size) = self.redraw.due(mono_ms()) {
                self.resize(size)?;
            }
            if ready.typed && self.pass_keys()? {
                return Ok(ViewportExit::Detached);
            }
        }
    }

    fn wait(&self) -> Result<ViewportReady, Error> {
        let typed = if self.typing.is_none() { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [
            PollFd::from_borrowed_fd(self.person.input(), typed),
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::from_borrowed_fd(self.calls, PollFlags::IN),
        ];
        let timeout = self.redraw.due_at().map(|at| timespec(at.saturating_sub(mono_ms())));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let [typed, shown, called] = fds.map(|fd| !fd.revents().is_empty());
        Ok(ViewportReady { typed, shown, called })
    }

    /// Handles a call. Returns true if the viewport must be detached.
    fn handle_call(&mut self) -> Result<bool, Error> {
        let mut byte = [0];
        let read = rustix::io::read(self.calls, &mut byte).map_err(io::Error::from)?;
        match byte {
            // The caller is gone and will send no more calls, but its closed pipe would wake this
            // loop forever.
            _ if read == 0 => return Ok(true),
            [byte] if byte == ViewportCall::Leave.byte() => return Ok(true),
            [byte] if byte == ViewportCall::Attended.byte() => self.attend(true)?,
            [byte] if byte == ViewportCall::Unattended.byte() => self.attend(false)?,
            [_] => {
                if let Some(size) = self.redraw.resized(self.person.size()) {
                    self.resize(size)?;
                }
            }
        }
        Ok(false)
    }

    fn attend(&mut self, attended: bool) -> Result<(), Error> {
        self.send_request(HolderOp::Attended { attended }).map(drop)
    }

    /// Forwards the keys. Returns true if the user detached.
    fn pass_keys(&mut self) -> Result<bool, Error> {
        let mut keys = [0; CHUNK];
        let read = match rustix::io::read(self.person.input(), &mut keys) {
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            // A terminal that hung up is treated as the end of input.
            Err(Errno::IO) => 0,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let TypedKeys { keys, detaches: leaves } = keys::split_keys(&keys[..read]);
        if !keys.is_empty() {
            self.typing =
                Some(self.send_request(HolderOp::Type { data: WireBytes(keys.to_vec()) })?);
        }
        Ok(leaves || read == 0)
    }

    fn take(&mut self, message: HolderMessage) -> Result<(), Error> {
        match message {
            HolderMessage::View(TerminalView::Output { data }) => {
                self.person.show(&data.0)?;
                self.redraw.painted();
            }
            HolderMessage::View(TerminalView::Skipped { .. }) => {
                self.person.show(CANCEL)?;
                self.begin_redraw()?;
            }
            // The typed keys are dropped if the command can no longer read them.
            HolderMessage::Reply(reply) if reply.id == self.typing => self.typing = None,
            HolderMessage::Reply(_) | HolderMessage::Notice(_) => {}
        }
        Ok(())
    }

    fn begin_redraw(&mut self) -> Result<(), Error> {
        match self.redraw.begin(self.person.size(), mono_ms()) {
            Some(size) => self.resize(size),
            None => Ok(()),
        }
    }

    fn resize(&mut self, Tty { columns, rows }: Tty) -> Result<(), Error> {
        self.send_request(HolderOp::Resize { columns, rows }).map(drop)
    }

    /// Sends a request without waiting for the response. Returns the request's id.
    fn send_request(&mut self, op: HolderOp) -> Result<u64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&HolderRequest::new(id, op))?;
        line.push(b'\n');
        self.socket.write_all(&line)?;
        Ok(id)
    }

    /// Reads once. Returns 0 at the end of the stream.
    fn receive(&mut self) -> Result<usize, Error> {
        let mut chunk = [0; CHUNK];
        let read = match self.socket.read(&mut chunk) {
            Err(error) if is_hangup(&error) => 0,
            other => other?,
        };
        self.received.extend_from_slice(&chunk[..read]);
        Ok(read)
    }

    fn next_message(&mut self) -> Result<Option<HolderMessage>, Error> {
        let Some(end) = self.received.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Ok(Some(HolderMessage::parse(&line)?))
    }
}

fn is_hangup(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
