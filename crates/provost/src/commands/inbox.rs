//! `provost inbox`

use std::{process::ExitCode, time::Duration};

use clap::{Args, Subcommand};
use provost_api::{ApiError, Client, Code, ItemRow, NextRequest, StandingTaskRow, TaskMessageRow};
use provost_core::task::Command;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    change::KeyArgs,
    input, task,
    tasking::{self, Meant, OfTask},
};
use crate::{
    cli::Outcome,
    clock,
    context::Context,
    error::unknown,
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
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Next(NextArgs),
    Ls(LsArgs),
    Accept(LeaseArgs),
    Ack(AckArgs),
    Release(ReleaseArgs),
    Cancel(SortArgs),
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
    task: OfTask,
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
struct LsArgs {
    #[command(flatten)]
    task: OfTask,
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
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
}

/// Acknowledge a message as handled
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox ack 3 --lease 1 --task limits --as hand --note 'done in 4f2a'"
)]
struct AckArgs {
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
struct SortArgs {
    /// Number of the message
    no: u32,
    /// Reason
    #[arg(long)]
    because: String,
    #[command(flatten)]
    task: OfTask,
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
    rest: SortArgs,
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
    rest: SortArgs,
}

pub(crate) fn run(context: &Context, args: &InboxArgs) -> Outcome {
    match &args.what {
        What::Next(args) => next(context, args),
        What::Ls(args) => ls(context, args),
        What::Accept(args) => {
            // The daemon counts the polls.
            let command = Command::Accept { no: args.no, lease: args.lease, polls: 0 };
            args.task.meant().change(context, &command, &args.key)
        }
        What::Ack(AckArgs { message, note }) => {
            let (no, lease, note) = (message.no, message.lease, note.clone());
            let command = Command::Acknowledge { no, lease, note };
            message.task.meant().change(context, &command, &message.key)
        }
        What::Release(ReleaseArgs { message, because }) => {
            let reason = because.clone();
            let command = Command::Release { no: message.no, lease: message.lease, reason };
            message.task.meant().change(context, &command, &message.key)
        }
        What::Cancel(args) => {
            sort(context, args, |no, because| Command::CancelMessage { no, because })
        }
        What::Requeue(args) => {
            let to = args.to.as_ref();
            sort(context, &args.rest, |no, because| Command::Requeue {
                no,
                because,
                to: to.cloned(),
            })
        }
        What::Bury(args) => sort(context, &args.rest, |no, reason| Command::Bury { no, reason }),
    }
}

fn sort(context: &Context, args: &SortArgs, of: impl Fn(u32, String) -> Command) -> Outcome {
    args.task.meant().change(context, &of(args.no, args.because.clone()), &args.key)
}

/// The daemon's reply to a request for a message.
#[derive(Debug, Deserialize, Serialize)]
struct NextReply {
    item: Option<ItemRow>,
}

/// How long one request waits; an unlimited wait consists of these.
const ONE_WAIT: Duration = Duration::from_secs(60);

/// How often in a row the daemon may be lost during a wait before that is an error.
const MAX_LOST: u32 = 5;

/// How often to look for the next daemon where none may be started: within an agent it would end with the agent.
const MAX_ABSENT: u32 = 60;

/// The pause between two such attempts.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

fn next(context: &Context, args: &NextArgs) -> Outcome {
    let meant = args.task.meant();
    let mut item = taken(context, args, meant)?;
    if !args.offer_only
        && let Some(item) = item.as_mut()
    {
        let command = Command::Accept { no: item.no, lease: item.lease, polls: 0 };
        let accepted = meant.tell(context, &command, &context.key(None))?;
        // The offer was accepted: from now on only the lease counts.
        (item.offer_until, item.lease_until) = (None, accepted["lease_until"].as_i64());
        item.accept_command = None;
    }
    shown(context, item)
}

/// Takes the next message, or waits for one. A waiting caller has taken nothing, so it continues with the next daemon
/// if one is lost.
fn taken(
    context: &Context,
    args: &NextArgs,
    meant: Meant<'_>,
) -> Result<Option<ItemRow>, ApiError> {
    let deadline = args.timeout.map(|seconds| clock::after(Duration::from_secs(seconds)));
    let is_over = || deadline.is_some_and(|deadline| clock::until(deadline).is_zero());
    let goes_on = |error: &ApiError, tries: u32, most: u32| {
        args.wait && error.code == Code::Unreachable && tries < most && !is_over()
    };
    let (mut lost, mut absent) = (0, 0);
    loop {
        let client = match tasking::client(context) {
            Ok(client) => client,
            Err(error) if lost > 0 && goes_on(&error, absent, MAX_ABSENT) => {
                absent += 1;
                clock::pause(ABSENT_PAUSE);
                continue;
            }
            Err(error) => return Err(error),
        };
        absent = 0;
        let left = match (args.wait, deadline) {
            (false, _) => Duration::ZERO,
            (true, None) => ONE_WAIT,
            (true, Some(deadline)) => clock::until(deadline).min(ONE_WAIT),
        };
        match ask(context, &client, meant, left) {
            Ok(item) if item.is_some() || !args.wait || is_over() => return Ok(item),
            Ok(_) => lost = 0,
            Err(error) if goes_on(&error, lost, MAX_LOST) => lost += 1,
            Err(error) => return Err(error),
        }
    }
}

fn ask(
    context: &Context,
    client: &Client,
    meant: Meant<'_>,
    wait: Duration,
) -> Result<Option<ItemRow>, ApiError> {
    let (launch, token) = tasking::proof(context);
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let request = NextRequest { by: meant.by(), wait_ms, launch, token };
    // Each request has its own key: a message taken by a lost reply returns by itself.
    let reply: NextReply = client.post(&meant.path("next"), &request, &context.key(None))?;
    Ok(reply.item)
}

fn shown(context: &Context, item: Option<ItemRow>) -> Outcome {
    // An offered message must be accepted before it can be acknowledged.
    let commands = |item: &ItemRow| {
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
        None => context.ui.talk("no message to take"),
        Some(item) => {
            context.ui.line(&ui::clean_block(&item.envelope))?;
            context.ui.next(&next);
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, Deserialize)]
struct MessagesReply {
    task: String,
    messages: Vec<TaskMessageRow>,
}

/// Checks that a name is a possible recipient in a team.
fn is_somebody(task: &StandingTaskRow, name: &str) -> Result<(), ApiError> {
    let mut names: Vec<&str> = task.members.iter().map(|member| member.name.as_str()).collect();
    names.push("operator");
    if names.contains(&name) {
        return Ok(());
    }
    let next = format!("provost task show {}", ui::short(&task.id));
    Err(unknown("member", name, &names).next(next))
}

/// Whether a message is closed.
fn is_over(row: &TaskMessageRow) -> bool {
    !matches!(row.standing.as_str(), "stored" | "offered" | "accepted" | "dead")
}

/// A message that waits for the operator, with its team.
#[derive(Debug, Serialize)]
struct Waiting {
    task: String,
    name: String,
    #[serde(flatten)]
    message: TaskMessageRow,
}

/// Lists the messages of all teams that wait for the operator.
fn ls_for_operator(context: &Context, client: &Client, tasks: Vec<StandingTaskRow>) -> Outcome {
    let mut waiting: Vec<Waiting> = Vec::new();
    let (mut next, mut lines): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let (paint, screen, now) = (context.ui.paint, Screen::output(), clock::now_ms());
    for task in tasks.into_iter().filter(|task| task.for_operator > 0) {
        let reply: MessagesReply = client.get(&target::task_action(&task.id, "messages"))?;
        let mut messages = reply.messages;
        messages.retain(|row| row.to == "operator" && !is_over(row));
        next.push(task::read_command(&task));
        lines.extend(ui::for_operator_lines(paint, std::slice::from_ref(&task)));
        lines.extend(ui::message_lines(paint, screen, now, &messages));
        waiting.extend(messages.into_iter().map(|message| Waiting {
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
        context.ui.talk("no messages for you in any team; use --task to list all of one team");
    } else {
        context.ui.lines(&lines)?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn ls(context: &Context, args: &LsArgs) -> Outcome {
    let meant = args.task.meant();
    let for_operator = args.to.as_deref().is_none_or(|to| to == "operator");
    if args.task.is_operators(context) && for_operator && !args.all {
        let client = tasking::client(context)?;
        let tasks = task::open_tasks(&client)?;
        if tasks.len() > 1 {
            return ls_for_operator(context, &client, tasks);
        }
    }
    if let Some(to) = &args.to {
        is_somebody(&meant.find(context)?, to)?;
    }
    let mut reply: MessagesReply = meant.get(context, &meant.path("messages"))?;
    reply.messages.retain(|row| args.all || !is_over(row));
    reply.messages.retain(|row| args.to.as_ref().is_none_or(|to| *to == row.to));
    if context.ui.json {
        context.ui.result(json!({"task": reply.task, "messages": reply.messages}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.messages.is_empty() {
        context.ui.talk(if args.all { "no messages" } else { "no open messages" });
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::output());
    context.ui.lines(&ui::message_lines(paint, screen, clock::now_ms(), &reply.messages))?;
    Ok(ExitCode::SUCCESS)
}
