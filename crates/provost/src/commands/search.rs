//! `provost search`

use std::process::ExitCode;

use clap::Args;
use provost_api::SearchReply;
use provost_engine::history::SearchScope;
use serde_json::json;

use super::{input, team::args as team_args};
use crate::{
    cli::CliResult,
    context::Context,
    target,
    ui::{self, Screen},
};

/// Search teams, sessions, runs, members and events
///
/// Lists the newest results first. All words must match; a word of three or more letters also
/// matches the beginning of a longer word. Archived teams, sessions and runs are found, but their
/// events are not.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost search rate limit\n  provost search limits --in teams --in members\n  provost search missing_evidence --in events --limit 50\n  provost search limits --json | jq '.hits[].communication.receive_command'"
)]
pub(crate) struct SearchArgs {
    /// Search terms, all of which must match
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Search only this kind (repeatable)
    #[arg(long = "in", value_name = "KIND", value_parser = input::one_of(&SearchScope::ALL, SearchScope::as_str))]
    within: Vec<SearchScope>,
    /// Maximum number of results per kind
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

pub(crate) fn run(context: &Context, args: &SearchArgs) -> CliResult {
    let places: Vec<&str> = args.within.iter().map(|place| place.as_str()).collect();
    let path = target::with_query(
        "/v1/search",
        &[
            ("words", Some(args.words.join(" "))),
            ("in", (!places.is_empty()).then(|| places.join(","))),
            ("limit", Some(args.limit.to_string())),
        ],
    );
    let reply: SearchReply = team_args::client(context)?.get(&path)?;
    let first = reply.hits.first().map(|hit| hit.next.clone()).unwrap_or_default();
    if context.ui.json {
        context.ui.result(json!(reply), &first)?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.hits.is_empty() {
        context.ui.notice("no results");
        context.ui.next(&["provost team ls".to_owned(), "provost ls --all".to_owned()]);
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.lines(&ui::hit_lines(context.ui.paint, Screen::stdout(), &reply.hits))?;
    if !reply.more.is_empty() {
        context.ui.notice(&format!(
            "there are more {}; raise --limit to see them",
            reply.more.join(", ")
        ));
    }
    context.ui.next(&first);
    Ok(ExitCode::SUCCESS)
}
