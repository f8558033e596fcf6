//! Shows an agent's own terminal in the user's terminal.

use std::{
    io::{self, PipeReader, Write as _, stdin, stdout},
    os::fd::AsFd as _,
    path::Path,
    process::Command,
    thread,
};

use provost_api::{ApiError, ErrorCode};
use provost_holder::client::viewport::{
    self, ProgramViewEnd, ViewportCall, ViewportExit, ViewportIo,
};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{error::chain, viewport::CurrentWindow};

/// Shows the terminal of a launch until the user detaches with Ctrl-\ or the agent's holder exits.
/// In a tmux window, the user counts as present only while the window is visible. Calls `ready` as
/// soon as Ctrl-\ works.
pub(super) fn show(
    launch: &Path,
    window: Option<CurrentWindow>,
    ready: impl FnOnce(),
) -> Result<ViewportExit, ApiError> {
    let cannot =
        |why: &dyn std::error::Error| chain(ErrorCode::Refused, "cannot show the terminal", why);
    let attended = window.as_ref().is_none_or(CurrentWindow::is_displayed);
    let calls = ViewportSignals::forward(window).map_err(|why| cannot(&why))?;
    ready();
    let (input, output) = (stdin(), stdout());
    let (input, output, calls) = (input.as_fd(), output.as_fd(), calls.as_fd());
    let place = ViewportIo { input, output, calls, attended };
    viewport::view(launch, place).map_err(|why| cannot(&why))
}

/// Runs a program in a separate terminal until the user detaches with Ctrl-\, the program exits, or
/// the launch ends. Calls `ready` as soon as Ctrl-\ works.
pub(super) fn show_program(
    command: Command,
    is_over: impl Fn() -> bool,
    ready: impl FnOnce(),
) -> Result<ProgramViewEnd, viewport::Error> {
    let calls = ViewportSignals::forward(None)?;
    ready();
    let (input, output) = (stdin(), stdout());
    let (input, output, calls) = (input.as_fd(), output.as_fd(), calls.as_fd());
    viewport::run_program(command, ViewportIo { input, output, calls, attended: true }, is_over)
}

/// The signals that a viewport handles. After a termination signal, the viewport detaches before
/// the program exits, so that the terminal is restored. Until the terminal is in raw mode, Ctrl-\
/// arrives as SIGQUIT.
struct ViewportSignals {
    resized: Signal,
    terminate: Signal,
    hangup: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl ViewportSignals {
    /// Starts a thread that forwards the signals to the viewport.
    fn forward(window: Option<CurrentWindow>) -> io::Result<PipeReader> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let (calls, mut caller) = io::pipe()?;
        let mut signals = {
            let _entered = runtime.enter();
            ViewportSignals {
                resized: signal(SignalKind::window_change())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            loop {
                let call = runtime.block_on(signals.next());
                let resized = if call == ViewportCall::Resized { window.as_ref() } else { None };
                let shown = resized.map(CurrentWindow::is_displayed);
                let seen = shown.map(|shown| {
                    if shown { ViewportCall::Attended } else { ViewportCall::Unattended }
                });
                let bytes: Vec<u8> =
                    [Some(call), seen].into_iter().flatten().map(ViewportCall::byte).collect();
                if caller.write_all(&bytes).is_err() {
                    return;
                }
            }
        })?;
        Ok(calls)
    }

    async fn next(&mut self) -> ViewportCall {
        tokio::select! {
            _ = self.resized.recv() => ViewportCall::Resized,
            _ = self.terminate.recv() => ViewportCall::Leave,
            _ = self.hangup.recv() => ViewportCall::Leave,
            _ = self.interrupt.recv() => ViewportCall::Leave,
            _ = self.quit.recv() => ViewportCall::Leave,
        }
    }
}
