//! The user's terminal, which is taken over while the viewport is open and then restored.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::Error;
use crate::spec::Tty;

/// Resets the modes that a program may have set: alternate screen, hidden cursor, bracketed paste,
/// focus reports, mouse, extended keys, scroll region and colors. Resetting the scroll region
/// moves the cursor to the top, so the cursor is then placed below the last line.
const RESET_MODES: &[u8] = b"\x18\x1b[?1049l\x1b[?25h\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[<u\x1b[>4m\x1b[?1l\x1b>\x1b[r\x1b[0m\x1b[999;1H\r\n";

pub(super) struct UserTerminal<'a> {
    input: BorrowedFd<'a>,
    output: BorrowedFd<'a>,
    before: Termios,
    taken_over: bool,
}

impl<'a> UserTerminal<'a> {
    pub(super) fn open(input: BorrowedFd<'a>, output: BorrowedFd<'a>) -> Result<Self, Error> {
        let none = |error: Errno| Error::NoTerminal(error.into());
        tcgetattr(output).map_err(none)?;
        let before = tcgetattr(input).map_err(none)?;
        Ok(Self { input, output, before, taken_over: false })
    }

    /// Switches to raw mode, in which keys arrive as they are typed and output is passed through
    /// unchanged.
    pub(super) fn take_over(&mut self) -> io::Result<()> {
        let mut modes = self.before.clone();
        modes.make_raw();
        self.taken_over = true;
        Ok(tcsetattr(self.input, OptionalActions::Now, &modes)?)
    }

    pub(super) fn input(&self) -> BorrowedFd<'a> {
        self.input
    }

    /// Returns the terminal's size, if it is valid for a command's terminal.
    pub(super) fn size(&self) -> Option<Tty> {
        let size = tcgetwinsize(self.output).ok()?;
        Tty { columns: size.ws_col, rows: size.ws_row }.checked()
    }

    /// Writes all bytes. Waits until the terminal has accepted them, without a time limit.
    pub(super) fn show(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::write(self.output, bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Drop for UserTerminal<'_> {
    fn drop(&mut self) {
        if self.taken_over {
            self.show(RESET_MODES).ok();
            tcsetattr(self.input, OptionalActions::Now, &self.before).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    #[test]
    fn panic_restores_the_terminal() {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let screen = openpt(flags).unwrap();
        unlockpt(&screen).unwrap();
        let seat = ioctl_tiocgptpeer(&screen, flags).unwrap();
        let echoes = || tcgetattr(&seat).unwrap().local_modes.contains(LocalModes::ECHO);
        let panicked = std::panic::catch_unwind(|| {
            let mut person = UserTerminal::open(seat.as_fd(), seat.as_fd()).unwrap();
            person.take_over().unwrap();
            assert!(echoes(), "it is taken over");
        });
        assert!(panicked.is_err() && echoes());
    }
}
