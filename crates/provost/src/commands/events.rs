//! `provost events`

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, Client, ErrorCode, EventRow, EventsReply, TeamReply};
use provost_core::wait::Wait;
use provost_engine::history::describe_missing;

use super::{
    input,
    past_time::{PastTime, parse_past_time},
};
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    error::Error,
    follow::{self, EventFilter, EventFollower},
    target::{self, SessionOrRun},
    ui::{self, Screen},
};

/// Show all events, or those of a session, run or team
///
/// The events of a run include those of its sessions. Text output shows local times and omits
/// bookkeeping events, while --json includes all events. With --json and --follow, each event is
/// printed as a JSON object on its own line.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost events\n  provost events 1a2b3c4d\n  provost events --since 10m\n  provost events -f --since 120\n  provost events -f --json | jq -r .kind"
)]
pub(crate) struct EventsArgs {
    /// Session, run or team: ID or name [default: all]
    #[arg(value_parser = input::parse_name)]
    id: Option<String>,
    /// Wait for more events. Without --since, start at the first event of the given session or, if
    /// no ID is given, at the newest event
    ///
    /// If an ID is given, the command exits when the session, run or team has ended and all of its
    /// events have been shown.
    #[arg(short, long)]
    follow: bool,
    /// Only events after a sequence number, or after a time: an age such as 10m, or a local time such as 14:30
    #[arg(long, value_name = "N|DURATION|TIME", value_parser = parse_since)]
    since: Option<EventStart>,
    /// Also show bookkeeping events, such as token counts and heartbeats
    #[arg(short, long)]
    verbose: bool,
    /// Maximum number of events
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000), conflicts_with = "follow")]
    limit: u32,
}

/// The position from which events are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventStart {
    /// The listing starts after this sequence number.
    After(u64),
    Since(PastTime),
}

fn parse_since(text: &str) -> Result<EventStart, String> {
    match text.parse::<u64>() {
        Ok(seq) => Ok(EventStart::After(seq)),
        Err(_) => parse_past_time(text).map(EventStart::Since),
    }
}

/// The number of remaining events to request at once.
const REST_PAGE: u32 = 1_000;

pub(crate) fn run(context: &Context, args: &EventsArgs) -> CliResult {
    if args.follow { follow(context, args) } else { list(context, args) }
}

fn list(context: &Context, args: &EventsArgs) -> CliResult {
    let client = context.daemon()?;
    let path = target::with_query(
        "/v1/events",
        &[
            ("since", Some(start_after(context, args, u64::from(args.limit))?.to_string())),
            resolve_filter(&client, args)?.query_parameter(),
            ("limit", Some(args.limit.to_string())),
        ],
    );
    if context.ui.json {
        context.ui.copy(&mut client.stream(&path, None)?.into_reader())?;
        return Ok(ExitCode::SUCCESS);
    }
    let reply: EventsReply = client.get(&path)?;
    let mut shown = event_lines(context, args);
    let lines: Vec<_> = reply.events.iter().flat_map(|event| shown.show(event)).collect();
    context.ui.lines(&lines)?;
    context.ui.next(&[format!("provost events -f --since {}", reply.last)]);
    Ok(ExitCode::SUCCESS)
}

fn follow(context: &Context, args: &EventsArgs) -> CliResult {
    let client = context.daemon()?;
    let mut last = start_after(context, args, 0)?;
    let filter = resolve_filter(&client, args)?;
    let mut wait = Wait::begin(follow::newest(context)?);
    let mut follow = EventFollower::new(context, filter.clone(), Some(last));
    follow.open(&client)?;
    let mut shown = event_lines(context, args);
    loop {
        if wait.is_due() {
            if follow::is_over(context, &filter)? {
                return show_rest(context, &mut shown, &filter, last);
            }
            wait.mark_evaluated();
        }
        let event = follow.next()?;
        show(context, &mut shown, &event)?;
        last = event.seq;
        wait.record_event(last);
    }
}

/// Shows the remaining events of a session, run or team that has ended.
fn show_rest(
    context: &Context,
    shown: &mut ui::EventLines,
    filter: &EventFilter,
    mut last: u64,
) -> CliResult {
    loop {
        let query = [
            ("since", Some(last.to_string())),
            filter.query_parameter(),
            ("limit", Some(REST_PAGE.to_string())),
        ];
        let reply: EventsReply =
            context.daemon()?.get(&target::with_query("/v1/events", &query))?;
        let Some(newest) = reply.events.last().map(|event| event.seq) else {
            return Ok(ExitCode::SUCCESS);
        };
        for event in &reply.events {
            show(context, shown, event)?;
        }
        last = newest;
    }
}

/// Resolves the ID to its full form, because a short ID may become ambiguous later.
fn resolve_filter(client: &Client, args: &EventsArgs) -> Result<EventFilter, ApiError> {
    let Some(id) = &args.id else { return Ok(EventFilter::All) };
    match target::find_session_or_run(client, id) {
        Ok(SessionOrRun::Session(row)) => Ok(EventFilter::Session(row.id)),
        Ok(SessionOrRun::Run(row)) => Ok(EventFilter::Run(row.id)),
        Err(why) if why.code == ErrorCode::NotFound => {
            let found: Result<TeamReply, ApiError> = client.get(&target::team_path(id));
            found.map(|found| EventFilter::Task(found.team.id)).map_err(|_| {
                let message = describe_missing("session, run or team", id);
                ApiError { message, ..why }.next("provost team ls")
            })
        }
        Err(why) => Err(why),
    }
}

/// Returns the sequence number after which to start: the beginning of the given session, or else
/// the end of the ledger.
fn start_after(context: &Context, args: &EventsArgs, newest: u64) -> Result<u64, ApiError> {
    match (args.since, &args.id) {
        (Some(EventStart::After(seq)), _) => Ok(seq),
        (Some(EventStart::Since(time)), _) => last_before(context, time.at_ms(clock::now_ms())),
        (None, Some(_)) => Ok(0),
        (None, None) => Ok(follow::newest(context)?.saturating_sub(newest)),
    }
}

/// Returns the last event before a time, using bisection, because events are ordered by time.
fn last_before(context: &Context, at_ms: i64) -> Result<u64, ApiError> {
    let client = context.daemon()?;
    let (mut before, mut newest) = (0, follow::newest(context)?);
    while before < newest {
        let middle = before + (newest - before) / 2;
        let query = [("since", Some(middle.to_string())), ("limit", Some("1".to_owned()))];
        let reply: EventsReply = client.get(&target::with_query("/v1/events", &query))?;
        match reply.events.first() {
            Some(event) if event.at < at_ms => before = event.seq.max(middle + 1),
            Some(_) | None => newest = middle,
        }
    }
    Ok(before)
}

fn event_lines(context: &Context, args: &EventsArgs) -> ui::EventLines {
    ui::EventLines::new(context.ui.paint, Screen::stdout(), clock::local_zone(), args.verbose)
}

fn show(context: &Context, shown: &mut ui::EventLines, event: &EventRow) -> Result<(), Error> {
    if context.ui.json { context.ui.value(event) } else { context.ui.lines(&shown.show(event)) }
}
