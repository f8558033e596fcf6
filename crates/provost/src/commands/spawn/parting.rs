//! Ctrl-C ends a wait, and not what is waited for.

use std::io;

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::ui::Ui;

/// The exit code of a wait that Ctrl-C ended, as shells have it for that signal.
const INTERRUPTED: i32 = 130;

/// From now on Ctrl-C ends this process only: it says so, and how to look.
pub(crate) fn on_interrupt(ui: &Ui, what: &str, next: &[String]) -> io::Result<()> {
    let (ui, what, next) = (ui.clone(), what.to_owned(), next.to_vec());
    hear_interrupt(move || part(&ui, &what, &next))
}

/// From now on this is done, on a thread of its own, whenever Ctrl-C is heard.
pub(crate) fn hear_interrupt(mut then: impl FnMut() + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    // From here on the signal is heard, before the id is shown.
    let mut interrupt = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
        while runtime.block_on(interrupt.recv()).is_some() {
            then();
        }
    })?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the thread that waits cannot be woken")]
fn part(ui: &Ui, what: &str, next: &[String]) -> ! {
    ui.talk(&format!("\nno longer waiting; {what} goes on"));
    ui.next(next);
    std::process::exit(INTERRUPTED)
}
