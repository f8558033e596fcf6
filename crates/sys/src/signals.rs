//! The dispositions of signals that a new program inherits.

use std::io;

/// The signals that terminate a process by default and that one process may send to another to end,
/// interrupt or notify it. SIGKILL cannot be ignored.
const TERMINATING: &[libc::c_int] = &[
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
    libc::SIGSTKFLT,
];

/// Ignores signals that would terminate this process. A program that it executes ignores them, too,
/// until [`restore_terminating`] is called.
pub fn ignore_terminating() -> io::Result<()> {
    set_all(libc::SIG_IGN)
}

/// Restores the default action of the signals of [`ignore_terminating`].
pub fn restore_terminating() -> io::Result<()> {
    set_all(libc::SIG_DFL)
}

fn set_all(action: libc::sighandler_t) -> io::Result<()> {
    for signal in TERMINATING {
        #[expect(unsafe_code, reason = "rustix has no call for signal actions")]
        // SAFETY: the action is a constant, so no code of this process runs in a handler.
        let before = unsafe { libc::signal(*signal, action) };
        if before == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
