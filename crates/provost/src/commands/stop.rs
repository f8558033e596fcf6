//! `provost stop`

use clap::Args;
use serde_json::json;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

/// End a session's process and keep the session
///
/// The process is interrupted, then sent TERM, then KILL, with all its descendants. What it did stays,
/// and the session can be given a new instruction.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost stop 1a2b3c4d\n  provost stop fixer --json")]
pub(crate) struct StopArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &StopArgs) -> Outcome {
    change(context, &args.id, "stop", &json!({}), &args.key)
}
