//! The terminal that an agent has of its own, shown in the one of whoever asks.

use std::{
    io::{self, PipeReader, Write as _, stdin, stdout},
    os::fd::AsFd as _,
    path::Path,
    process::Command,
    thread,
};

use provost_api::{ApiError, Code};
use provost_holder::client::viewport::{self, Call, Left, Place, Shown};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{error::chain, viewport::OwnWindow};

/// Shows the terminal of a launch until the person leaves, with Ctrl-\, or the agent's holder does. In a window of
/// tmux a person is there only while it is shown.
pub(super) fn show(launch: &Path, window: Option<OwnWindow>) -> Result<Left, ApiError> {
    let cannot =
        |why: &dyn std::error::Error| chain(Code::Refused, "cannot show the terminal", why);
    let attended = window.as_ref().is_none_or(OwnWindow::is_shown);
    let calls = Signals::hear(window).map_err(|why| cannot(&why))?;
    let (input, output) = (stdin(), stdout());
    let (input, output, calls) = (input.as_fd(), output.as_fd(), calls.as_fd());
    let place = Place { input, output, calls, attended };
    viewport::view(launch, place).map_err(|why| cannot(&why))
}

/// Shows a program on a terminal of its own until the person leaves with Ctrl-\, it ends, or there is nothing more to show.
pub(super) fn show_program(
    command: Command,
    is_over: impl Fn() -> bool,
) -> Result<Shown, viewport::Error> {
    let calls = Signals::hear(None)?;
    let (input, output) = (stdin(), stdout());
    let (input, output, calls) = (input.as_fd(), output.as_fd(), calls.as_fd());
    viewport::run_program(command, Place { input, output, calls, attended: true }, is_over)
}

/// The signals that concern a viewport. Whoever is told to end leaves, so that the terminal is given back.
struct Signals {
    resized: Signal,
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they are passed on as calls.
    fn hear(window: Option<OwnWindow>) -> io::Result<PipeReader> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let (calls, mut caller) = io::pipe()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals {
                resized: signal(SignalKind::window_change())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
                interrupt: signal(SignalKind::interrupt())?,
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            loop {
                let call = runtime.block_on(signals.next());
                let resized = window.as_ref().filter(|_| call == Call::Resized);
                let seen = resized.map(|window| match window.is_shown() {
                    true => Call::Attended,
                    false => Call::Unattended,
                });
                let bytes: Vec<u8> =
                    [Some(call), seen].into_iter().flatten().map(Call::byte).collect();
                if caller.write_all(&bytes).is_err() {
                    return;
                }
            }
        })?;
        Ok(calls)
    }

    async fn next(&mut self) -> Call {
        tokio::select! {
            _ = self.resized.recv() => Call::Resized,
            _ = self.terminate.recv() => Call::Leave,
            _ = self.hangup.recv() => Call::Leave,
            _ = self.interrupt.recv() => Call::Leave,
        }
    }
}
