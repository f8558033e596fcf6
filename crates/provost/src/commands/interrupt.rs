//! `provost interrupt`

use clap::Args;
use provost_api::InterruptRequest;
use provost_core::task::Command;

use super::{
    change::{KeyArgs, change},
    input,
    tasking::MemberArgs,
};
use crate::{cli::Outcome, context::Context, error::usage};

/// Have an agent leave its turn: that of a session, or a member of a task
///
/// The process and the conversation stay. With a text the agent goes on with that; without one it waits
/// for what is sent to it next. A manager interrupts members of its task, with --member.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost interrupt 1a2b3c4d\n  provost interrupt fixer 'Leave that; fix the tests first.'\n  provost interrupt --member hand 'Leave that; fix the tests first.' --task limits --as boss"
)]
pub(crate) struct InterruptArgs {
    /// The session: its id, the beginning or end of it, or its name. Left out with --member
    #[arg(value_name = "SESSION", required_unless_present = "member")]
    first: Option<String>,
    /// What to say next; `-` takes it from standard input
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &InterruptArgs) -> Outcome {
    let said = |text: &Option<String>| text.as_deref().map(input::text).transpose();
    match (args.member.named()?, &args.first, &args.second) {
        (Some(member), text, None) => {
            let (member, text) = (member.to_owned(), said(text)?);
            let key = format!("leave-{}", args.key.get(context));
            let command = Command::Interrupt { member, key, text };
            args.member.task.meant().change(context, &command, &args.key)
        }
        (Some(_), _, Some(_)) => {
            let message = "with --member the text is all that is named besides: the task is named with --task";
            Err(usage(message).next("provost interrupt --member MEMBER TEXT --task TASK").into())
        }
        (None, Some(session), text) => {
            input::parse_name(session).map_err(|why| usage(format!("the session: {why}")))?;
            change(
                context,
                session,
                "interrupt",
                &InterruptRequest { text: said(text)? },
                &args.key,
            )
        }
        (None, None, _) => Err(usage("say who is meant").next("provost interrupt SESSION").into()),
    }
}
