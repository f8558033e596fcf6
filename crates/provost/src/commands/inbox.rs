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

/// The messages of a task's members: take, acknowledge and sort them
///
/// A message is stored, offered under a lease, accepted by whoever took it, and handled when that one acknowledges it.
/// What is not acknowledged in time is offered again, and says so.
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

/// Take the next message; with --wait, wait for one if there is none
///
/// With nothing to take it exits 0: it prints exactly `{"item":null}` with --json, and otherwise nothing on standard output.
/// Taking a message accepts it: acknowledge it when it is handled, by the command that is told with it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox next --task limits --as hand --wait\n  provost inbox next --task limits --as hand --wait --timeout 60 --json\n  provost inbox next --task limits --as hand --offer-only --json"
)]
struct NextArgs {
    #[command(flatten)]
    task: OfTask,
    /// Wait until there is one
    #[arg(long)]
    wait: bool,
    /// Wait at most so long, in seconds or as in 90s or 5m; without this as long as it takes
    #[arg(long, value_name = "TIME", requires = "wait", value_parser = input::parse_seconds)]
    timeout: Option<u64>,
    /// Only take the offer: `provost inbox accept` says that it has arrived
    #[arg(long)]
    offer_only: bool,
}

/// List the messages of a task, and how each stands
///
/// Without --task, if several tasks are open, it lists what waits for you, of all of them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox ls\n  provost inbox ls --task limits\n  provost inbox ls --to hand --json"
)]
struct LsArgs {
    #[command(flatten)]
    task: OfTask,
    /// Only those for this member, or `operator`
    #[arg(long, value_name = "MEMBER")]
    to: Option<String>,
    /// Also those that are over
    #[arg(long)]
    all: bool,
}

/// Say that an offered message has arrived
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost inbox accept 3 --lease 1 --task limits --as hand")]
struct LeaseArgs {
    /// The message's number
    no: u32,
    /// The lease under which it was offered
    #[arg(long, value_name = "N")]
    lease: u32,
    #[command(flatten)]
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
}

/// Say that a message is handled
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox ack 3 --lease 1 --task limits --as hand --note 'done in 4f2a'"
)]
struct AckArgs {
    #[command(flatten)]
    message: LeaseArgs,
    /// What came of it, in a few words
    #[arg(long)]
    note: Option<String>,
}

/// Give a message back: it is offered again
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox release 3 --lease 1 --task limits --as hand --because 'not mine'"
)]
struct ReleaseArgs {
    #[command(flatten)]
    message: LeaseArgs,
    /// Why
    #[arg(long)]
    because: String,
}

/// Call off a message that nobody has, also one that expired or is dead
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox cancel 3 --task limits --because 'sent too early'"
)]
struct SortArgs {
    /// The message's number
    no: u32,
    /// Why
    #[arg(long)]
    because: String,
    #[command(flatten)]
    task: OfTask,
    #[command(flatten)]
    key: KeyArgs,
}

/// Offer a dead or expired message again, to another member with --to
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost inbox requeue 3 --task limits --because 'hand is back'\n  provost inbox requeue 3 --to hand-2 --task limits --because 'hand has left'"
)]
struct RequeueArgs {
    #[command(flatten)]
    rest: SortArgs,
    /// The member that it is for from now on [default: the same]
    #[arg(long, value_name = "MEMBER", value_parser = input::parse_name)]
    to: Option<String>,
}

/// Lay a message aside as dead: nobody is offered it any more
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
            // How often was asked before is counted where it is asked.
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

/// What the daemon answers to whoever asks for a message.
#[derive(Debug, Deserialize, Serialize)]
struct NextReply {
    item: Option<ItemRow>,
}

/// How long one request waits; a wait without an end is made of these.
const ONE_WAIT: Duration = Duration::from_secs(60);

/// How often in a row a daemon may be lost over a wait, before that is an error.
const MAX_LOST: u32 = 5;

/// How often it is looked for the next daemon where none can be started: within an agent it would end with that.
const MAX_ABSENT: u32 = 60;

/// How long it is waited between two looks.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

fn next(context: &Context, args: &NextArgs) -> Outcome {
    let meant = args.task.meant();
    let mut item = taken(context, args, meant)?;
    if let Some(item) = item.as_mut().filter(|_| !args.offer_only) {
        let command = Command::Accept { no: item.no, lease: item.lease, polls: 0 };
        let accepted = meant.tell(context, &command, &context.key(None))?;
        // The offer was taken: what counts from now on is the lease.
        (item.offer_until, item.lease_until) = (None, accepted["lease_until"].as_i64());
        item.accept_command = None;
    }
    shown(context, item)
}

/// Takes the next message, or waits for one. Whoever waits has taken nothing, so it goes on with the next daemon when one
/// is lost.
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
    // Each request is one of its own: what it takes comes back by itself if the answer is lost.
    let reply: NextReply = client.post(&meant.path("next"), &request, &context.key(None))?;
    Ok(reply.item)
}

fn shown(context: &Context, item: Option<ItemRow>) -> Outcome {
    // What is only offered is accepted first: to acknowledge it would be refused.
    let commands = |item: &ItemRow| {
        let accept = item.accept_command.clone().into_iter();
        accept.chain([item.acknowledge_command.clone()]).collect::<Vec<_>>()
    };
    let next: Vec<String> = item.iter().flat_map(commands).collect();
    // Agents are told these very words, and compare them.
    if context.ui.json && item.is_none() {
        context.ui.value(&json!({"item": null}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if context.ui.json {
        context.ui.result(json!({"item": item}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    match &item {
        None => context.ui.talk("nothing to take"),
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

/// Says whether messages of a task can be for this one.
fn is_somebody(task: &StandingTaskRow, name: &str) -> Result<(), ApiError> {
    let mut names: Vec<&str> = task.members.iter().map(|member| member.name.as_str()).collect();
    names.push("operator");
    match names.contains(&name) {
        true => Ok(()),
        false => {
            let next = format!("provost task show {}", ui::short(&task.id));
            Err(unknown("member", name, &names).next(next))
        }
    }
}

/// Says whether nothing is to come of a message any more.
fn is_over(row: &TaskMessageRow) -> bool {
    !matches!(row.standing.as_str(), "stored" | "offered" | "accepted" | "dead")
}

/// A message that waits for the operator, with the task that it is of.
#[derive(Debug, Serialize)]
struct Waiting {
    task: String,
    name: String,
    #[serde(flatten)]
    message: TaskMessageRow,
}

/// Lists what waits for the operator, of whatever task: nobody looks through them one by one.
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
    match lines.is_empty() {
        true => context.ui.talk("no messages for you, of any task; --task lists all of one"),
        false => context.ui.lines(&lines)?,
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
        context.ui.talk(if args.all { "no messages" } else { "no messages that are not over" });
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::output());
    context.ui.lines(&ui::message_lines(paint, screen, clock::now_ms(), &reply.messages))?;
    Ok(ExitCode::SUCCESS)
}
