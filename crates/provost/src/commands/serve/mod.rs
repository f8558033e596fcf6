//! `provost serve`

mod event_log;
mod open;
mod reconcile;
mod run_state;
mod source;
mod waker;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;

use self::{
    event_log::ServeEvent,
    reconcile::TrackerServer,
    source::WorkflowSource,
    waker::{WakeReason, Waker},
};
use crate::{cli::CliResult, clock, context::Context, error::Error};

/// Turn a tracker's issues into runs, as WORKFLOW.md specifies
///
/// Polls the tracker, opens a run for each active issue, cancels runs of inactive issues and
/// retries failures. The command stores no state of its own, so you can stop and start it at any
/// time, and it opens no run twice. Ctrl-C ends only this command; its runs continue.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost serve\n  provost serve --workflow docs/WORKFLOW.md\n  provost serve --once\n  provost serve --json"
)]
pub(crate) struct ServeArgs {
    /// Workflow file [default: `WORKFLOW.md` in the current directory]
    #[arg(value_name = "WORKFLOW", conflicts_with = "workflow")]
    file: Option<PathBuf>,
    /// Workflow file, as an alternative to the argument WORKFLOW
    #[arg(long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Poll once, open and cancel runs, and exit without waiting
    #[arg(long)]
    once: bool,
}

/// The default name of the workflow file.
const WORKFLOW: &str = "WORKFLOW.md";

/// The time to wait for further changes before reading a file, because editors write in several
/// steps.
const SETTLE_PAUSE: Duration = Duration::from_millis(50);

/// The maximum number of consecutive changes to wait for, because some directories never settle.
const MAX_SETTLE_PAUSES: u32 = 20;

pub(crate) fn run(context: &Context, args: &ServeArgs) -> CliResult {
    let given = args.file.clone().or_else(|| args.workflow.clone());
    let path = given.unwrap_or_else(|| PathBuf::from(WORKFLOW));
    let source = WorkflowSource::open(&context.environment.current_dir()?.join(path), context)?;
    let mut server = TrackerServer::new(context, source);
    if args.once { server.pass().map(|_| server.outcome()) } else { serve(context, &mut server) }
}

/// Polls the tracker until interrupted.
fn serve(context: &Context, server: &mut TrackerServer<'_>) -> CliResult {
    // The waker handles Ctrl-C, so it must exist before any run is opened.
    let mut waker = Waker::start(context)?;
    server.report(&ServeEvent::Serving(server.source.summary()))?;
    loop {
        waker.watch(&server.source.watched_paths());
        let due = match server.pass() {
            Ok(due) => due,
            Err(Error::Api(error)) => {
                server.report(&ServeEvent::Failed { message: error.message })?;
                None
            }
            Err(error) => return Err(error),
        };
        match wait(&waker, pause(server.source.interval(), due)) {
            WakeReason::Poll => {}
            WakeReason::Stop => break,
        }
    }
    server.report(&ServeEvent::Leaving { runs: server.open_run_ids() })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the pause before the next poll. If a retry is due earlier, the pause is shorter.
fn pause(interval: Duration, due_ms: Option<u64>) -> Duration {
    let now = u64::try_from(clock::now_ms()).unwrap_or(0);
    let until = due_ms.map(|due| Duration::from_millis(due.saturating_sub(now)));
    until.map_or(interval, |until| until.min(interval))
}

/// Waits for a change or the timeout, and then until the changes stop.
fn wait(waker: &Waker, pause: Duration) -> WakeReason {
    let mut wake = waker.next(pause);
    for _ in 0..MAX_SETTLE_PAUSES {
        if wake != Some(WakeReason::Poll) {
            break;
        }
        match waker.next(SETTLE_PAUSE) {
            None => return WakeReason::Poll,
            more => wake = more,
        }
    }
    wake.unwrap_or(WakeReason::Poll)
}
