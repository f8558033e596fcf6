//! `provost limit`

use clap::Args;
use provost_api::LimitRequest;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context, settings};

/// Raise a session's limit, so that an agent that was held back goes on
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost limit 1a2b3c4d --output 4GiB")]
pub(crate) struct LimitArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// How much output of a launch is kept: bytes, or with a unit such as 64MiB
    #[arg(long, value_name = "SIZE")]
    output: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &LimitArgs) -> Outcome {
    let request = LimitRequest { output: settings::parse_size("--output", &args.output)? };
    change(context, &args.id, "limit", &request, &args.key)
}
