//! `provost compact`

use clap::Args;
use provost_core::task::Command;
use serde_json::json;

use super::{
    change::{KeyArgs, change},
    input,
    tasking::MemberArgs,
};
use crate::{cli::Outcome, context::Context, error::usage};

/// Have an agent make its conversation shorter: that of a session, or a member of a task
///
/// It is asked for that as soon as no turn is open. What it then keeps is up to the agent. A manager has members of its
/// task compacted, with --member.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost compact 1a2b3c4d\n  provost compact fixer --json\n  provost compact --member hand --task limits --as boss"
)]
pub(crate) struct CompactArgs {
    /// The session: its id, the beginning or end of it, or its name. Left out with --member
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

pub(crate) fn run(context: &Context, args: &CompactArgs) -> Outcome {
    match (args.member.named()?, &args.id) {
        (Some(member), _) => {
            let key = format!("compact-{}", args.key.get(context));
            let command = Command::Compact { member: member.to_owned(), key };
            args.member.task.meant().change(context, &command, &args.key)
        }
        (None, Some(id)) => change(context, id, "compact", &json!({}), &args.key),
        (None, None) => Err(usage("say who is meant").next("provost compact SESSION").into()),
    }
}
