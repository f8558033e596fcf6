//! `provost team next`

use std::{process::ExitCode, time::Duration};

use clap::Args;
use provost_api::{ApiError, Client, ErrorCode, InboxItemRow, NextReply, NextRequest};
use provost_core::team::TeamCommand;
use serde_json::json;

use super::args::{self, TeamFlags, TeamTarget};
use crate::{cli::CliResult, clock, commands::input, context::Context, ui};

/// Take the next message, or wait for one with --wait
///
/// If no message is waiting, the exit code is 0, and the output is exactly `{"item":null}` with
/// --json and empty otherwise. Taking a message accepts it. Once you have handled the message,
/// acknowledge it with the command shown beside it.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team next -t limits --as hand --wait\n  provost team next -t limits --as hand --wait --timeout 60 --json\n  provost team next -t limits --as hand --hold --json"
)]
pub(super) struct NextArgs {
    #[command(flatten)]
    team: TeamFlags,
    /// Wait for a message
    #[arg(long)]
    wait: bool,
    /// Maximum wait in seconds, or with a unit as in 90s or 5m [default: no limit]
    #[arg(long, value_name = "DURATION", requires = "wait", value_parser = input::parse_seconds)]
    timeout: Option<u64>,
    /// Take the message without accepting it, so that `provost team inbox accept` can accept it
    /// later (for programs)
    #[arg(long)]
    hold: bool,
}

/// The maximum time that a single request waits. For a longer or unlimited wait, the request is
/// repeated.
const REQUEST_WAIT: Duration = Duration::from_secs(60);

/// The number of times in a row that a wait may lose the daemon before the command fails.
const MAX_LOST_DAEMONS: u32 = 5;

/// The maximum number of checks whether the next daemon is running, if the caller is an agent. An
/// agent must not start a daemon itself, because the daemon would end with the agent.
const MAX_ABSENT_POLLS: u32 = 60;

/// The pause between two checks whether the next daemon is running.
const ABSENT_PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context, args: &NextArgs) -> CliResult {
    let meant = args.team.target(context);
    let mut item = take_next(context, args, meant)?;
    if !args.hold
        && let Some(item) = item.as_mut()
    {
        let command = TeamCommand::Accept { no: item.no, lease: item.lease, polls: 0 };
        let accepted = meant.send(context, &command, &context.idempotency_key(None))?;
        // The offer has been accepted, so only the lease still has a deadline.
        (item.offer_until, item.lease_until) = (None, accepted["lease_until"].as_i64());
        item.accept_command = None;
    }
    show_item(context, item)
}

/// Takes the next message, or waits for one. While waiting, the caller holds no message, so if the daemon stops, the
/// caller can continue with the next daemon.
fn take_next(
    context: &Context,
    args: &NextArgs,
    meant: TeamTarget<'_>,
) -> Result<Option<InboxItemRow>, ApiError> {
    let deadline = args.timeout.map(|seconds| clock::deadline_after(Duration::from_secs(seconds)));
    let is_over = || deadline.is_some_and(|deadline| clock::time_until(deadline).is_zero());
    let may_retry = |error: &ApiError, tries: u32, most: u32| {
        args.wait && error.code == ErrorCode::Unreachable && tries < most && !is_over()
    };
    let (mut lost, mut absent) = (0, 0);
    loop {
        let client = match args::client(context) {
            Ok(client) => client,
            Err(error) if lost > 0 && may_retry(&error, absent, MAX_ABSENT_POLLS) => {
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
            Err(error) if may_retry(&error, lost, MAX_LOST_DAEMONS) => lost += 1,
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
    let (launch, token) = args::launch_credentials(context);
    let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
    let request = NextRequest { acting_as: meant.by(), wait_ms, launch, token };
    // Each request has its own key. If a reply is lost, the message in the reply is offered again when the offer
    // expires.
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
    // Agents are instructed to compare the output with this exact text.
    if context.ui.json && item.is_none() {
        context.ui.value(&json!({"item": null}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if context.ui.json {
        context.ui.result(json!({"item": item}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    match &item {
        None => context.ui.notice("no message is waiting"),
        Some(item) => {
            context.ui.line(&ui::escape_block(&item.envelope))?;
            context.ui.next(&next);
        }
    }
    Ok(ExitCode::SUCCESS)
}
