//! Runs a program on its own terminal, displayed in the user's terminal. Ctrl-\ detaches.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::keys::{self, TypedKeys};
use super::user_terminal::UserTerminal;
use super::{CHUNK, Error, ViewportCall, ViewportIo};
use crate::clock::{mono_ms, timespec};
use crate::spec::Tty;

/// The interval at which the caller is asked whether the view is over, in milliseconds.
const OVER_POLL_MS: u64 = 300;

/// The reason why a program on its own terminal is no longer shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramViewEnd {
    /// The user detached, the user's terminal hung up, or the caller requested it.
    Detached,
    /// The program exited on its own.
    Exited(ExitStatus),
    /// The caller has nothing more to show.
    Over,
}

/// Runs a program on its own terminal until it exits, the user detaches or `is_over` returns true.
/// Detaching kills the program. The user's terminal is restored in every case.
pub fn run_program(
    mut command: Command,
    place: ViewportIo<'_>,
    is_over: impl Fn() -> bool,
) -> Result<ProgramViewEnd, Error> {
    let mut person = UserTerminal::open(place.input, place.output)?;
    let (terminal, other) = open_terminal(person.size())?;
    command.stdin(other.try_clone()?).stdout(other.try_clone()?).stderr(other);
    person.take_over()?;
    let child = command.spawn().map_err(Error::Start)?;
    // The `Command` holds the program's end of the terminal open, so the program's own close would
    // go unnoticed.
    drop(command);
    let mut proxy = ProgramProxy { person, place, terminal, child, unread: VecDeque::new() };
    let shown = proxy.run(is_over);
    proxy.end_program();
    shown
}

fn open_terminal(size: Option<Tty>) -> io::Result<(File, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let end = openpt(flags)?;
    unlockpt(&end)?;
    let other = ioctl_tiocgptpeer(&end, flags)?;
    ioctl_fionbio(&end, true)?;
    let end = File::from(end);
    resize(&end, size)?;
    Ok((end, other))
}

fn resize(terminal: &File, size: Option<Tty>) -> io::Result<()> {
    let Some(Tty { columns, rows }) = size else { return Ok(()) };
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(tcsetwinsize(terminal, size)?)
}

struct ProgramProxy<'a> {
    person: UserTerminal<'a>,
    place: ViewportIo<'a>,
    terminal: File,
    child: Child,
    /// Keys that the program has not read yet. No more keys are read from the user until the
    /// program has read them.
    unread: VecDeque<u8>,
}

/// The event sources that are ready after a wait.
struct ProxyReady {
    typed: bool,
    shown: bool,
    called: bool,
}

impl ProgramProxy<'_> {
    fn run(&mut self, is_over: impl Fn() -> bool) -> Result<ProgramViewEnd, Error> {
        let mut look_at = mono_ms() + OVER_POLL_MS;
        loop {
            let ready = self.wait(look_at)?;
            if ready.called && self.handle_call()? {
                return Ok(ProgramViewEnd::Detached);
            }
            if ready.shown && self.show()? {
                return Ok(ProgramViewEnd::Exited(self.child.wait()?));
            }
            self.pass_keys()?;
            if ready.typed && self.read_keys()? {
                return Ok(ProgramViewEnd::Detached);
            }
            if let Some(status) = self.child.try_wait()? {
                while !self.show()? {}
                return Ok(ProgramViewEnd::Exited(status));
            }
            if mono_ms() >= look_at {
                if is_over() {
                    return Ok(ProgramViewEnd::Over);
                }
                look_at = mono_ms() + OVER_POLL_MS;
            }
        }
    }

    fn wait(&self, until_ms: u64) -> Result<ProxyReady, Error> {
        let full = !self.unread.is_empty();
        let typed = if full { PollFlags::empty() } else { PollFlags::IN };
        let shown = if full { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = [
            PollFd::from_borrowed_fd(self.person.input(), typed),
            PollFd::new(&self.terminal, shown),
            PollFd::from_borrowed_fd(self.place.calls, PollFlags::IN),
        ];
        let timeout = timespec(until_ms.saturating_sub(mono_ms()));
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let [typed, shown, called] = fds.map(|fd| !fd.revents().is_empty());
        Ok(ProxyReady { typed, shown, called })
    }

    /// Handles a call. Returns true if it requests detaching.
    fn handle_call(&mut self) -> Result<bool, Error> {
        let mut byte = [0];
        let read = rustix::io::read(self.place.calls, &mut byte).map_err(io::Error::from)?;
        if read == 0 || byte[0] == ViewportCall::Leave.byte() {
            return Ok(true);
        }
        if byte[0] == ViewportCall::Resized.byte() {
            resize(&self.terminal, self.person.size())?;
        }
        Ok(false)
    }

    /// Shows the program's output. Returns true if there will be no more.
    fn show(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; CHUNK];
        match self.terminal.read(&mut bytes) {
            Ok(0) => Ok(true),
            Ok(read) => {
                self.person.show(&bytes[..read])?;
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The program may have exited while a silent descendant keeps its terminal open.
                Ok(self.child.try_wait()?.is_some())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            // Every process that had the other end open has closed it.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads typed keys. Returns true if the user detached.
    fn read_keys(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; CHUNK];
        let read = match rustix::io::read(self.person.input(), &mut bytes) {
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            // A terminal that hung up is treated as the end of input.
            Err(Errno::IO) => 0,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let TypedKeys { keys, detaches: leaves } = keys::split_keys(&bytes[..read]);
        self.unread.extend(keys);
        self.pass_keys()?;
        Ok(leaves || read == 0)
    }

    fn pass_keys(&mut self) -> Result<(), Error> {
        while !self.unread.is_empty() {
            let (keys, _) = self.unread.as_slices();
            match self.terminal.write(keys) {
                Ok(written) => drop(self.unread.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Kills the program if it is still running. No work is lost, because the program only displays
    /// another process's work.
    fn end_program(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}
