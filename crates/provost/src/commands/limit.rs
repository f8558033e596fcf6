//! `provost limit`

use clap::Args;
use provost_api::LimitRequest;

use super::{
    input,
    mutation::{KeyArgs, change_any},
};
use crate::{cli::CliResult, context::Context, settings};

/// Raise a limit of a session or run, so that it continues
///
/// An attempt that its budget ended stays ended; `provost resume` opens the next one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost limit 1a2b3c4d --output 4GiB\n  provost limit 1a2b3c4d --tokens 4M && provost resume 1a2b3c4d",
    group(clap::ArgGroup::new("what").required(true).multiple(true).args(["output", "tokens", "turns"]))
)]
pub(crate) struct LimitArgs {
    /// Session or run ID (a unique part is enough) or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Maximum output kept per launch, in bytes or with a unit such as 64MiB
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["tokens", "turns"])]
    output: Option<String>,
    /// Maximum number of tokens in total, such as 500k or 2M
    #[arg(long, value_name = "N", value_parser = input::parse_count)]
    tokens: Option<u64>,
    /// Maximum number of turns in total
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &LimitArgs) -> CliResult {
    let output = args.output.as_deref().map(|text| settings::parse_size("--output", text));
    let request =
        LimitRequest { output: output.transpose()?, tokens: args.tokens, turns: args.turns };
    change_any(context, &args.id, "limit", &request, "limit", &request, &args.key)
}
