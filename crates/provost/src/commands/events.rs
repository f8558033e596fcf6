//! `provost events`

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, Client, Code, EventRow};
use serde::Deserialize;

use super::{input, tasking::TaskReply};
use crate::{
    cli::Outcome,
    context::Context,
    error::Error,
    follow::{self, Follow, Of},
    target::{self, Target},
    ui::{self, Screen},
};

/// Show the events of a session, run or team, or of all
///
/// A run includes its sessions. With --json and --follow each event is a JSON object on its own line.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost events\n  provost events 1a2b3c4d\n  provost events -f --since 120\n  provost events -f --json | jq -r .kind"
)]
pub(crate) struct EventsArgs {
    /// Session, run or team: ID (a unique part is enough) or name [default: all]
    #[arg(value_parser = input::parse_name)]
    id: Option<String>,
    /// Wait for more events; starts at the beginning of a session, otherwise now, or after --since
    #[arg(short, long)]
    follow: bool,
    /// Only events after this sequence number
    #[arg(long, value_name = "N")]
    since: Option<u64>,
    /// Maximum number of events
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "follow")]
    limit: u32,
}

#[derive(Debug, Deserialize)]
struct EventsReply {
    events: Vec<EventRow>,
    last: u64,
}

pub(crate) fn run(context: &Context, args: &EventsArgs) -> Outcome {
    if args.follow { go_on(context, args) } else { list(context, args) }
}

fn list(context: &Context, args: &EventsArgs) -> Outcome {
    let client = context.daemon()?;
    let path = target::query(
        "/v1/events",
        &[
            ("since", Some(since(context, args, u64::from(args.limit))?.to_string())),
            of(&client, args)?.parameter(),
            ("limit", Some(args.limit.to_string())),
        ],
    );
    if context.ui.json {
        context.ui.copy(&mut client.stream(&path, None)?.into_reader())?;
        return Ok(ExitCode::SUCCESS);
    }
    let reply: EventsReply = client.get(&path)?;
    let mut shown = ui::EventLines::new(context.ui.paint, Screen::output());
    let lines: Vec<_> = reply.events.iter().flat_map(|event| shown.show(event)).collect();
    context.ui.lines(&lines)?;
    context.ui.next(&[format!("provost events -f --since {}", reply.last)]);
    Ok(ExitCode::SUCCESS)
}

fn go_on(context: &Context, args: &EventsArgs) -> Outcome {
    let client = context.daemon()?;
    let since = since(context, args, 0)?;
    let mut follow = Follow::new(context, of(&client, args)?, Some(since));
    follow.open(&client)?;
    let mut shown = ui::EventLines::new(context.ui.paint, Screen::output());
    loop {
        show(context, &mut shown, &follow.next()?)?;
    }
}

/// Resolves the ID to its full form, because a short one may become ambiguous later.
fn of(client: &Client, args: &EventsArgs) -> Result<Of, ApiError> {
    let Some(id) = &args.id else { return Ok(Of::All) };
    match target::find_any(client, id) {
        Ok(Target::Session(row)) => Ok(Of::Session(row.id)),
        Ok(Target::Run(row)) => Ok(Of::Run(row.id)),
        Err(why) if why.code == Code::NotFound => {
            let found: Result<TaskReply, ApiError> = client.get(&target::task(id));
            found.map(|found| Of::Task(found.task.id)).map_err(|_| why)
        }
        Err(why) => Err(why),
    }
}

/// Returns the event to start after: a session starts at its beginning, the whole ledger at its end.
fn since(context: &Context, args: &EventsArgs, newest: u64) -> Result<u64, ApiError> {
    match (args.since, &args.id) {
        (Some(since), _) => Ok(since),
        (None, Some(_)) => Ok(0),
        (None, None) => Ok(follow::newest(context)?.saturating_sub(newest)),
    }
}

fn show(context: &Context, shown: &mut ui::EventLines, event: &EventRow) -> Result<(), Error> {
    if context.ui.json { context.ui.value(event) } else { context.ui.lines(&shown.show(event)) }
}
