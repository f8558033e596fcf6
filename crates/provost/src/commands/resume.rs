//! `provost resume`

use clap::Args;
use provost_api::SendRequest;
use serde_json::json;

use super::{
    change::{KeyArgs, TakeOverArgs, change, change_any},
    input,
};
use crate::{cli::Outcome, context::Context};

/// What an agent is told if nothing else is given.
const GO_ON: &str =
    "Go on with your work where you were. Look at the files first: they are as they were left.";

/// Go on with a session that was stopped or has ended, in the same conversation, or with a run
///
/// A run that failed or was cancelled goes on with exactly what is left of it. What was imported from another home runs
/// nothing here until --take-over is given: its record names the programs.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost resume 1a2b3c4d\n  provost resume 1a2b3c4d 'The network is back: go on.'"
)]
pub(crate) struct ResumeArgs {
    /// The session or run: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// What to say to a session; `-` takes it from standard input
    text: Option<String>,
    #[command(flatten)]
    take_over: TakeOverArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &ResumeArgs) -> Outcome {
    let text = input::text(args.text.as_deref().unwrap_or(GO_ON))?;
    args.take_over.apply(context, &args.id)?;
    let send = SendRequest { text, supersede: false };
    if args.text.is_some() {
        // A run words by itself what its agents are told.
        return change(context, &args.id, "send", &send, &args.key);
    }
    change_any(context, &args.id, ("send", &send), ("resume", &json!({})), &args.key)
}
