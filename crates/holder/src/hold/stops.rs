//! Observes when the leader is stopped and continued. A pidfd reports neither and an idle holder
//! does not poll, so a thread waits for it, which costs nothing until it happens.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::output::nonblocking;

/// The thread needs very little stack.
const STACK: usize = 64 << 10;
/// The value for a continue; other values are signal numbers.
const CONTINUED: u8 = 0;

/// The observed changes that were not handled yet.
pub(super) struct StopWatch {
    seen: File,
}

/// A change of the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopChange {
    /// Stopped by this signal.
    Stopped(i32),
    Continued,
}

/// The response to a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReaction {
    /// Report that it is now suspended, or no longer.
    Report {
        suspended: bool,
    },
    /// Continue it, because no other process would.
    Wake,
    Nothing,
}

/// The leader's relation to its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TtyPosition {
    /// It has no terminal.
    NoTerminal,
    Foreground,
    Background,
}

impl StopWatch {
    pub(super) fn watch(leader: Pid) -> io::Result<Self> {
        let (seen, tell) = io::pipe()?;
        let seen = nonblocking(seen.into()).ok_or(io::ErrorKind::Unsupported)?;
        let watcher = thread::Builder::new().name("stops".into()).stack_size(STACK);
        watcher.spawn(move || watch(leader, tell))?;
        Ok(Self { seen })
    }

    pub(super) fn handle(&self) -> BorrowedFd<'_> {
        self.seen.as_fd()
    }

    /// The next observed change. `None` if the leader has ended.
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
    /// The response to a change, given the last reported state. Normally the shell that started a
    /// command continues it after a stop from the terminal. Here there is no shell, so a key would
    /// suspend an agent for good.
    pub(super) fn reaction(self, standing: TtyPosition, suspended: bool) -> StopReaction {
        let by = |signal: Signal| self == Self::Stopped(signal.as_raw());
        let in_vain = match standing {
            TtyPosition::NoTerminal => false,
            // In the background it would be stopped again at once.
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

/// Reports every change until the leader ends or the reader is gone.
fn watch(leader: Pid, mut tell: impl Write) {
    let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    // The exit is only observed; the leader's owner reaps it.
    let any = changes | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(leader), any) {
            Ok(Some(status)) if status.stopped() || status.continued() => {}
            Err(Errno::INTR) => continue,
            Ok(_) | Err(_) => return,
        }
        let taken = waitid(WaitId::Pid(leader), changes | WaitIdOptions::NOHANG);
        let Ok(Some(status)) = taken else { continue };
        if tell.write_all(&[byte(&status)]).is_err() {
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
        let reaction = |signal, standing| stopped(signal).reaction(standing, false);
        let told = StopReaction::Report { suspended: true };
        for standing in [TtyPosition::Foreground, TtyPosition::Background] {
            assert_eq!(reaction(Signal::TSTP, standing), StopReaction::Wake);
            assert_eq!(reaction(Signal::STOP, standing), told);
        }
        for signal in [Signal::TTIN, Signal::TTOU] {
            assert_eq!(reaction(signal, TtyPosition::Foreground), StopReaction::Wake);
            assert_eq!(reaction(signal, TtyPosition::Background), told);
        }
    }
}
