//! `provost team send`

use clap::Args;
use provost_api::{ApiError, ErrorCode, MemberRow, TeamRow};
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

/// The operator's name as a recipient. The operator is not a member.
const OPERATOR: &str = "operator";

/// Send a message to a member of a team
///
/// The message is stored until the member takes it. Without WHO, a message of the operator or a
/// manager goes to the only worker, and a message of any other member goes to the manager, or to
/// the operator in a team without a manager.
///
/// --next requests the next iteration of the team's loop. The iteration begins when the worker
/// accepts the message, and only if all evidence of the current iteration was recorded.
#[derive(Debug, Args)]
#[command(
    override_usage = "provost team send [OPTIONS] [WHO] <TEXT>",
    after_help = "Examples:\n  provost team send hand 'Begin with the tests.' -t limits\n  provost team send 'Begin with the tests.'\n  provost team send hand - -t limits < instruction.md\n  provost team send operator 'Which limit?' -t limits --as boss\n  provost team send --next 'Now the second caller.' -t limits\n  provost team send --now 'Leave that; fix the tests first.' -t limits"
)]
pub(super) struct TeamSendArgs {
    /// Member that gets the message, or `operator`; can be omitted
    #[arg(value_name = "WHO")]
    first: String,
    /// Message; `-` reads standard input
    #[arg(value_name = "TEXT")]
    second: Option<String>,
    /// Kind of message
    #[arg(long, default_value = "instruction", value_parser = input::one_of(&SENT_KINDS, TeamMessageKind::as_str))]
    kind: TeamMessageKind,
    /// Priority among the member's messages
    #[arg(long, default_value = "normal", value_parser = input::one_of(&Priority::ALL, Priority::as_str))]
    priority: Priority,
    /// Time until the message expires, such as 30m; an expired message is no longer offered
    #[arg(long, value_name = "DURATION", value_parser = input::parse_age)]
    expires: Option<u64>,
    /// ID that links a message with all its answers
    #[arg(long, value_name = "ID")]
    correlation: Option<String>,
    /// Deliver the message to a supervised session even during a turn, if its agent supports steering
    #[arg(long)]
    steer: bool,
    /// Interrupt the member's current turn, and let the member continue with this message
    #[arg(long, conflicts_with_all = ["next", "kind", "priority", "expires", "correlation", "steer"])]
    now: bool,
    /// Request the next iteration of the team's loop with this instruction
    #[arg(long, conflicts_with_all = ["kind", "priority", "expires", "correlation", "steer"])]
    next: bool,
    /// Number of the iteration to request; it must be the next one [default: the next one]
    #[arg(long, value_name = "N", requires = "next")]
    iteration: Option<u32>,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// The kinds of messages that a person sends. Provost creates the others itself.
const SENT_KINDS: [TeamMessageKind; 3] =
    [TeamMessageKind::Instruction, TeamMessageKind::Note, TeamMessageKind::Report];

pub(super) fn run(context: &Context, args: &TeamSendArgs) -> CliResult {
    let target = args.team.target(context);
    let (to, text) = match &args.second {
        Some(text) => (args.first.clone(), text),
        None => {
            let session = context.environment.get("PROVOST_SESSION");
            let row = target.find(context)?;
            (default_recipient(&row, target.by().as_deref(), session, &args.first)?, &args.first)
        }
    };
    let key = args.key.get(context);
    let text = input::read_text("the message", text)?;
    let command = if args.now {
        // The key of an interrupt needs a prefix, because a message may have the same key.
        TeamCommand::Interrupt { member: to, key: format!("leave-{key}"), text: Some(text) }
    } else if args.next {
        let iteration = match args.iteration {
            Some(iteration) => iteration,
            None => next_iteration(&target.find(context)?)?,
        };
        let (key, channel) = (key.clone(), MessageChannel::Cli);
        TeamCommand::Continue { iteration, to, key, text, channel }
    } else {
        TeamCommand::Post(Box::new(message(args, &to, text, &key)))
    };
    target.show(context, target.send(context, &command, &key)?)
}

/// Returns the number that the next iteration of the team's loop has.
fn next_iteration(row: &TeamRow) -> Result<u32, ApiError> {
    match &row.loop_row {
        Some(looped) => Ok(looped.iteration.saturating_add(1)),
        None => {
            let id = ui::short_id(&row.id);
            let message = format!("team {:?} has no loop, so it has no next iteration", row.name);
            Err(ApiError::new(ErrorCode::Refused, message)
                .next(format!("provost team loop start TEMPLATE -t {id}")))
        }
    }
}

/// Returns the recipient of a message without WHO. A text that consists only of the name of a member is rejected,
/// because the text of the message is probably missing.
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
        let message = format!("no message text given: {text:?} is the name of a recipient");
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
        kind: args.kind,
        text,
        priority: args.priority,
        expires_in_ms: args.expires,
        steer: args.steer,
    }
}
