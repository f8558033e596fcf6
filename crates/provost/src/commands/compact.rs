//! `provost compact`

use clap::Args;
use provost_core::team::TeamCommand;
use serde_json::json;

use super::{
    input,
    mutation::{KeyArgs, change},
    team::args::MemberArgs,
};
use crate::{cli::CliResult, context::Context, error::usage};

/// Compact an agent's context
///
/// Provost asks the agent to compact its context as soon as the current turn has ended. The agent
/// decides what to keep. A manager can use --member to select a member of its team.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost compact 1a2b3c4d\n  provost compact fixer --json\n  provost compact --member hand -t limits --as boss"
)]
pub(crate) struct CompactArgs {
    /// Session ID or name; omit it with --member
    #[arg(
        value_name = "SESSION",
        value_parser = input::parse_name,
        required_unless_present = "member",
        conflicts_with = "member"
    )]
    id: Option<String>,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &CompactArgs) -> CliResult {
    match (args.member.member()?, &args.id) {
        (Some(member), _) => {
            let key = format!("compact-{}", args.key.get(context));
            let command = TeamCommand::Compact { member: member.to_owned(), key };
            args.member.team.target(context).change(context, &command, &args.key)
        }
        (None, Some(id)) => change(context, id, "compact", &json!({}), &args.key),
        (None, None) => {
            Err(usage("no session or member given").next("provost compact SESSION").into())
        }
    }
}
