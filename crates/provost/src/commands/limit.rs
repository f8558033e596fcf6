//! `provost limit`

use clap::Args;
use provost_api::LimitRequest;

use super::{
    change::{KeyArgs, change_any},
    input,
};
use crate::{cli::Outcome, context::Context, settings};

/// Raise a limit of a session or a run, so that an agent that was held back goes on
///
/// An attempt that was ended by its budget stays ended: `provost resume` opens the next one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost limit 1a2b3c4d --output 4GiB\n  provost limit 1a2b3c4d --tokens 4M && provost resume 1a2b3c4d",
    group(clap::ArgGroup::new("what").required(true).multiple(true).args(["output", "tokens", "turns"]))
)]
pub(crate) struct LimitArgs {
    /// The session or run: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// How much output of a session's launch is kept: bytes, or with a unit such as 64MiB
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["tokens", "turns"])]
    output: Option<String>,
    /// How many tokens may be used in all, such as 500k or 2M
    #[arg(long, value_name = "N", value_parser = input::parse_count)]
    tokens: Option<u64>,
    /// How many turns may be taken in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &LimitArgs) -> Outcome {
    let output = args.output.as_deref().map(|text| settings::parse_size("--output", text));
    let request =
        LimitRequest { output: output.transpose()?, tokens: args.tokens, turns: args.turns };
    change_any(context, &args.id, ("limit", &request), ("limit", &request), &args.key)
}
