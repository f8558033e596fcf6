//! The command's terminal: a pty with the command at one end and the holder at the other.
//!
//! It is the controlling terminal of the holder's own session, with the command's group in the
//! foreground. If the command led its own session, its exit would hang up the terminal: the kernel
//! would discard unread output, and descendants could not finish writing within the settle time, as
//! they can on pipes. On the other hand, the holder must keep its end open until it exits, because
//! the hangup would hit the holder itself.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, ioctl_tiocsctty, kill_process_group};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Winsize, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp,
    tcsetwinsize,
};

use crate::spec::Tty;

/// The holder's end of the terminal.
pub(super) struct CommandTerminal {
    end: File,
}

impl CommandTerminal {
    /// Opens a terminal and makes it the session's controlling terminal. Returns the command's end
    /// as a descriptor. The holder's end is never closed.
    pub(super) fn open(size: Tty) -> io::Result<(&'static Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let end = openpt(flags)?;
        unlockpt(&end)?;
        // The command's end is opened by ioctl rather than by name, because `/dev/pts` may belong
        // to another container.
        let other = ioctl_tiocgptpeer(&end, flags)?;
        ioctl_fionbio(&end, true)?;
        let terminal: &'static Self = Box::leak(Box::new(Self { end: end.into() }));
        terminal.resize(size)?;
        set_utf8(&other)?;
        ioctl_tiocsctty(&other)?;
        Ok((terminal, other))
    }

    /// Puts the command's group in the foreground, and continues it. It may already have been
    /// stopped for using the terminal from the background.
    pub(super) fn set_foreground(&self, leader: Pid) -> io::Result<()> {
        tcsetpgrp(&self.end, leader)?;
        Ok(kill_process_group(leader, Signal::CONT)?)
    }

    pub(super) fn has_foreground(&self, group: Pid) -> bool {
        tcgetpgrp(&self.end).is_ok_and(|front| front == group)
    }

    /// Sets the size. If the size changed, the kernel notifies the foreground group.
    pub(super) fn resize(&self, Tty { columns, rows }: Tty) -> io::Result<()> {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.end, size)?)
    }

    /// Whether a program is reading a line without echo, such as a password.
    pub(super) fn is_asking_for_secret(&self) -> bool {
        let modes = tcgetattr(&self.end).map(|found| found.local_modes);
        modes.is_ok_and(|modes| {
            modes.contains(LocalModes::ICANON) && !modes.contains(LocalModes::ECHO)
        })
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.end).read(buffer)
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.end).write(bytes)
    }
}

impl AsFd for CommandTerminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// Makes the terminal treat input as UTF-8, so that it erases whole characters.
fn set_utf8(end: &OwnedFd) -> io::Result<()> {
    let mut modes = tcgetattr(end)?;
    modes.input_modes |= InputModes::IUTF8;
    Ok(tcsetattr(end, OptionalActions::Now, &modes)?)
}
