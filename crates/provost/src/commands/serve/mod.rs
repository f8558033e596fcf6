//! `provost serve`

mod news;
mod open;
mod pass;
mod seen;
mod source;
mod wake;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::Args;

use self::{
    news::News,
    pass::Server,
    source::Source,
    wake::{Wake, Waker},
};
use crate::{cli::Outcome, clock, context::Context, error::Error};

/// Turn the issues of a tracker into runs, by the repository's WORKFLOW.md
///
/// Looks at the tracker again and again, opens a run for each issue that is to be worked on, cancels runs whose issues
/// no longer are, and tries again what failed. What it knows it knows from the daemon's runs: it may be ended and
/// started at any time, and opens nothing twice. Ctrl-C ends only the serving: runs go on.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost serve\n  provost serve --workflow docs/WORKFLOW.md\n  provost serve --once\n  provost serve --json"
)]
pub(crate) struct ServeArgs {
    /// The workflow; `WORKFLOW.md` in the current directory otherwise
    #[arg(value_name = "WORKFLOW", conflicts_with = "workflow")]
    file: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Look once, open and cancel what is due, and leave without waiting for anything
    #[arg(long)]
    once: bool,
}

/// The name of a workflow where none is given.
const WORKFLOW: &str = "WORKFLOW.md";

/// How long changes may follow each other before they are looked at: editors write a file in several steps.
const CALM: Duration = Duration::from_millis(50);

/// How many changes in a row are waited out: some directories never calm down.
const MOST_CALMS: u32 = 20;

pub(crate) fn run(context: &Context, args: &ServeArgs) -> Outcome {
    let given = args.file.clone().or_else(|| args.workflow.clone());
    let path = given.unwrap_or_else(|| PathBuf::from(WORKFLOW));
    let source = Source::open(&context.environment.here()?.join(path), context)?;
    let mut server = Server::new(context, source);
    match args.once {
        true => server.pass().map(|_| server.outcome()),
        false => serve(context, &mut server),
    }
}

/// Passes over the tracker until somebody wants it to end.
fn serve(context: &Context, server: &mut Server<'_>) -> Outcome {
    // From here on Ctrl-C is heard, before anything is opened.
    let mut waker = Waker::start(context)?;
    server.tell(&News::Serving(server.source.about()))?;
    loop {
        waker.watch(&server.source.places());
        let due = match server.pass() {
            Ok(due) => due,
            Err(Error::Api(error)) => {
                server.tell(&News::Failed { message: error.message })?;
                None
            }
            Err(error) => return Err(error),
        };
        match wait(&waker, pause(server.source.interval(), due)) {
            Wake::Look => {}
            Wake::Leave => break,
        }
    }
    server.tell(&News::Leaving { runs: server.going() })?;
    Ok(ExitCode::SUCCESS)
}

/// What is due by itself is not waited for longer than that.
fn pause(interval: Duration, due_ms: Option<u64>) -> Duration {
    let now = u64::try_from(clock::now_ms()).unwrap_or(0);
    let until = due_ms.map(|due| Duration::from_millis(due.saturating_sub(now)));
    until.map_or(interval, |until| until.min(interval))
}

/// Waits for a change or for the time, and then until changes have calmed down, as far as they do.
fn wait(waker: &Waker, pause: Duration) -> Wake {
    let mut wake = waker.next(pause);
    for _ in 0..MOST_CALMS {
        if wake != Some(Wake::Look) {
            break;
        }
        match waker.next(CALM) {
            None => return Wake::Look,
            more => wake = more,
        }
    }
    wake.unwrap_or(Wake::Look)
}
