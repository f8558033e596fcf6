//! `provost cancel`

use clap::Args;
use provost_api::CancelRequest;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

/// End a session's work: its outcome is `cancelled`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost cancel 1a2b3c4d --because 'no longer needed'")]
pub(crate) struct CancelArgs {
    /// The session: its id, the beginning or end of it, or its name
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
    change(context, &args.id, "cancel", &request, &args.key)
}
