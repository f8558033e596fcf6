//! `provost gc`

use std::process::ExitCode;

use clap::Args;
use provost_api::{GcItemRow, GcReply, GcRequest};
use serde_json::json;

use super::{input, mutation::KeyArgs};
use crate::{cli::CliResult, context::Context, error::Error, ui};

/// Show or remove data of closed sessions, runs and teams
///
/// Uncommitted or unreachable work is never removed; the output lists what is kept, and why.
/// Commits that an agent dropped remain available through a git ref.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost gc\n  provost gc --apply\n  provost gc --apply --older-than 7d"
)]
pub(crate) struct GcArgs {
    /// Remove the data instead of only listing it
    #[arg(long)]
    apply: bool,
    /// Keep output and summaries of sessions, runs and teams that were closed more recently than
    /// this; worktrees are removed regardless of their age
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = input::parse_age)]
    older_than: u64,
    #[command(flatten)]
    key: KeyArgs,
}

/// The default of `--older-than`, in milliseconds.
const DEFAULT_AGE_MS: u64 = 30 * 24 * 3_600 * 1_000;

/// Returns the command that removes the listed data.
fn apply_command(older_than: u64) -> String {
    match older_than {
        DEFAULT_AGE_MS => "provost gc --apply".to_owned(),
        age => format!("provost gc --apply --older-than {}s", age / 1_000),
    }
}

/// Describes the ignored files and dropped commits in a removed worktree.
fn describe_extras(item: &GcItemRow) -> String {
    let ignored = item.ignored_files.filter(|count| *count > 0);
    let ignored = ignored.map(|count| format!("includes {count} ignored files or directories"));
    let place = item.kept_ref.as_deref().unwrap_or("a separate ref");
    let dropped = item.dropped_commits.filter(|count| *count > 0);
    let dropped = dropped.map(|count| format!("{count} dropped commits are kept at {place}"));
    let parts: Vec<String> = ignored.into_iter().chain(dropped).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

pub(crate) fn run(context: &Context, args: &GcArgs) -> CliResult {
    let older_than_ms = Some(i64::try_from(args.older_than).unwrap_or(i64::MAX));
    let request = GcRequest { apply: args.apply, older_than_ms, runs: None };
    let reply: GcReply = context.daemon()?.post("/v1/gc", &request, &args.key.get(context))?;
    let next = match (args.apply, reply.removed.is_empty()) {
        (false, false) => vec![apply_command(args.older_than)],
        (true, _) | (false, true) => vec!["provost ls --all".to_owned()],
    };
    if context.ui.json {
        context.ui.result(json!(reply), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    show(context, if args.apply { "removed" } else { "would remove" }, &reply.removed)?;
    show(context, "kept", &reply.kept)?;
    if reply.removed.is_empty() {
        context.ui.line("nothing to remove")?;
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, verb: &str, items: &[GcItemRow]) -> Result<(), Error> {
    let line = |item: &GcItemRow| {
        let owner = item.session.as_deref().or(item.run.as_deref()).or(item.team.as_deref());
        let owner = owner.map(|id| format!(" of {}", ui::short_id(id)));
        let reason = item.reason.as_deref().map(|reason| format!(": {}", ui::escape_line(reason)));
        format!(
            "{verb} {}{} {}{}{}",
            ui::escape_line(&item.kind),
            owner.unwrap_or_default(),
            ui::escape_line(&item.path),
            reason.unwrap_or_default(),
            ui::escape_line(&describe_extras(item))
        )
    };
    context.ui.lines(&items.iter().map(line).collect::<Vec<_>>())
}
