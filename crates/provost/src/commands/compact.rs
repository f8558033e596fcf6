//! `provost compact`

use clap::Args;
use serde_json::json;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

/// Have a session's agent make its conversation shorter
///
/// It is asked for that as soon as no turn is open. What it then keeps is up to the agent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost compact 1a2b3c4d\n  provost compact fixer --json")]
pub(crate) struct CompactArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &CompactArgs) -> Outcome {
    change(context, &args.id, "compact", &json!({}), &args.key)
}
