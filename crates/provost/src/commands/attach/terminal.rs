//! Shows an agent's own terminal in the user's terminal.

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

/// Shows the terminal of a launch until the user detaches with Ctrl-\ or the agent's holder exits. In a tmux window the
/// user counts as present only while the window is displayed.
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

/// Runs a program on its own terminal until the user detaches with Ctrl-\, it ends, or the launch is gone.
pub(super) fn show_program(
    command: Command,
    is_over: impl Fn() -> bool,
) -> Result<Shown, viewport::Error> {
    let calls = Signals::hear(None)?;
    let (input, output) = (stdin(), stdout());
    let (input, output, calls) = (input.as_fd(), output.as_fd(), calls.as_fd());
    viewport::run_program(command, Place { input, output, calls, attended: true }, is_over)
}

/// The signals that concern a viewport. A termination signal detaches first, so that the terminal is restored.
struct Signals {
    resized: Signal,
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Starts forwarding the signals as calls.
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
                let resized = if call == Call::Resized { window.as_ref() } else { None };
                let shown = resized.map(OwnWindow::is_shown);
                let seen = shown.map(|shown| if shown { Call::Attended } else { Call::Unattended });
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
