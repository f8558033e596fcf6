//! `provost interrupt`

use clap::Args;
use provost_api::InterruptRequest;
use provost_core::team::TeamCommand;

use super::{
    input,
    mutation::{KeyArgs, change},
    team::args::MemberArgs,
};
use crate::{cli::CliResult, context::Context, error::usage};

/// Interrupt an agent's current turn
///
/// The agent's process keeps running, and the conversation continues with TEXT. Without TEXT, the
/// agent waits for its next message. A manager can use --member to interrupt a member of its team.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost interrupt 1a2b3c4d\n  provost interrupt fixer 'Leave that; fix the tests first.'\n  provost interrupt --member hand 'Leave that; fix the tests first.' -t limits --as boss"
)]
pub(crate) struct InterruptArgs {
    /// Session ID or name; omit it with --member
    #[arg(value_name = "SESSION", required_unless_present = "member")]
    first: Option<String>,
    /// Next instruction; `-` reads standard input
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &InterruptArgs) -> CliResult {
    let read = |text: &str| input::read_text("the message", text);
    let read_text = |text: &Option<String>| text.as_deref().map(read).transpose();
    match (args.member.member()?, &args.first, &args.second) {
        (Some(member), text, None) => {
            let (member, text) = (member.to_owned(), read_text(text)?);
            let key = format!("leave-{}", args.key.get(context));
            let command = TeamCommand::Interrupt { member, key, text };
            args.member.team.target(context).change(context, &command, &args.key)
        }
        (Some(_), _, Some(_)) => {
            let message =
                "--member accepts only one argument, the text; specify the team with --team";
            Err(usage(message).next("provost interrupt --member MEMBER TEXT -t TEAM").into())
        }
        (None, Some(session), text) => {
            input::parse_name(session).map_err(|why| usage(format!("invalid session: {why}")))?;
            change(
                context,
                session,
                "interrupt",
                &InterruptRequest { text: read_text(text)? },
                &args.key,
            )
        }
        (None, None, _) => {
            Err(usage("no session or member given").next("provost interrupt SESSION").into())
        }
    }
}
