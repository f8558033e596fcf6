//! `provost cancel`

use clap::Args;
use provost_api::{CancelRequest, RunStateName};
use provost_core::lifecycle::State;

use super::{
    input,
    mutation::{KeyArgs, change_found},
};
use crate::{cli::CliResult, context::Context, target::SessionOrRun};

/// End a session or run with the outcome `cancelled`
///
/// For a run, Provost interrupts the agents and terminates their processes. All work is kept. If
/// the session or run is already cancelled, the command has no effect and exits with code 0. If it
/// ended with another outcome, the command fails and shows that outcome.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost cancel 1a2b3c4d --because 'no longer needed'")]
pub(crate) struct CancelArgs {
    /// Session or run ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the operator")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &CancelArgs) -> CliResult {
    let found = context.find_session_or_run(&args.id)?;
    if is_cancelled(&found) {
        context.ui.notice("already cancelled");
    }
    let request = CancelRequest { because: args.because.clone() };
    change_found(context, found, "cancel", &request, "cancel", &request, &args.key)
}

fn is_cancelled(found: &SessionOrRun) -> bool {
    match found {
        SessionOrRun::Session(row) => row.state == State::Cancelled,
        // A run has a cause only if it is stopping for a reason other than cancellation.
        SessionOrRun::Run(row) => {
            row.state == RunStateName::Cancelled
                || (row.state == RunStateName::Stopping && row.cause.is_none())
        }
    }
}
