//! `provost status`

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use provost_api::{Client, RequestRow, SessionRow, WhyReply};
use serde_json::{Value, json};

use super::{change::next_commands, input, ls::ListReply};
use crate::{
    cli::Outcome,
    clock,
    context::Context,
    error::Error,
    target,
    ui::{self, Screen},
};

/// Show what is true: of one session, or of all at a glance
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost status\n  provost status 1a2b3c4d\n  provost status 1a2b3c4d --why\n  provost status fixer --json | jq .state"
)]
pub(crate) struct StatusArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: Option<String>,
    /// Show the facts behind the state: what was said or seen, by whom and when
    #[arg(long, requires = "id")]
    why: bool,
}

pub(crate) fn run(context: &Context, args: &StatusArgs) -> Outcome {
    let client = context.daemon()?;
    match &args.id {
        None => overview(context, &client)?,
        Some(id) if args.why => why(context, &client, id)?,
        Some(id) => one(context, &client, id)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn one(context: &Context, client: &Client, id: &str) -> Result<(), Error> {
    let row = target::find(client, id)?;
    let next = next_commands(&row);
    if context.ui.json {
        return context.ui.result(json!(row), &next);
    }
    context.ui.lines(&ui::card(context.ui.paint, Screen::output(), clock::now_ms(), &row))?;
    context.ui.next(&next);
    Ok(())
}

fn why(context: &Context, client: &Client, id: &str) -> Result<(), Error> {
    let reply: Value = client.get(&target::action(id, "why"))?;
    let shown: Option<WhyReply> = serde_json::from_value(reply.clone()).ok();
    let mut next = shown.as_ref().map(|why| next_commands(&why.session)).unwrap_or_default();
    // This is what was just asked for.
    next.retain(|command| !command.ends_with(" --why"));
    match (context.ui.json, shown) {
        (true, _) | (false, None) => context.ui.result(reply, &next),
        (false, Some(why)) => {
            context.ui.lines(&ui::why(
                context.ui.paint,
                Screen::output(),
                clock::now_ms(),
                &why,
            ))?;
            context.ui.next(&next);
            Ok(())
        }
    }
}

fn overview(context: &Context, client: &Client) -> Result<(), Error> {
    let reply: ListReply = client.get("/v1/sessions")?;
    let rows = &reply.sessions;
    let next = overview_next(rows);
    if context.ui.json {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        rows.iter().for_each(|row| *counts.entry(row.state.as_str()).or_default() += 1);
        let live: Vec<_> = rows.iter().filter(|row| !row.terminal).collect();
        let requests: Vec<_> = rows.iter().flat_map(|row| &row.requests).collect();
        let value = json!({"ok": true, "counts": counts, "live": live, "requests": requests, "more": reply.more});
        return context.ui.result(value, &next);
    }
    context.ui.lines(&ui::overview(context.ui.paint, Screen::output(), clock::now_ms(), rows))?;
    context.ui.next(&next);
    Ok(())
}

fn overview_next(rows: &[SessionRow]) -> Vec<String> {
    let asked = rows.iter().flat_map(|row| &row.requests).next();
    let next: &[&str] = match (asked, rows.is_empty()) {
        (Some(_), _) => &["provost status ID"],
        (None, true) => &["provost spawn -- COMMAND", "provost doctor"],
        (None, false) => &["provost status ID", "provost ls", "provost events -f"],
    };
    let next = next.iter().map(|command| (*command).to_owned());
    asked.map(RequestRow::answer_command).into_iter().chain(next).collect()
}
