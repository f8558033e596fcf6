//! `provost status --at` and `--diff`

use provost_api::{AsOfReply, Client, DiffReply, RunRow, SessionRow, TeamRow};
use serde_json::{Value, json};

use crate::{
    clock,
    context::Context,
    error::{Error, usage},
    target,
    ui::{self, RunExtras, Screen},
};

/// The maximum width of a displayed value, in columns.
const VALUE_WIDTH: usize = 60;

/// Parses two sequence numbers, the older one first.
pub(super) fn parse_span(text: &str) -> Result<(u64, u64), String> {
    let expected = || format!("invalid range \"{text}\": expected FROM..TO, such as 100..120");
    let (from, to) = text.split_once("..").ok_or_else(expected)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| expected());
    let (from, to) = (number(from)?, number(to)?);
    if from <= to { Ok((from, to)) } else { Err(format!("{from} is after {to}")) }
}

pub(super) fn run(
    context: &Context,
    client: &Client,
    id: &str,
    at: Option<u64>,
    diff: Option<(u64, u64)>,
) -> Result<(), Error> {
    let path = target::history_path(id);
    match (at, diff) {
        (Some(at), _) => {
            let path = target::with_query(&path, &[("at", Some(at.to_string()))]);
            show_state(context, &client.get(&path)?)
        }
        (None, Some((from, to))) => {
            let span = [("from", Some(from.to_string())), ("to", Some(to.to_string()))];
            show_changes(context, &client.get(&target::with_query(&path, &span))?)
        }
        (None, None) => Err(usage("no event given: use --at SEQ or --diff FROM..TO").into()),
    }
}

fn show_state(context: &Context, reply: &AsOfReply) -> Result<(), Error> {
    let id = ui::short_id(&reply.id);
    let next = match reply.before {
        Some(before) => [format!("provost status {id} --diff {before}..{}", reply.after)],
        None => [format!("provost status {id}")],
    };
    if context.ui.json {
        return context.ui.result(json!(reply), &next);
    }
    let (paint, screen, now) = (context.ui.paint, Screen::stdout(), clock::now_ms());
    let read = |why: serde_json::Error| usage(format!("cannot parse the daemon's reply: {why}"));
    let row = reply.row.clone();
    let lines = match reply.kind.as_str() {
        "session" => {
            let row: SessionRow = serde_json::from_value(row).map_err(read)?;
            ui::session_detail(paint, screen, now, &row)
        }
        "run" => {
            let row: RunRow = serde_json::from_value(row).map_err(read)?;
            ui::run_detail(paint, screen, now, &row, RunExtras::default())
        }
        _ => {
            let row: TeamRow = serde_json::from_value(row).map_err(read)?;
            ui::team_detail(paint, screen, now, &row)
        }
    };
    let archived = if reply.archived { " (archived)" } else { "" };
    context.ui.line(&format!("state after event {}{archived}", reply.after))?;
    context.ui.lines(&lines)
}

fn show_changes(context: &Context, reply: &DiffReply) -> Result<(), Error> {
    let id = ui::short_id(&reply.id);
    let next = [format!("provost status {id} --at {}", reply.to)];
    if context.ui.json {
        return context.ui.result(json!(reply), &next);
    }
    let shown = |value: &Value| {
        if value.is_null() {
            "nothing".to_owned()
        } else {
            ui::clip(&ui::escape_line(&value.to_string()), VALUE_WIDTH)
        }
    };
    let lines: Vec<String> = reply
        .changes
        .iter()
        .map(|one| {
            format!("{}: {} → {}", ui::escape_line(&one.field), shown(&one.from), shown(&one.to))
        })
        .collect();
    if lines.is_empty() {
        context.ui.notice("no differences");
    }
    context.ui.lines(&lines)?;
    context.ui.next(&next);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_requires_older_event_first() {
        assert_eq!(parse_span("3..20"), Ok((3, 20)));
        assert_eq!(parse_span("3..3"), Ok((3, 3)));
        for bad in ["3", "3-4", "a..b", "..4", "4..", "9..3"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }
}
