//! `provost send`

use clap::{Args, ValueEnum};
use provost_api::{ApiError, SendRequest};
use provost_core::team::{
    MessageChannel, NewMessage, Priority, Recipient, TeamCommand, TeamMessageKind,
};

use super::{
    input,
    mutation::{KeyArgs, TakeOverArgs, change},
    task_args::TeamArgs,
};
use crate::{cli::CliResult, context::Context, error::usage};

/// Send a message to a session or a member of a team
///
/// A message to a session steers its open attempt, or becomes the next instruction. With --to it goes to a member of a
/// team: it is stored, and delivered once when the member takes it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost send 1a2b3c4d 'Also update the changelog.'\n  provost send fixer - < instruction.md\n  provost send fixer --supersede 'Leave that; fix the tests first.'\n  provost send --to hand 'Begin with the tests.' --task limits\n  provost send --to operator 'Which limit?' --task limits --as boss"
)]
pub(crate) struct SendArgs {
    /// Session ID (a unique part is enough) or name; omit it with --to
    #[arg(value_name = "SESSION")]
    first: String,
    /// Message; `-` reads standard input
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    /// End the open attempt as superseded and make this the next instruction
    #[arg(long, conflicts_with = "to")]
    supersede: bool,
    /// Member of a team to send it to, or `operator`
    #[arg(long, value_name = "MEMBER")]
    to: Option<String>,
    #[command(flatten)]
    take_over: TakeOverArgs,
    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    task: TeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct MessageArgs {
    /// Kind of message
    #[arg(long, value_enum, requires = "to", default_value = "instruction")]
    kind: KindArg,
    /// Priority among the member's messages
    #[arg(long, value_enum, requires = "to", default_value = "normal")]
    priority: PriorityArg,
    /// Time until it expires, such as 30m; it is not offered afterwards
    #[arg(long, value_name = "TIME", requires = "to", value_parser = input::parse_age)]
    expires: Option<u64>,
    /// ID that links a message with all its answers
    #[arg(long, value_name = "ID", requires = "to")]
    correlation: Option<String>,
    /// Deliver it to a supervised session even during its turn, if its agent supports steering
    #[arg(long, requires = "to")]
    steer: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindArg {
    Instruction,
    Note,
    Report,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PriorityArg {
    Low,
    Normal,
    High,
}

pub(crate) fn run(context: &Context, args: &SendArgs) -> CliResult {
    match (&args.to, &args.second) {
        (None, Some(text)) => {
            input::parse_name(&args.first)
                .map_err(|why| usage(format!("invalid session: {why}")))?;
            let request = SendRequest { text: input::read_text(text)?, supersede: args.supersede };
            args.take_over.apply(context, &args.first)?;
            change(context, &args.first, "send", &request, &args.key)
        }
        (Some(_), None) if args.take_over.is_given() => {
            Err(usage("--take-over applies to a session, but --to names a member of a team")
                .next("provost resume SESSION --take-over")
                .into())
        }
        (Some(to), None) => post(context, args, to),
        (None, None) => Err(usage("name a recipient and a text")
            .next("provost send SESSION TEXT")
            .next("provost send --to MEMBER TEXT")
            .into()),
        (Some(_), Some(_)) => {
            let message = "--to takes only a text as argument; name the team with --task";
            Err(usage(message).next("provost send --to MEMBER TEXT --task TASK").into())
        }
    }
}

fn post(context: &Context, args: &SendArgs, to: &str) -> CliResult {
    let key = args.key.get(context);
    let post = message(args, to, &key)?;
    let meant = args.task.target();
    meant.show(context, meant.send(context, &TeamCommand::Post(Box::new(post)), &key)?)
}

fn message(args: &SendArgs, to: &str, key: &str) -> Result<NewMessage, ApiError> {
    let MessageArgs { kind, priority, expires, correlation, steer } = &args.message;
    Ok(NewMessage {
        key: key.to_owned(),
        correlation: correlation.clone(),
        channel: MessageChannel::Cli,
        to: match to {
            "operator" => Recipient::Operator,
            member => Recipient::Member(member.to_owned()),
        },
        kind: match kind {
            KindArg::Instruction => TeamMessageKind::Instruction,
            KindArg::Note => TeamMessageKind::Note,
            KindArg::Report => TeamMessageKind::Report,
        },
        text: input::read_text(&args.first)?,
        priority: match priority {
            PriorityArg::Low => Priority::Low,
            PriorityArg::Normal => Priority::Normal,
            PriorityArg::High => Priority::High,
        },
        expires_in_ms: *expires,
        steer: *steer,
    })
}
