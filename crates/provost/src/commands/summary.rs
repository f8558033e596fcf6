//! `provost summary`

use std::{io, path::Path, process::ExitCode, time::Duration};

use clap::Args;
use provost_api::{ApiError, ErrorCode};
use provost_sys::agent_file;
use serde_json::json;

use super::input;
use crate::{cli::CliResult, clock, context::Context, target, ui};

/// The time to wait for the summary file after the outcome was sealed, in milliseconds. A file that
/// is still missing after this time will never be written.
const WRITE_TIMEOUT_MS: i64 = 10_000;

/// The maximum size of a summary file, in bytes.
const MAX_CARD: u64 = 256 << 20;

/// The pause between two attempts to read the file.
const PAUSE: Duration = Duration::from_millis(20);

/// Print the summary of a run
///
/// The summary covers the goal, decisions, changes, evidence, reviews, open points and usage. It is
/// written once, when the run's outcome is final, and never changes. A resumed run has one summary
/// for each time it ended.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost summary 1a2b3c4d\n  provost summary 1a2b3c4d --html > card.html"
)]
pub(crate) struct SummaryArgs {
    /// Run ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Print HTML instead of Markdown
    #[arg(long)]
    html: bool,
    /// Number of the summary, if the run has ended several times [default: the newest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
}

pub(crate) fn run(context: &Context, args: &SummaryArgs) -> CliResult {
    let row = target::find_run(&context.daemon()?, &args.id)?;
    let ended = if row.sealed { row.attempt } else { row.attempt - 1 };
    let attempt = args.attempt.unwrap_or(ended);
    if attempt == 0 || attempt > ended {
        let short = ui::short_id(&row.id);
        if ended == 0 {
            let message = format!("run {short} has not ended yet, so it has no summary");
            let status = format!("provost status {short}");
            return Err(ApiError::new(ErrorCode::Refused, message).next(status).into());
        }
        let times = if ended == 1 { "once".to_owned() } else { format!("{ended} times") };
        let message = format!("run {short} has ended {times}, so it has no summary {attempt}");
        let newest = format!("provost summary {short}");
        return Err(ApiError::new(ErrorCode::Refused, message).next(newest).into());
    }
    let name = format!("summary-{attempt}.{}", if args.html { "html" } else { "md" });
    let path = context.trusted_home()?.path.join("runs").join(&row.id).join(name);
    let text = read_summary(&path, row.sealed_at.unwrap_or_default())
        .map_err(|why| summary_error(&row.id, &why))?;
    if context.ui.json {
        let summary =
            json!({"ok": true, "id": row.id, "attempt": attempt, "path": path, "text": text});
        context.ui.result(summary, &[])?;
    } else {
        context.ui.raw(text.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a summary. The file is written right after the outcome is published, so a missing file may still appear.
fn read_summary(path: &Path, sealed_at: i64) -> io::Result<String> {
    let until = sealed_at.saturating_add(WRITE_TIMEOUT_MS);
    loop {
        match agent_file::read_text(path, MAX_CARD).map_err(io::Error::from) {
            Err(why) if why.kind() == io::ErrorKind::NotFound && clock::now_ms() < until => {
                clock::sleep(PAUSE);
            }
            read => return read,
        }
    }
}

fn summary_error(id: &str, why: &io::Error) -> ApiError {
    let short = ui::short_id(id);
    let (code, message) = if why.kind() == io::ErrorKind::NotFound {
        let message = format!(
            "the summary of run {short} is missing: it is still being written, could not be written, was removed by `provost gc`, or is in the home the run was imported from"
        );
        (ErrorCode::NotFound, message)
    } else {
        (ErrorCode::Storage, format!("cannot read the summary of run {short}: {why}"))
    };
    ApiError::new(code, message).next(format!("provost events {short}"))
}
