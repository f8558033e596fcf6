//! `provost resolve`

use clap::{Args, ValueEnum};
use provost_api::ResolveRequest;

use super::{
    input,
    mutation::{KeyArgs, change},
};
use crate::{cli::CliResult, context::Context};

/// Override the outcome of a session, with a reason
///
/// The sealed outcome stays on record; this appends another. `succeeded` is not available, because only checks can
/// establish it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost resolve 1a2b3c4d --as accepted --because 'read the diff, it is right'\n  provost resolve fixer --as failed --because 'it only deleted the test'"
)]
pub(crate) struct ResolveArgs {
    /// Session ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// New outcome
    #[arg(long = "as", value_name = "OUTCOME")]
    to: OutcomeArg,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutcomeArg {
    Accepted,
    Failed,
    Cancelled,
}

pub(crate) fn run(context: &Context, args: &ResolveArgs) -> CliResult {
    let to = match args.to {
        OutcomeArg::Accepted => "accepted",
        OutcomeArg::Failed => "failed",
        OutcomeArg::Cancelled => "cancelled",
    };
    let request = ResolveRequest { to: to.to_owned(), because: input::read_text(&args.because)? };
    change(context, &args.id, "resolve", &request, &args.key)
}
