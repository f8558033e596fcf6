//! `provost resume`

use clap::Args;
use provost_api::SendRequest;
use serde_json::json;

use super::{
    input,
    mutation::{KeyArgs, TakeOverArgs, change, change_found},
};
use crate::{cli::CliResult, context::Context};

/// The instruction to send if the user gives none.
const DEFAULT_INSTRUCTION: &str =
    "Continue your work where you left off. Look at the files first: they are as you left them.";

/// Continue a stopped or finished session or run
///
/// A session continues in the same conversation. A run that failed or was cancelled continues with
/// its remaining work. An imported session or run starts no programs here without --take-over,
/// because the imported events determine which programs are started.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost resume 1a2b3c4d\n  provost resume 1a2b3c4d 'The network is back: continue.'"
)]
pub(crate) struct ResumeArgs {
    /// Session or run ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Instruction for a session; `-` reads standard input
    text: Option<String>,
    #[command(flatten)]
    take_over: TakeOverArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &ResumeArgs) -> CliResult {
    let text =
        input::read_text("the instruction", args.text.as_deref().unwrap_or(DEFAULT_INSTRUCTION))?;
    args.take_over.apply(context, &args.id)?;
    let send = SendRequest { text, supersede: false };
    if args.text.is_some() {
        // Only a session accepts an instruction. A run writes its agents' instructions itself.
        return change(context, &args.id, "send", &send, &args.key);
    }
    let found = context.find_session_or_run(&args.id)?;
    change_found(context, found, "send", &send, "resume", &json!({}), &args.key)
}
