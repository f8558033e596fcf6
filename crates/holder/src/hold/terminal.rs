//! The command's terminal: a pair of ends, of which the command has one and we the other.
//!
//! It is the controlling terminal of our own session, with the command's group in its foreground. Were the command
//! the leader of a session of its own, its end would hang the terminal up: the kernel throws away what was not read
//! yet, and its descendants could not finish their words within the settle time, as they can on pipes. The price is
//! that our end must stay open until we leave, since the hangup would then be ours.

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

/// Our end of the terminal.
pub(super) struct Terminal {
    end: File,
}

impl Terminal {
    /// Opens a terminal and makes it that of our session. The other end is the command's; ours is never closed.
    pub(super) fn open(size: Tty) -> io::Result<(&'static Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let end = openpt(flags)?;
        unlockpt(&end)?;
        // Not by its name: `/dev/pts` may be that of another container.
        let other = ioctl_tiocgptpeer(&end, flags)?;
        ioctl_fionbio(&end, true)?;
        let terminal: &'static Self = Box::leak(Box::new(Self { end: end.into() }));
        terminal.resize(size)?;
        speak_utf8(&other)?;
        ioctl_tiocsctty(&other)?;
        Ok((terminal, other))
    }

    /// Gives the command's group the foreground. It may have run into being in the background before, and been
    /// stopped for it.
    pub(super) fn bring_forward(&self, leader: Pid) -> io::Result<()> {
        tcsetpgrp(&self.end, leader)?;
        Ok(kill_process_group(leader, Signal::CONT)?)
    }

    pub(super) fn has_in_front(&self, group: Pid) -> bool {
        tcgetpgrp(&self.end).is_ok_and(|front| front == group)
    }

    /// Sets the size; the kernel tells those in the foreground if it is another.
    pub(super) fn resize(&self, Tty { columns, rows }: Tty) -> io::Result<()> {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.end, size)?)
    }

    /// Whether a line is being asked for that is not to be seen, as passwords are.
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

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

/// Has the terminal erase whole characters.
fn speak_utf8(end: &OwnedFd) -> io::Result<()> {
    let mut modes = tcgetattr(end)?;
    modes.input_modes |= InputModes::IUTF8;
    Ok(tcsetattr(end, OptionalActions::Now, &modes)?)
}
