//! `provost cancel`

use clap::Args;
use provost_api::CancelRequest;

use super::{
    input,
    mutation::{KeyArgs, change_any},
};
use crate::{cli::CliResult, context::Context};

/// End a session or run with the outcome `cancelled`
///
/// The agents of a run are interrupted and their processes ended; all of their work stays in place.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost cancel 1a2b3c4d --because 'no longer needed'")]
pub(crate) struct CancelArgs {
    /// Session or run ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the operator")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &CancelArgs) -> CliResult {
    let request = CancelRequest { because: args.because.clone() };
    change_any(context, &args.id, "cancel", &request, "cancel", &request, &args.key)
}
