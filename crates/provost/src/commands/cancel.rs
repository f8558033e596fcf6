//! `provost cancel`

use clap::Args;
use provost_api::CancelRequest;

use super::{
    change::{KeyArgs, change_any},
    input,
};
use crate::{cli::Outcome, context::Context};

/// End a session's work, or a run: its outcome is `cancelled`
///
/// A run's agent is interrupted and its processes are ended; every byte of its work stays where it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost cancel 1a2b3c4d --because 'no longer needed'")]
pub(crate) struct CancelArgs {
    /// The session or run: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Why, for the record
    #[arg(long, value_name = "TEXT", default_value = "cancelled by the operator")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &CancelArgs) -> Outcome {
    let request = CancelRequest { because: args.because.clone() };
    change_any(context, &args.id, ("cancel", &request), ("cancel", &request), &args.key)
}
