//! `provost send`

use clap::Args;
use provost_api::SendRequest;

use super::{
    change::{KeyArgs, change},
    input,
};
use crate::{cli::Outcome, context::Context};

/// Say something to a session's agent
///
/// While an attempt is open the text steers it; afterwards it is the next instruction.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost send 1a2b3c4d 'Also update the changelog.'\n  provost send fixer - < instruction.md\n  provost send fixer --supersede 'Leave that; fix the tests first.'"
)]
pub(crate) struct SendArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// What to say; `-` takes it from standard input
    text: String,
    /// End the open attempt as superseded and make this the next instruction
    #[arg(long)]
    supersede: bool,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &SendArgs) -> Outcome {
    let request = SendRequest { text: input::text(&args.text)?, supersede: args.supersede };
    change(context, &args.id, "send", &request, &args.key)
}
