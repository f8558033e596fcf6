//! `provost team inbox`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use provost_api::{ApiError, Client, TeamMessageRow, TeamMessagesReply, TeamRow};
use provost_core::team::{MessageStatusKind, TeamCommand};
use serde::Serialize;
use serde_json::json;

use super::{
    args::{self, TeamFlags},
    show,
};
use crate::{
    cli::CliResult,
    clock,
    commands::{input, mutation::KeyArgs},
    context::Context,
    error::unknown_name,
    target,
    ui::{self, Screen},
};

/// List, acknowledge and manage the messages of a team
///
/// Provost stores each message and offers it to the recipient under a lease. The recipient accepts
/// the message, and acknowledges it when the work is done. A message that is not acknowledged in
/// time is offered again and marked as repeated.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox ack 3 --lease 1 -t limits --as hand\n  provost team inbox ls -t limits"
)]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    what: InboxCommand,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    Ls(InboxLsArgs),
    Accept(LeaseArgs),
    Ack(InboxAckArgs),
    Release(ReleaseArgs),
    Cancel(MessageDispositionArgs),
    Requeue(RequeueArgs),
    DeadLetter(DeadLetterArgs),
}

/// List the messages of a team and their status
///
/// Without -t and with several open teams, lists the messages for you in all teams.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox ls\n  provost team inbox ls -t limits\n  provost team inbox ls --to hand --json"
)]
struct InboxLsArgs {
    #[command(flatten)]
    team: TeamFlags,
    /// Only messages for this member, or for `operator`
    #[arg(long, value_name = "MEMBER")]
    to: Option<String>,
    /// Include closed messages
    #[arg(long)]
    all: bool,
}

/// Accept an offered message
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team inbox accept 3 --lease 1 -t limits --as hand")]
struct LeaseArgs {
    /// Number of the message
    #[arg(value_name = "NUMBER")]
    no: u32,
    /// Number of the lease under which the message was offered
    #[arg(long, value_name = "N")]
    lease: u32,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Acknowledge a message as handled
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox ack 3 --lease 1 -t limits --as hand --note 'done in 4f2a'"
)]
struct InboxAckArgs {
    #[command(flatten)]
    message: LeaseArgs,
    /// Short summary of the result
    #[arg(long)]
    note: Option<String>,
}

/// Return a message, so that Provost offers it again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox release 3 --lease 1 -t limits --as hand --because 'not mine'"
)]
struct ReleaseArgs {
    #[command(flatten)]
    message: LeaseArgs,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
}

/// Cancel a message that no member holds
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox cancel 3 -t limits --because 'sent too early'"
)]
struct MessageDispositionArgs {
    /// Number of the message
    #[arg(value_name = "NUMBER")]
    no: u32,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Offer a dead or expired message again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox requeue 3 -t limits --because 'hand is back'\n  provost team inbox requeue 3 --to hand-2 -t limits --because 'hand has left'"
)]
struct RequeueArgs {
    #[command(flatten)]
    rest: MessageDispositionArgs,
    /// New recipient [default: the same member]
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    to: Option<String>,
}

/// Dead-letter a message, so that it is no longer offered
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team inbox dead-letter 3 -t limits --because 'it was handled'"
)]
struct DeadLetterArgs {
    #[command(flatten)]
    rest: MessageDispositionArgs,
}

pub(crate) fn run(context: &Context, args: &InboxArgs) -> CliResult {
    match &args.what {
        InboxCommand::Ls(args) => ls(context, args),
        InboxCommand::Accept(args) => {
            // The daemon fills in the number of polls.
            let command = TeamCommand::Accept { no: args.no, lease: args.lease, polls: 0 };
            args.team.target(context).change(context, &command, &args.key)
        }
        InboxCommand::Ack(InboxAckArgs { message, note }) => {
            let (no, lease, note) = (message.no, message.lease, note.clone());
            let command = TeamCommand::Acknowledge { no, lease, note };
            message.team.target(context).change(context, &command, &message.key)
        }
        InboxCommand::Release(ReleaseArgs { message, because }) => {
            let reason = because.clone();
            let command = TeamCommand::Release { no: message.no, lease: message.lease, reason };
            message.team.target(context).change(context, &command, &message.key)
        }
        InboxCommand::Cancel(args) => change_disposition(context, args, |no, because| {
            TeamCommand::CancelMessage { no, because }
        }),
        InboxCommand::Requeue(args) => {
            let to = args.to.as_ref();
            change_disposition(context, &args.rest, |no, because| TeamCommand::Requeue {
                no,
                because,
                to: to.cloned(),
            })
        }
        InboxCommand::DeadLetter(args) => change_disposition(context, &args.rest, |no, reason| {
            TeamCommand::DeadLetter { no, reason }
        }),
    }
}

fn change_disposition(
    context: &Context,
    args: &MessageDispositionArgs,
    of: impl Fn(u32, String) -> TeamCommand,
) -> CliResult {
    args.team.target(context).change(context, &of(args.no, args.because.clone()), &args.key)
}

/// Checks that a name is a valid recipient in a team.
fn check_recipient(task: &TeamRow, name: &str) -> Result<(), ApiError> {
    let mut names: Vec<&str> = task.members.iter().map(|member| member.name.as_str()).collect();
    names.push("operator");
    if names.contains(&name) {
        return Ok(());
    }
    let next = format!("provost team show {}", ui::short_id(&task.id));
    Err(unknown_name("member", name, &names).next(next))
}

/// Whether a message is closed.
fn is_closed(row: &TeamMessageRow) -> bool {
    row.status.known().is_none_or(MessageStatusKind::is_over)
        && row.status != MessageStatusKind::Dead
}

/// A message that is waiting for the operator, and its team.
#[derive(Debug, Serialize)]
struct OperatorMessage {
    team: String,
    name: String,
    #[serde(flatten)]
    message: TeamMessageRow,
}

/// Lists the messages in all teams that are waiting for the operator.
fn ls_for_operator(context: &Context, client: &Client, tasks: Vec<TeamRow>) -> CliResult {
    let mut waiting: Vec<OperatorMessage> = Vec::new();
    let (mut next, mut lines): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let (paint, screen, now) = (context.ui.paint, Screen::stdout(), clock::now_ms());
    for task in tasks.into_iter().filter(|task| task.for_operator > 0) {
        let reply: TeamMessagesReply =
            client.get(&target::team_action_path(&task.id, "messages"))?;
        let mut messages = reply.messages;
        messages.retain(|row| row.to == "operator" && !is_closed(row));
        next.push(show::take_message_command(&task));
        lines.extend(ui::for_operator_lines(paint, std::slice::from_ref(&task)));
        lines.extend(ui::message_lines(paint, screen, now, &messages));
        waiting.extend(messages.into_iter().map(|message| OperatorMessage {
            team: task.id.clone(),
            name: task.name.clone(),
            message,
        }));
    }
    if context.ui.json {
        context.ui.result(json!({"team": null, "messages": waiting}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    if lines.is_empty() {
        context.ui.notice("no messages for you in any team; list all messages of one team with -t");
    } else {
        context.ui.lines(&lines)?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn ls(context: &Context, args: &InboxLsArgs) -> CliResult {
    let meant = args.team.target(context);
    let for_operator = args.to.as_deref().is_none_or(|to| to == "operator");
    if args.team.is_operator_without_team(context) && for_operator && !args.all {
        let client = args::client(context)?;
        let tasks = show::open_teams(&client)?;
        if tasks.len() > 1 {
            return ls_for_operator(context, &client, tasks);
        }
    }
    if let Some(to) = &args.to {
        check_recipient(&meant.find(context)?, to)?;
    }
    let mut reply: TeamMessagesReply = meant.get(context, &meant.path("messages"))?;
    reply.messages.retain(|row| args.all || !is_closed(row));
    reply.messages.retain(|row| args.to.as_ref().is_none_or(|to| *to == row.to));
    if context.ui.json {
        context.ui.result(json!({"team": reply.team, "messages": reply.messages}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.messages.is_empty() {
        context.ui.notice(if args.all { "no messages" } else { "no open messages" });
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::message_lines(paint, screen, clock::now_ms(), &reply.messages))?;
    Ok(ExitCode::SUCCESS)
}
