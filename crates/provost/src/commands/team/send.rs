//! `provost team send`

use clap::{Args, ValueEnum};
use provost_api::{ApiError, MemberRow, TeamRow};
use provost_core::team::{
    MessageChannel, NewMessage, Priority, Recipient, TeamCommand, TeamMessageKind,
};

use super::args::{TeamFlags, acting_member};
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
    error::usage,
    ui,
};

/// The recipient that is not a member.
const OPERATOR: &str = "operator";

/// Send a message to a member of a team
///
/// The message is stored, and delivered once when the member takes it. Without WHO it goes from the operator or a
/// manager to the only worker, and from any other member to the manager, or to the operator if there is no manager.
#[derive(Debug, Args)]
#[command(
    override_usage = "provost team send [OPTIONS] [WHO] <TEXT>",
    after_help = "Examples:\n  provost team send hand 'Begin with the tests.' -t limits\n  provost team send 'Begin with the tests.'\n  provost team send hand - -t limits < instruction.md\n  provost team send operator 'Which limit?' -t limits --as boss"
)]
pub(super) struct TeamSendArgs {
    /// Member to send it to, or `operator`; can be omitted
    #[arg(value_name = "WHO")]
    first: String,
    /// Message; `-` reads standard input
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    /// Kind of message
    #[arg(long, value_enum, default_value = "instruction")]
    kind: KindArg,
    /// Priority among the member's messages
    #[arg(long, value_enum, default_value = "normal")]
    priority: PriorityArg,
    /// Time until it expires, such as 30m; it is not offered afterwards
    #[arg(long, value_name = "TIME", value_parser = input::parse_age)]
    expires: Option<u64>,
    /// ID that links a message with all its answers
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// Deliver it to a supervised session even during its turn, if its agent supports steering
    #[arg(long)]
    steer: bool,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
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

pub(super) fn run(context: &Context, args: &TeamSendArgs) -> CliResult {
    let target = args.team.target();
    let (to, text) = match &args.second {
        Some(text) => (args.first.clone(), text),
        None => {
            let session = context.environment.get("PROVOST_SESSION");
            let row = target.find(context)?;
            (default_recipient(&row, target.by().as_deref(), session, &args.first)?, &args.first)
        }
    };
    let key = args.key.get(context);
    let message = message(args, &to, input::read_text(text)?, &key);
    target.show(context, target.send(context, &TeamCommand::Post(Box::new(message)), &key)?)
}

/// Returns the recipient of a message that names none. A text that is only a name is more likely a message without
/// its text.
fn default_recipient(
    row: &TeamRow,
    by: Option<&str>,
    session: Option<&str>,
    text: &str,
) -> Result<String, ApiError> {
    let id = ui::short_id(&row.id);
    let bound = |role: &str| {
        let members = row.members.iter().filter(|member| !member.left && member.role == role);
        members.map(|member| member.name.as_str()).collect::<Vec<_>>()
    };
    let is_name = |member: &MemberRow| member.name == text;
    if text == OPERATOR || row.members.iter().any(is_name) {
        let message = format!("no text for {text:?}");
        return Err(usage(message).next(format!("provost team send WHO TEXT -t {id}")));
    }
    let reports = acting_member(row, by, session).is_some_and(|member| member.role != "manager");
    if reports {
        return Ok(bound("manager").first().map_or(OPERATOR, |name| *name).to_owned());
    }
    match bound("worker").as_slice() {
        [only] => Ok((*only).to_owned()),
        [] => Err(usage("the team has no worker: name the recipient")
            .next(format!("provost team send WHO TEXT -t {id}"))),
        several => {
            let names = several.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>();
            let message = format!("the team has several workers: name one of {}", names.join(", "));
            Err(usage(message).next(format!("provost team send WHO TEXT -t {id}")))
        }
    }
}

fn message(args: &TeamSendArgs, to: &str, text: String, key: &str) -> NewMessage {
    NewMessage {
        key: key.to_owned(),
        correlation: args.correlation.clone(),
        channel: MessageChannel::Cli,
        to: match to {
            OPERATOR => Recipient::Operator,
            member => Recipient::Member(member.to_owned()),
        },
        kind: match args.kind {
            KindArg::Instruction => TeamMessageKind::Instruction,
            KindArg::Note => TeamMessageKind::Note,
            KindArg::Report => TeamMessageKind::Report,
        },
        text,
        priority: match args.priority {
            PriorityArg::Low => Priority::Low,
            PriorityArg::Normal => Priority::Normal,
            PriorityArg::High => Priority::High,
        },
        expires_in_ms: args.expires,
        steer: args.steer,
    }
}
