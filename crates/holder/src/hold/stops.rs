//! Observes when the leader is stopped or continued by a signal. A pidfd reports neither, and an
//! idle holder does not poll, so a thread waits for these changes. The thread costs nothing until a
//! change occurs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::output::nonblocking;

/// The thread needs very little stack.
const STACK: usize = 64 << 10;
/// The byte that represents a continue. Other bytes are signal numbers.
const CONTINUED: u8 = 0;

/// Observed changes that have not been handled yet.
pub(super) struct StopWatch {
    seen: File,
}

/// A stop or continue of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopChange {
    /// The leader was stopped by this signal.
    Stopped(i32),
    Continued,
}

/// The action to take after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReaction {
    /// Report whether the command is suspended now.
    Report {
        suspended: bool,
    },
    /// Continue the command, because no other process will.
    Wake,
    Nothing,
}

/// The leader's relation to its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TtyPosition {
    /// The command has no terminal.
    NoTerminal,
    Foreground,
    Background,
}

impl StopWatch {
    pub(super) fn watch(leader: Pid) -> io::Result<Self> {
        let (seen, report) = io::pipe()?;
        let seen = nonblocking(seen.into()).ok_or(io::ErrorKind::Unsupported)?;
        let watcher = thread::Builder::new().name("stops".into()).stack_size(STACK);
        watcher.spawn(move || watch(leader, report))?;
        Ok(Self { seen })
    }

    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }

    /// Returns the next observed change. `None` if the leader has exited.
    pub(super) fn take(&mut self) -> io::Result<Option<StopChange>> {
        let mut byte = [CONTINUED];
        let read = self.seen.read(&mut byte)?;
        Ok((read > 0).then_some(match byte {
            [CONTINUED] => StopChange::Continued,
            [signal] => StopChange::Stopped(i32::from(signal)),
        }))
    }
}

impl StopChange {
    /// Returns the reaction to a change, given the last reported state. Normally, a command that is
    /// stopped from the terminal is continued by the shell that started it. Here there is no shell,
    /// so a key press would suspend an agent forever.
    pub(super) fn reaction(self, position: TtyPosition, suspended: bool) -> StopReaction {
        let by = |signal: Signal| self == Self::Stopped(signal.as_raw());
        let in_vain = match position {
            TtyPosition::NoTerminal => false,
            // A command in the background would immediately be stopped again.
            TtyPosition::Background => by(Signal::TSTP),
            TtyPosition::Foreground => by(Signal::TSTP) || by(Signal::TTIN) || by(Signal::TTOU),
        };
        match self {
            Self::Stopped(_) if in_vain => StopReaction::Wake,
            Self::Stopped(_) if !suspended => StopReaction::Report { suspended: true },
            Self::Continued if suspended => StopReaction::Report { suspended: false },
            Self::Stopped(_) | Self::Continued => StopReaction::Nothing,
        }
    }
}

/// Reports every change until the leader exits or the reader is gone.
fn watch(leader: Pid, mut report: impl Write) {
    let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    // This call only observes the leader's exit. The owner of the leader reaps it.
    let any = changes | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(leader), any) {
            Ok(Some(status)) if status.stopped() || status.continued() => {}
            Err(Errno::INTR) => continue,
            Ok(_) | Err(_) => return,
        }
        let taken = waitid(WaitId::Pid(leader), changes | WaitIdOptions::NOHANG);
        let Ok(Some(status)) = taken else { continue };
        if report.write_all(&[byte(&status)]).is_err() {
            return;
        }
    }
}

fn byte(status: &WaitIdStatus) -> u8 {
    let signal = status.stopping_signal().and_then(|signal| u8::try_from(signal).ok());
    signal.unwrap_or(CONTINUED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped(signal: Signal) -> StopChange {
        StopChange::Stopped(signal.as_raw())
    }

    #[test]
    fn change_is_reported_once() {
        let reaction =
            |change: StopChange, suspended| change.reaction(TtyPosition::NoTerminal, suspended);
        for signal in [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU] {
            assert_eq!(reaction(stopped(signal), false), StopReaction::Report { suspended: true });
            assert_eq!(reaction(stopped(signal), true), StopReaction::Nothing);
        }
        assert_eq!(
            reaction(StopChange::Continued, true),
            StopReaction::Report { suspended: false }
        );
        assert_eq!(reaction(StopChange::Continued, false), StopReaction::Nothing);
    }

    #[test]
    fn terminal_stop_is_continued_unless_in_background() {
        let reaction = |signal, position| stopped(signal).reaction(position, false);
        let reported = StopReaction::Report { suspended: true };
        for position in [TtyPosition::Foreground, TtyPosition::Background] {
            assert_eq!(reaction(Signal::TSTP, position), StopReaction::Wake);
            assert_eq!(reaction(Signal::STOP, position), reported);
        }
        for signal in [Signal::TTIN, Signal::TTOU] {
            assert_eq!(reaction(signal, TtyPosition::Foreground), StopReaction::Wake);
            assert_eq!(reaction(signal, TtyPosition::Background), reported);
        }
    }
}
