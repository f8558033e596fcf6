//! A program on a terminal of its own, shown in the terminal of a person who can leave it with Ctrl-\.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::keys::{self, Typed};
use super::person::Person;
use super::{CHUNK, Call, Error, Place};
use crate::clock::{mono_ms, timespec};
use crate::spec::Tty;

/// How often the caller is asked whether there is still something to show, in milliseconds.
const LOOK_AGAIN: u64 = 300;

/// How a program on a terminal of its own was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The person left, or their terminal did, or the caller wanted it.
    Detached,
    /// The program ended by itself.
    Exited(ExitStatus),
    /// The caller says that there is nothing more to show.
    Over,
}

/// Runs a program on a terminal of its own until it ends, the person leaves or `is_over` holds. Whoever leaves ends the
/// program. However that comes about, the person's terminal is as it was before.
pub fn run_program(
    mut command: Command,
    place: Place<'_>,
    is_over: impl Fn() -> bool,
) -> Result<Shown, Error> {
    let mut person = Person::look(place.input, place.output)?;
    let (terminal, other) = open_terminal(person.size())?;
    command.stdin(other.try_clone()?).stdout(other.try_clone()?).stderr(other);
    person.take_over()?;
    let child = command.spawn().map_err(Error::Start)?;
    // It holds the other end of the terminal, whose end would never be seen otherwise.
    drop(command);
    let mut proxy = Proxy { person, place, terminal, child, unread: VecDeque::new() };
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

struct Proxy<'a> {
    person: Person<'a>,
    place: Place<'a>,
    terminal: File,
    child: Child,
    /// Keys that the program has not taken yet; until then no more are read.
    unread: VecDeque<u8>,
}

/// What one wait found ready.
struct Ready {
    typed: bool,
    shown: bool,
    called: bool,
}

impl Proxy<'_> {
    fn run(&mut self, is_over: impl Fn() -> bool) -> Result<Shown, Error> {
        let mut look_at = mono_ms() + LOOK_AGAIN;
        loop {
            let ready = self.wait(look_at)?;
            if ready.called && self.hear_call()? {
                return Ok(Shown::Detached);
            }
            if ready.shown && self.show()? {
                return Ok(Shown::Exited(self.child.wait()?));
            }
            self.pass_keys()?;
            if ready.typed && self.read_keys()? {
                return Ok(Shown::Detached);
            }
            if let Some(status) = self.child.try_wait()? {
                while !self.show()? {}
                return Ok(Shown::Exited(status));
            }
            if mono_ms() >= look_at {
                if is_over() {
                    return Ok(Shown::Over);
                }
                look_at = mono_ms() + LOOK_AGAIN;
            }
        }
    }

    fn wait(&self, until_ms: u64) -> Result<Ready, Error> {
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
        Ok(Ready { typed, shown, called })
    }

    /// Returns true if the program is to be left.
    fn hear_call(&mut self) -> Result<bool, Error> {
        let mut byte = [0];
        let read = rustix::io::read(self.place.calls, &mut byte).map_err(io::Error::from)?;
        if read == 0 || byte[0] == Call::Leave.byte() {
            return Ok(true);
        }
        if byte[0] == Call::Resized.byte() {
            resize(&self.terminal, self.person.size())?;
        }
        Ok(false)
    }

    /// Shows what the program wrote; returns true if it will write no more.
    fn show(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; CHUNK];
        match self.terminal.read(&mut bytes) {
            Ok(0) => Ok(true),
            Ok(read) => {
                self.person.show(&bytes[..read])?;
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // The program may have ended and left its terminal to a process that is silent.
                Ok(self.child.try_wait()?.is_some())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            // The other end is closed by all that had it.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what was typed; returns true if the person left.
    fn read_keys(&mut self) -> Result<bool, Error> {
        let mut bytes = [0; CHUNK];
        let read = match rustix::io::read(self.person.input(), &mut bytes) {
            Ok(read) => read,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(false),
            // A terminal that hung up has nobody at it.
            Err(Errno::IO) => 0,
            Err(error) => return Err(io::Error::from(error).into()),
        };
        let Typed { keys, leaves } = keys::typed(&bytes[..read]);
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

    /// Ends the program, if it runs: it only shows what another process does.
    fn end_program(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}
