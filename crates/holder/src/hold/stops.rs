//! Sees the leader being stopped and going on. A pidfd tells of neither and an idle holder does not look around, so
//! a thread waits for it, which costs nothing until it happens.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use super::output::nonblocking;

/// The thread does next to nothing.
const STACK: usize = 64 << 10;
/// What stands for going on, where otherwise a signal's number does.
const CONTINUED: u8 = 0;

/// The changes that were seen and not yet taken.
pub(super) struct Stops {
    seen: File,
}

/// What happened to the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// By this signal.
    Stopped(i32),
    Continued,
}

/// What is to be done about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    /// It is suspended from now on, or no longer.
    Tell {
        suspended: bool,
    },
    /// Nobody else would let it go on.
    Wake,
    Nothing,
}

/// Where the leader stands in its terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has none.
    NoTerminal,
    Foreground,
    Background,
}

impl Stops {
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

    /// The next change that was seen. The end is one without a change.
    pub(super) fn take(&mut self) -> io::Result<Option<Change>> {
        let mut byte = [CONTINUED];
        let read = self.seen.read(&mut byte)?;
        Ok((read > 0).then_some(match byte {
            [CONTINUED] => Change::Continued,
            [signal] => Change::Stopped(i32::from(signal)),
        }))
    }
}

impl Change {
    /// What to do, with what was told of the leader before. A stop that a terminal asked for is taken back by the
    /// shell that started the command; here there is none, so that a key would suspend an agent for good.
    pub(super) fn reaction(self, standing: Standing, suspended: bool) -> Reaction {
        let by = |signal: Signal| self == Self::Stopped(signal.as_raw());
        let in_vain = match standing {
            Standing::NoTerminal => false,
            // In the background it would run into the same stop again.
            Standing::Background => by(Signal::TSTP),
            Standing::Foreground => by(Signal::TSTP) || by(Signal::TTIN) || by(Signal::TTOU),
        };
        match self {
            Self::Stopped(_) if in_vain => Reaction::Wake,
            Self::Stopped(_) if !suspended => Reaction::Tell { suspended: true },
            Self::Continued if suspended => Reaction::Tell { suspended: false },
            Self::Stopped(_) | Self::Continued => Reaction::Nothing,
        }
    }
}

/// Tells of every change until the leader ended or nobody listens.
fn watch(leader: Pid, mut tell: impl Write) {
    let changes = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    // The end is not ours to take: it is only seen.
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

    fn stopped(signal: Signal) -> Change {
        Change::Stopped(signal.as_raw())
    }

    #[test]
    fn a_change_is_told_once() {
        let reaction = |change: Change, suspended| change.reaction(Standing::NoTerminal, suspended);
        for signal in [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU] {
            assert_eq!(reaction(stopped(signal), false), Reaction::Tell { suspended: true });
            assert_eq!(reaction(stopped(signal), true), Reaction::Nothing);
        }
        assert_eq!(reaction(Change::Continued, true), Reaction::Tell { suspended: false });
        assert_eq!(reaction(Change::Continued, false), Reaction::Nothing);
    }

    #[test]
    fn what_a_terminal_stops_goes_on_unless_it_would_stop_again() {
        let reaction = |signal, standing| stopped(signal).reaction(standing, false);
        let told = Reaction::Tell { suspended: true };
        for standing in [Standing::Foreground, Standing::Background] {
            assert_eq!(reaction(Signal::TSTP, standing), Reaction::Wake);
            assert_eq!(reaction(Signal::STOP, standing), told);
        }
        for signal in [Signal::TTIN, Signal::TTOU] {
            assert_eq!(reaction(signal, Standing::Foreground), Reaction::Wake);
            assert_eq!(reaction(signal, Standing::Background), told);
        }
    }
}
