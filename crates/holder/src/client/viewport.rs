//! A viewport: the command's terminal, shown in the terminal of a person who types there.
//!
//! The person leaves with Ctrl-\, as from `dtach` and `abduco`; every other key is the command's. Leaving ends
//! nothing. What comes is shown as it is: the command has the person's terminal as it would have any other, and
//! whoever leaves gets it back as it was.

mod keys;
mod person;
mod proxy;
mod redraw;

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use self::proxy::{Shown, run_program};

use self::keys::Typed;
use self::person::Person;
use self::redraw::Redraw;
use crate::clock::{mono_ms, timespec};
use crate::launch_dir::LaunchDir;
use crate::spec::Tty;
use crate::wire::{Data, Fault, Message, Op, Request, View};

/// Bytes read at one time.
const CHUNK: usize = 16 << 10;
/// Ends a sequence that was begun and whose rest was missed.
const CANCEL: &[u8] = b"\x18";
/// Begins with an empty screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Where the person is. Nothing of it is read or written once the viewport is left.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The terminal that is typed at.
    pub input: BorrowedFd<'a>,
    /// The terminal that is looked at.
    pub output: BorrowedFd<'a>,
    /// The read end of a pipe, by which the caller says what signals say: one byte for each [`Call`].
    pub calls: BorrowedFd<'a>,
    /// Whether a person is there to begin with. In a window of tmux nobody is until it is shown.
    pub attended: bool,
}

/// What a caller may have to say to a viewport, as a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Call {
    /// The person's terminal has another size.
    Resized = b'r',
    /// The viewport is to be left.
    Leave = b'l',
    /// A person has come to where the terminal is shown.
    Attended = b'a',
    /// Nobody is there any more.
    Unattended = b'u',
}

/// Why a viewport was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// The person left, or their terminal did, or the caller wanted it.
    Detached,
    /// The command's holder left, since the command ended.
    Ended,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("show a command's screen here: this is no terminal")]
    NoTerminal(#[source] io::Error),
    #[error("start the program")]
    Start(#[source] io::Error),
    #[error("reach the holder")]
    Reach(#[source] io::Error),
    #[error("view the terminal")]
    Refused(#[from] Fault),
    #[error("show the terminal")]
    Io(#[from] io::Error),
    #[error("understand the holder")]
    Malformed(#[from] serde_json::Error),
}

impl Call {
    /// The byte that says it.
    pub fn byte(self) -> u8 {
        self as u8
    }
}

/// Shows the terminal of a launch until the person leaves or the holder does. However that comes about, also by a
/// panic, the person's terminal is as it was before.
pub fn view(dir: &Path, place: Place<'_>) -> Result<Left, Error> {
    let socket = LaunchDir::open(dir).and_then(|dir| dir.connect()).map_err(Error::Reach)?;
    let mut viewport = Viewport::begin(socket, place)?;
    let left = viewport.run();
    match left {
        // A holder that leaves may close the connection while something is said to it.
        Err(Error::Io(error)) if is_hangup(&error) => Ok(Left::Ended),
        other => other,
    }
}

/// The state of one viewport.
struct Viewport<'a> {
    person: Person<'a>,
    calls: BorrowedFd<'a>,
    socket: UnixStream,
    received: Vec<u8>,
    next_id: u64,
    /// The request with the keys that the command has not taken yet; until then no more are read.
    typing: Option<u64>,
    redraw: Redraw,
}

/// What one wait found ready.
struct Ready {
    typed: bool,
    shown: bool,
    called: bool,
}

impl<'a> Viewport<'a> {
    /// Asks for the view before anything is done to the person's terminal.
    fn begin(socket: UnixStream, place: Place<'a>) -> Result<Self, Error> {
        let Place { input, output, calls, attended } = place;
        let person = Person::look(input, output)?;
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
            // Said first, so that nobody is counted in between; an older holder refuses it and counts.
            viewport.attend(false)?;
            viewport.await_answer()?;
        }
        viewport.ask(Op::View)?;
        if let Some(fault) = viewport.await_answer()? {
            return Err(fault.into());
        }
        viewport.person.take_over()?;
        viewport.person.show(CLEAR)?;
        viewport.begin_redraw()?;
        Ok(viewport)
    }

    /// The answer comes before anything else. Gives why the holder refused, if it did.
    fn await_answer(&mut self) -> Result<Option<Fault>, Error> {
        while !self.received.contains(&b'\n') {
            if self.receive()? == 0 {
                return Err(Error::Reach(io::ErrorKind::UnexpectedEof.into()));
            }
        }
        Ok(match self.next_message()? {
            Some(Message::Reply(reply)) => reply.error,
            Some(Message::Notice(_) | Message::View(_)) | None => None,
        })
    }

    fn run(&mut self) -> Result<Left, Error> {
        loop {
            let ready = self.wait()?;
            if ready.called && self.hear_call()? {
                return Ok(Left::Detached);
            }
            if ready.shown && self.receive()? == 0 {
                return Ok(Left::Ended);
            }
            while let Some(message) = self.next_message()? {
                self.take(message)?;
            }
            if let Some(size) = self.redraw.due(mono_ms()) {
                self.resize(size)?;
            }
            if ready.typed && self.pass_keys()? {
                return Ok(Left::Detached);
            }
        }
    }

    fn wait(&self) -> Result<Ready, Error> {
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
        Ok(Ready { typed, shown, called })
    }

    /// Says whether the viewport is to be left.
    fn hear_call(&mut self) -> Result<bool, Error> {
        let mut byte = [0];
        let read = rustix::io::read(self.calls, &mut byte).map_err(io::Error::from)?;
        match byte {
            // A caller that is gone calls no more, and would otherwise wake us without end.
            _ if read == 0 => return Ok(true),
            [byte] if byte == Call::Leave.byte() => return Ok(true),
            [byte] if byte == Call::Attended.byte() => self.attend(true)?,
            [byte] if byte == Call::Unattended.byte() => self.attend(false)?,
            [_] => {
                if let Some(size) = self.redraw.resized(self.person.size()) {
                    self.resize(size)?;
                }
            }
        }
        Ok(false)
    }

    fn attend(&mut self, attended: bool) -> Result<(), Error> {
        self.ask(Op::Attended { attended }).map(drop)
    }

    /// Passes on what was typed, and says whether the person left.
    fn pass_keys(&mut self) -> Result<bool, Error> {
        let mut keys = [0; CHUNK];
        let read = match rustix::io::read(self.person.input(), &mut keys) {
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            // A terminal that hung up has nobody at it.
            Err(Errno::IO) => 0,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let Typed { keys, leaves } = keys::typed(&keys[..read]);
        if !keys.is_empty() {
            self.typing = Some(self.ask(Op::Type { data: Data(keys.to_vec()) })?);
        }
        Ok(leaves || read == 0)
    }

    fn take(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::View(View::Output { data }) => {
                self.person.show(&data.0)?;
                self.redraw.painted();
            }
            Message::View(View::Skipped { .. }) => {
                self.person.show(CANCEL)?;
                self.begin_redraw()?;
            }
            // Keys that the command can no longer take are lost with it.
            Message::Reply(reply) if reply.id == self.typing => self.typing = None,
            Message::Reply(_) | Message::Notice(_) => {}
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
        self.ask(Op::Resize { columns, rows }).map(drop)
    }

    /// Asks without waiting for the answer, and gives the request's id.
    fn ask(&mut self, op: Op) -> Result<u64, Error> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&Request::new(id, op))?;
        line.push(b'\n');
        self.socket.write_all(&line)?;
        Ok(id)
    }

    /// Reads once; none is the end.
    fn receive(&mut self) -> Result<usize, Error> {
        let mut chunk = [0; CHUNK];
        let read = match self.socket.read(&mut chunk) {
            Err(error) if is_hangup(&error) => 0,
            other => other?,
        };
        self.received.extend_from_slice(&chunk[..read]);
        Ok(read)
    }

    fn next_message(&mut self) -> Result<Option<Message>, Error> {
        let Some(end) = self.received.iter().position(|byte| *byte == b'\n') else {
            return Ok(None);
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Ok(Some(Message::parse(&line)?))
    }
}

fn is_hangup(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}
