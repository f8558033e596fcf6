//! `provost interrupt`

use clap::Args;
use provost_api::InterruptRequest;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

/// Have a session's agent leave its turn
///
/// The process and the conversation stay. With a text the agent goes on with that; without one it waits
/// for what is sent to it next.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost interrupt 1a2b3c4d\n  provost interrupt fixer 'Leave that; fix the tests first.'"
)]
pub(crate) struct InterruptArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// What to say next; `-` takes it from standard input
    text: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &InterruptArgs) -> Outcome {
    let text = args.text.as_deref().map(input::text).transpose()?;
    change(context, &args.id, "interrupt", &InterruptRequest { text }, &args.key)
}
