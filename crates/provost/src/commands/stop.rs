//! `provost stop`

use clap::Args;
use serde_json::json;

use super::{
    input,
    mutation::{KeyArgs, change},
};
use crate::{cli::CliResult, context::Context};

/// End a session's process and keep the session
///
/// The process and all its descendants are interrupted, then sent TERM, then KILL. The work is
/// kept, and the session can get a new instruction.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost stop 1a2b3c4d\n  provost stop fixer --json")]
pub(crate) struct StopArgs {
    /// Session ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &StopArgs) -> CliResult {
    change(context, &args.id, "stop", &json!({}), &args.key)
}
