//! The terminal that an agent has of its own, shown in the one of whoever asks.

use std::{
    io::{self, PipeReader, Write as _, stdin, stdout},
    os::fd::AsFd as _,
    path::Path,
    thread,
};

use provost_api::{ApiError, Code};
use provost_holder::client::viewport::{self, Call, Left, Place};
use tokio::{
    runtime::Builder,
    signal::unix::{Signal, SignalKind, signal},
};

use crate::error::chain;

/// Shows the terminal of a launch until the person leaves, with Ctrl-\, or the agent's holder does.
pub(super) fn show(launch: &Path) -> Result<Left, ApiError> {
    let cannot =
        |why: &dyn std::error::Error| chain(Code::Refused, "cannot show the terminal", why);
    let calls = Signals::hear().map_err(|why| cannot(&why))?;
    let (input, output) = (stdin(), stdout());
    let place = Place { input: input.as_fd(), output: output.as_fd(), calls: calls.as_fd() };
    viewport::view(launch, place).map_err(|why| cannot(&why))
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
    fn hear() -> io::Result<PipeReader> {
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
            while caller.write_all(&[runtime.block_on(signals.next()).byte()]).is_ok() {}
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
