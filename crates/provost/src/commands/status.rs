//! `provost status`

mod as_of;
mod watch;

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use provost_api::{
    ApiError, Client, ErrorCode, RunRow, SessionRow, SessionsReply, TeamRow, WhyReply,
};
use provost_engine::history::describe_missing;
use serde_json::{Value, json};

use super::{
    graph, input,
    ls::add_condition,
    mutation::next_commands,
    run,
    team::{args as team_args, show as team_show},
};
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    error::Error,
    target::{self, SessionOrRun},
    ui::{self, RunExtras, Screen},
};

/// Show one session, run or team, or an overview
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost status\n  provost status 1a2b3c4d\n  provost status 1a2b3c4d --why\n  provost status 1a2b3c4d --watch\n  provost status 1a2b3c4d --at 120\n  provost status limits --diff 100..120\n  provost status fixer --json | jq .state"
)]
pub(crate) struct StatusArgs {
    /// Session, run or team: ID or name [default: overview]
    #[arg(value_parser = input::parse_name)]
    id: Option<String>,
    /// Show the rule and the facts behind a session's state, or the reason why a run waits or ended
    #[arg(long, requires = "id", conflicts_with = "watch")]
    why: bool,
    /// Refresh on every event until the outcome is final; with --json, print one line per update
    #[arg(short, long, requires = "id")]
    watch: bool,
    /// Show the state as of this sequence number
    #[arg(long, value_name = "SEQ", requires = "id", conflicts_with_all = ["why", "watch", "diff"])]
    at: Option<u64>,
    /// Show the fields whose values changed between two sequence numbers
    #[arg(long, value_name = "FROM..TO", requires = "id", conflicts_with_all = ["why", "watch"], value_parser = as_of::parse_span)]
    diff: Option<(u64, u64)>,
}

pub(crate) fn run(context: &Context, args: &StatusArgs) -> CliResult {
    let Some(id) = &args.id else {
        overview(context, &context.daemon()?)?;
        return Ok(ExitCode::SUCCESS);
    };
    if args.at.is_some() || args.diff.is_some() {
        as_of::run(context, &context.daemon()?, id, args.at, args.diff)?;
        return Ok(ExitCode::SUCCESS);
    }
    // The name is looked up first, because the reply also describes the daemon.
    let subject = find_subject(context, id)?;
    let client = context.daemon()?;
    match subject {
        StatusTarget::Task(row) => one_task(context, &row)?,
        StatusTarget::Target(target) if args.watch => watch::run(context, &client, target)?,
        StatusTarget::Target(SessionOrRun::Session(row)) if args.why => {
            why(context, &client, &row.id)?
        }
        StatusTarget::Target(SessionOrRun::Session(row)) => one(context, &row)?,
        StatusTarget::Target(SessionOrRun::Run(row)) if args.why => {
            why_run(context, &client, &row)?
        }
        StatusTarget::Target(SessionOrRun::Run(row)) => one_run(context, &client, &row)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The session, run or team to show.
enum StatusTarget {
    Target(SessionOrRun),
    Task(Box<TeamRow>),
}

/// Finds a session or run, or else a team.
fn find_subject(context: &Context, id: &str) -> Result<StatusTarget, ApiError> {
    let mut found = context.look_up(id)?;
    let team = found.team.take();
    match team {
        Some(team) if found.is_empty() => Ok(StatusTarget::Task(Box::new(team))),
        _ => target::session_or_run(found, id).map(StatusTarget::Target).map_err(|missing| {
            if missing.code != ErrorCode::NotFound {
                return missing;
            }
            let message = describe_missing("session, run or team", id);
            ApiError { message, ..missing }.next("provost team ls")
        }),
    }
}

fn one_task(context: &Context, row: &TeamRow) -> Result<(), Error> {
    let next = team_args::next_commands(row, None);
    if context.ui.json {
        return context.ui.result(json!(row), &next);
    }
    context.ui.lines(&ui::team_detail(context.ui.paint, Screen::stdout(), clock::now_ms(), row))?;
    context.ui.next(&next);
    Ok(())
}

fn one(context: &Context, row: &SessionRow) -> Result<(), Error> {
    let next = next_commands(row);
    if context.ui.json {
        return context.ui.result(json!(row), &next);
    }
    context.ui.lines(&ui::session_detail(
        context.ui.paint,
        Screen::stdout(),
        clock::now_ms(),
        row,
    ))?;
    context.ui.next(&next);
    Ok(())
}

fn one_run(context: &Context, client: &Client, row: &RunRow) -> Result<(), Error> {
    let next = run::next_commands(row);
    if context.ui.json {
        return context.ui.result(json!(row), &next);
    }
    let (screen, now) = (Screen::stdout(), clock::now_ms());
    let graph = graph::find_plan(client, row)?;
    let beside = RunExtras { graph: graph.as_ref(), heard: None };
    context.ui.lines(&ui::run_detail(context.ui.paint, screen, now, row, beside))?;
    context.ui.next(&next);
    Ok(())
}

/// Shows why a run is in its current state, then the facts about the session that is responsible.
fn why_run(context: &Context, client: &Client, row: &RunRow) -> Result<(), Error> {
    let named = |id: &str| row.sessions.iter().find(|session| session.id == id);
    let session = row.why_session.as_deref().and_then(named);
    let reply: Option<WhyReply> = session
        .map(|session| client.get(&target::session_action_path(&session.id, "why")))
        .transpose()?;
    let next = run::next_commands(row);
    if context.ui.json {
        let why = json!({"ok": true, "run": row, "why": row.why, "session": reply});
        return context.ui.result(why, &next);
    }
    let (paint, screen, now) = (context.ui.paint, Screen::stdout(), clock::now_ms());
    context.ui.lines(&ui::why_run_lines(paint, screen, row))?;
    context.ui.lines(&ui::run_detail(paint, screen, now, row, RunExtras::default()))?;
    if let Some((session, reply)) = session.zip(reply) {
        let stage = session.stage.replace('_', " ");
        let title =
            format!("\nsession {} ({})", ui::short_id(&session.id), ui::escape_line(&stage));
        context.ui.line(&title)?;
        context.ui.lines(&ui::why_lines(paint, screen, now, &reply))?;
    }
    context.ui.next(&next);
    Ok(())
}

fn why(context: &Context, client: &Client, id: &str) -> Result<(), Error> {
    let reply: Value = client.get(&target::session_action_path(id, "why"))?;
    let shown: Option<WhyReply> = serde_json::from_value(reply.clone()).ok();
    let mut next = shown.as_ref().map(|why| next_commands(&why.session)).unwrap_or_default();
    // Leave out the command that the user has just run.
    next.retain(|command| !command.ends_with(" --why"));
    match (context.ui.json, shown) {
        (true, _) | (false, None) => context.ui.result(reply, &next),
        (false, Some(why)) => {
            context.ui.lines(&ui::why_lines(
                context.ui.paint,
                Screen::stdout(),
                clock::now_ms(),
                &why,
            ))?;
            context.ui.next(&next);
            Ok(())
        }
    }
}

fn overview(context: &Context, client: &Client) -> Result<(), Error> {
    let reply: SessionsReply = client.get("/v1/sessions")?;
    let rows = &reply.sessions;
    let waiting = team_show::for_operator(client)?;
    let mut next: Vec<String> =
        waiting.iter().take(1).map(team_show::take_message_command).collect();
    next.extend(overview_next(rows));
    if context.ui.json {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        rows.iter().for_each(|row| *counts.entry(row.state.as_str()).or_default() += 1);
        let live: Vec<_> = rows.iter().filter(|row| !row.terminal).collect();
        let requests: Vec<_> = rows.iter().flat_map(|row| &row.requests).collect();
        let runs: Vec<_> = reply.runs.iter().filter(|run| !run.terminal).collect();
        let mut value = json!({"ok": true, "counts": counts, "live": live, "runs": runs, "requests": requests, "shortages": reply.shortages, "more": reply.more});
        let messages = waiting.iter();
        value["for_operator"] = messages
            .map(|row| json!({"team": row.id, "name": row.name, "messages": row.for_operator}))
            .collect();
        add_condition(&reply, &mut value);
        return context.ui.result(value, &next);
    }
    let (paint, screen, now) = (context.ui.paint, Screen::stdout(), clock::now_ms());
    context.ui.lines(&ui::shortage_lines(paint, &reply.shortages))?;
    let live: Vec<_> = reply.runs.iter().filter(|run| !run.terminal).cloned().collect();
    if !live.is_empty() {
        context.ui.lines(&ui::run_lines(paint, screen, now, live))?;
        context.ui.line("")?;
    }
    context.ui.lines(&ui::overview(paint, screen, now, rows))?;
    if !waiting.is_empty() {
        context.ui.line("")?;
        context.ui.lines(&ui::for_operator_lines(paint, &waiting))?;
    }
    if !reply.unknown_holders.is_empty() {
        context.ui.line("")?;
        context.ui.lines(&ui::unknown_lines(paint, &reply.unknown_holders))?;
    }
    context.ui.next(&next);
    Ok(())
}

fn overview_next(rows: &[SessionRow]) -> Vec<String> {
    let asked = rows.iter().find_map(|row| Some((row, row.requests.first()?)));
    let status = |row: &SessionRow| format!("provost status {}", ui::short_id(&row.id));
    let owned = |command: &str| command.to_owned();
    match (asked, ui::first_session(rows)) {
        (Some((row, request)), _) => vec![request.answer_command(), status(row)],
        (None, Some(first)) => {
            vec![status(first), owned("provost ls"), owned("provost events -f")]
        }
        (None, None) => {
            ["provost run GOAL", "provost spawn -- COMMAND", "provost doctor"].map(owned).to_vec()
        }
    }
}
