//! `provost send`

use clap::Args;
use provost_api::SendRequest;

use super::{
    input,
    mutation::{KeyArgs, TakeOverArgs, change},
};
use crate::{cli::CliResult, context::Context};

/// Send a message to a session
///
/// The agent receives the message during the open attempt. If no attempt is open, the message
/// becomes the next instruction. To send a message to a member of a team, use `provost team send`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost send 1a2b3c4d 'Also update the changelog.'\n  provost send fixer - < instruction.md\n  provost send fixer --supersede 'Leave that; fix the tests first.'"
)]
pub(crate) struct SendArgs {
    /// Session ID or name
    #[arg(value_name = "SESSION", value_parser = input::parse_name)]
    id: String,
    /// Message; `-` reads standard input
    text: String,
    /// End the open attempt as superseded, and start the next one with this message
    #[arg(long)]
    supersede: bool,
    #[command(flatten)]
    take_over: TakeOverArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &SendArgs) -> CliResult {
    let request = SendRequest {
        text: input::read_text("the message", &args.text)?,
        supersede: args.supersede,
    };
    args.take_over.apply(context, &args.id)?;
    change(context, &args.id, "send", &request, &args.key)
}
