//! `provost inbox`

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use provost_api::{
    ApiError, Client, ErrorCode, InboxItemRow, NextRequest, TeamMessageRow, TeamRow,
};
use provost_core::team::TeamCommand;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    input,
    mutation::KeyArgs,
    task,
    task_args::{self, TeamArgs, TeamTarget},
};
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    error::unknown_name,
    target,
    ui::{self, Screen},
};

/// Take, acknowledge and manage the messages of a team
///
/// A message is stored, offered under a lease, accepted by the member that took it, and handled once that member
/// acknowledges it. A message that is not acknowledged in time is offered again and marked as such.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox next --task limits --as hand --wait\n  provost inbox ack 3 --lease 1 --task limits --as hand\n  provost inbox ls --task limits"
)]
pub(crate) struct InboxArgs {
    #[command(subcommand)]
    what: InboxCommand,
}

#[derive(Debug, Subcommand)]
enum InboxCommand {
    Next(NextArgs),
    Ls(InboxLsArgs),
    Accept(LeaseArgs),
    Ack(InboxAckArgs),
    Release(ReleaseArgs),
    Cancel(MessageDispositionArgs),
    Requeue(RequeueArgs),
    Bury(BuryArgs),
}

/// Take the next message, or wait for one with --wait
///
/// Without a message it exits with 0 and prints exactly `{"item":null}` with --json, otherwise nothing on standard
/// output. Taking a message accepts it: once you have handled it, acknowledge it with the command shown beside it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox next --task limits --as hand --wait\n  provost inbox next --task limits --as hand --wait --timeout 60 --json\n  provost inbox next --task limits --as hand --offer-only --json"
)]
struct NextArgs {
    #[command(flatten)]
    task: TeamArgs,
    /// Wait for a message
    #[arg(long)]
    wait: bool,
    /// Maximum wait in seconds, or with a unit as in 90s or 5m [default: no limit]
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = input::parse_seconds)]
    timeout: Option<u64>,
    /// Only take the offer; confirm it with `provost inbox accept`
    #[arg(long)]
    offer_only: bool,
}

/// List the messages of a team and their status
///
/// Without --task and with several open teams, it lists the messages of all teams that wait for you.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox ls\n  provost inbox ls --task limits\n  provost inbox ls --to hand --json"
)]
struct InboxLsArgs {
    #[command(flatten)]
    task: TeamArgs,
    /// Only messages for this member, or for `operator`
    #[arg(long, value_name = "MEMBER")]
    to: Option<String>,
    /// Include closed messages
    #[arg(long)]
    all: bool,
}

/// Accept an offered message
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost inbox accept 3 --lease 1 --task limits --as hand")]
struct LeaseArgs {
    /// Number of the message
    no: u32,
    /// Lease under which it was offered
    #[arg(long, value_name = "N")]
    lease: u32,
    #[command(flatten)]
    task: TeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// Acknowledge a message as handled
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox ack 3 --lease 1 --task limits --as hand --note 'done in 4f2a'"
)]
struct InboxAckArgs {
    #[command(flatten)]
    message: LeaseArgs,
    /// Short summary of the result
    #[arg(long)]
    note: Option<String>,
}

/// Return a message, so that it is offered again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox release 3 --lease 1 --task limits --as hand --because 'not mine'"
)]
struct ReleaseArgs {
    #[command(flatten)]
    message: LeaseArgs,
    /// Reason
    #[arg(long)]
    because: String,
}

/// Cancel a message that no member holds
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox cancel 3 --task limits --because 'sent too early'"
)]
struct MessageDispositionArgs {
    /// Number of the message
    no: u32,
    /// Reason
    #[arg(long)]
    because: String,
    #[command(flatten)]
    task: TeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// Offer a dead or expired message again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox requeue 3 --task limits --because 'hand is back'\n  provost inbox requeue 3 --to hand-2 --task limits --because 'hand has left'"
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
    after_help = "Examples:\n  provost inbox bury 3 --task limits --because 'it was handled'"
)]
struct BuryArgs {
    #[command(flatten)]
    rest: MessageDispositionArgs,
}

pub(crate) fn run(context: &Context, args: &InboxArgs) -> CliResult {
    match &args.what {
        InboxCommand::Next(args) => next(context, args),
        InboxCommand::Ls(args) => ls(context, args),
        InboxCommand::Accept(args) => {
            // The daemon counts the polls.
            let command = TeamCommand::Accept { no: args.no, lease: args.lease, polls: 0 };
            args.task.target().change(context, &command, &args.key)
        }
        InboxCommand::Ack(InboxAckArgs { message, note }) => {
            let (no, lease, note) = (message.no, message.lease, note.clone());
            let command = TeamCommand::Acknowledge { no, lease, note };
            message.task.target().change(context, &command, &message.key)
        }
        InboxCommand::Release(ReleaseArgs { message, because }) => {
            let reason = because.clone();
            let command = TeamCommand::Release { no: message.no, lease: message.lease, reason };
            message.task.target().change(context, &command, &message.key)
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
        InboxCommand::Bury(args) => {
            change_disposition(context, &args.rest, |no, reason| TeamCommand::Bury { no, reason })
        }
    }
}

fn change_disposition(
    context: &Context,
    args: &MessageDispositionArgs,
    of: impl Fn(u32, String) -> TeamCommand,
) -> CliResult {
    args.task.target().change(context, &of(args.no, args.because.clone()), &args.key)
}

/// The daemon's reply to a request for a message.
#[derive(Debug, Deserialize, Serialize)]
struct NextReply {
    item: Option<InboxItemRow>,
}

/// How long one request waits; an unlimited wait consists of these.
const REQUEST_WAIT: Duration = Duration::from_secs(60);

/// How often in a row the daemon may be lost during a wait before that is an error.
const MAX_LOST_DAEMONS: u32 = 5;

/// How often to look for the next daemon where none may be started: within an agent it would end with the agent.
const MAX_ABSENT_POLLS: u32 = 60;

/// The pause between two such attempts.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

fn next(context: &Context, args: &NextArgs) -> CliResult {
    let meant = args.task.target();
    let mut item = take_next(context, args, meant)?;
    if !args.offer_only
        && let Some(item) = item.as_mut()
    {
        let command = TeamCommand::Accept { no: item.no, lease: item.lease, polls: 0 };
        let accepted = meant.send(context, &command, &context.idempotency_key(None))?;
        // The offer was accepted: from now on only the lease counts.
        (item.offer_until, item.lease_until) = (None, accepted["lease_until"].as_i64());
        item.accept_command = None;
    }
    show_item(context, item)
}

/// Takes the next message, or waits for one. A waiting caller has taken nothing, so it continues with the next daemon
/// if one is lost.
fn take_next(
    context: &Context,
    args: &NextArgs,
    meant: TeamTarget<'_>,
) -> Result<Option<InboxItemRow>, ApiError> {
    let deadline = args.timeout.map(|seconds| clock::deadline_after(Duration::from_secs(seconds)));
    let is_over = || deadline.is_some_and(|deadline| clock::time_until(deadline).is_zero());
    let goes_on = |error: &ApiError, tries: u32, most: u32| {
        args.wait && error.code == ErrorCode::Unreachable && tries < most && !is_over()
    };
    let (mut lost, mut absent) = (0, 0);
    loop {
        let client = match task_args::client(context) {
            Ok(client) => client,
            Err(error) if lost > 0 && goes_on(&error, absent, MAX_ABSENT_POLLS) => {
                absent += 1;
                clock::sleep(ABSENT_PAUSE);
                continue;
            }
            Err(error) => return Err(error),
        };
        absent = 0;
        let left = match (args.wait, deadline) {
            (false, _) => Duration::ZERO,
            (true, None) => REQUEST_WAIT,
            (true, Some(deadline)) => clock::time_until(deadline).min(REQUEST_WAIT),
        };
        match request_next(context, &client, meant, left) {
            Ok(item) if item.is_some() || !args.wait || is_over() => return Ok(item),
            Ok(_) => lost = 0,
            Err(error) if goes_on(&error, lost, MAX_LOST_DAEMONS) => lost += 1,
            Err(error) => return Err(error),
        }
    }
}

fn request_next(
    context: &Context,
    client: &Client,
    meant: TeamTarget<'_>,
    wait: Duration,
) -> Result<Option<InboxItemRow>, ApiError> {
    let (launch, token) = task_args::launch_credentials(context);
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let request = NextRequest { acting_as: meant.by(), wait_ms, launch, token };
    // Each request has its own key: a message taken by a lost reply returns by itself.
    let reply: NextReply =
        client.post(&meant.path("next"), &request, &context.idempotency_key(None))?;
    Ok(reply.item)
}

fn show_item(context: &Context, item: Option<InboxItemRow>) -> CliResult {
    // An offered message must be accepted before it can be acknowledged.
    let commands = |item: &InboxItemRow| {
        let accept = item.accept_command.clone().into_iter();
        accept.chain([item.acknowledge_command.clone()]).collect::<Vec<_>>()
    };
    let next: Vec<String> = item.iter().flat_map(commands).collect();
    // Agents are instructed to compare this exact output.
    if context.ui.json && item.is_none() {
        context.ui.value(&json!({"item": null}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if context.ui.json {
        context.ui.result(json!({"item": item}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    match &item {
        None => context.ui.notice("no message to take"),
        Some(item) => {
            context.ui.line(&ui::escape_block(&item.envelope))?;
            context.ui.next(&next);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Deserialize)]
struct MessagesReply {
    task: String,
    messages: Vec<TeamMessageRow>,
}

/// Checks that a name is a possible recipient in a team.
fn check_recipient(task: &TeamRow, name: &str) -> Result<(), ApiError> {
    let mut names: Vec<&str> = task.members.iter().map(|member| member.name.as_str()).collect();
    names.push("operator");
    if names.contains(&name) {
        return Ok(());
    }
    let next = format!("provost task show {}", ui::short_id(&task.id));
    Err(unknown_name("member", name, &names).next(next))
}

/// Whether a message is closed.
fn is_closed(row: &TeamMessageRow) -> bool {
    !matches!(row.standing.as_str(), "stored" | "offered" | "accepted" | "dead")
}

/// A message that waits for the operator, with its team.
#[derive(Debug, Serialize)]
struct OperatorMessage {
    task: String,
    name: String,
    #[serde(flatten)]
    message: TeamMessageRow,
}

/// Lists the messages of all teams that wait for the operator.
fn ls_for_operator(context: &Context, client: &Client, tasks: Vec<TeamRow>) -> CliResult {
    let mut waiting: Vec<OperatorMessage> = Vec::new();
    let (mut next, mut lines): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let (paint, screen, now) = (context.ui.paint, Screen::stdout(), clock::now_ms());
    for task in tasks.into_iter().filter(|task| task.for_operator > 0) {
        let reply: MessagesReply = client.get(&target::team_action_path(&task.id, "messages"))?;
        let mut messages = reply.messages;
        messages.retain(|row| row.to == "operator" && !is_closed(row));
        next.push(task::take_message_command(&task));
        lines.extend(ui::for_operator_lines(paint, std::slice::from_ref(&task)));
        lines.extend(ui::message_lines(paint, screen, now, &messages));
        waiting.extend(messages.into_iter().map(|message| OperatorMessage {
            task: task.id.clone(),
            name: task.name.clone(),
            message,
        }));
    }
    if context.ui.json {
        context.ui.result(json!({"task": null, "messages": waiting}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    if lines.is_empty() {
        context.ui.notice("no messages for you in any team; use --task to list all of one team");
    } else {
        context.ui.lines(&lines)?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn ls(context: &Context, args: &InboxLsArgs) -> CliResult {
    let meant = args.task.target();
    let for_operator = args.to.as_deref().is_none_or(|to| to == "operator");
    if args.task.is_operator_without_team(context) && for_operator && !args.all {
        let client = task_args::client(context)?;
        let tasks = task::open_tasks(&client)?;
        if tasks.len() > 1 {
            return ls_for_operator(context, &client, tasks);
        }
    }
    if let Some(to) = &args.to {
        check_recipient(&meant.find(context)?, to)?;
    }
    let mut reply: MessagesReply = meant.get(context, &meant.path("messages"))?;
    reply.messages.retain(|row| args.all || !is_closed(row));
    reply.messages.retain(|row| args.to.as_ref().is_none_or(|to| *to == row.to));
    if context.ui.json {
        context.ui.result(json!({"task": reply.task, "messages": reply.messages}), &[])?;
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
