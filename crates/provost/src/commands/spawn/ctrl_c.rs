//! Ctrl-C handling for commands that wait. Ctrl-C ends the wait, but not the awaited work.

use std::io;

use tokio::{
    runtime::Builder,
    signal::unix::{SignalKind, signal},
};

use crate::ui::Ui;

/// The exit code of a wait that Ctrl-C ended. Shells use the same code for SIGINT.
const INTERRUPTED: i32 = 130;

/// Installs a Ctrl-C handler that ends only this process, and prints a message with commands to run next.
pub(crate) fn on_interrupt(ui: &Ui, what: &str, next: &[String]) -> io::Result<()> {
    let (ui, what, next) = (ui.clone(), what.to_owned(), next.to_vec());
    handle_interrupt(move || exit_interrupted(&ui, &what, &next))
}

/// Calls a closure on a separate thread whenever Ctrl-C is pressed.
pub(crate) fn handle_interrupt(mut then: impl FnMut() + Send + 'static) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    // From here on the signal is handled, so Ctrl-C works even before the ID is printed.
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

#[expect(clippy::disallowed_methods, reason = "the waiting thread cannot be interrupted")]
fn exit_interrupted(ui: &Ui, what: &str, next: &[String]) -> ! {
    ui.notice(&format!("\nno longer waiting; {what} continues"));
    ui.next(next);
    std::process::exit(INTERRUPTED)
}
