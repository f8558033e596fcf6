//! `provost resolve`

use clap::{Args, ValueEnum};
use provost_api::ResolveRequest;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

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
    to: Outcomes,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outcomes {
    Accepted,
    Failed,
    Cancelled,
}

pub(crate) fn run(context: &Context, args: &ResolveArgs) -> Outcome {
    let to = match args.to {
        Outcomes::Accepted => "accepted",
        Outcomes::Failed => "failed",
        Outcomes::Cancelled => "cancelled",
    };
    let request = ResolveRequest { to: to.to_owned(), because: input::text(&args.because)? };
    change(context, &args.id, "resolve", &request, &args.key)
}
