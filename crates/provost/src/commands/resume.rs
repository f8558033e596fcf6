//! `provost resume`

use clap::Args;
use provost_api::SendRequest;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

/// What an agent is told if nothing else is given.
const GO_ON: &str =
    "Go on with your work where you were. Look at the files first: they are as they were left.";

/// Go on with a session that was stopped or has ended, in the same conversation
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost resume 1a2b3c4d\n  provost resume 1a2b3c4d 'The network is back: go on.'"
)]
pub(crate) struct ResumeArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// What to say; `-` takes it from standard input
    text: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &ResumeArgs) -> Outcome {
    let text = input::text(args.text.as_deref().unwrap_or(GO_ON))?;
    change(context, &args.id, "send", &SendRequest { text, supersede: false }, &args.key)
}
