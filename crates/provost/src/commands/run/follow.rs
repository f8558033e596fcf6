//! Follows a run until its outcome is sealed.

use std::{
    io::{IsTerminal as _, stdin},
    process::ExitCode,
};

use provost_api::{ApiError, ErrorCode, EventRow, RunRow, RunStateName};
use serde_json::json;

use super::next_commands;
use crate::{
    cli::CliResult,
    clock,
    commands::spawn::ctrl_c,
    context::Context,
    error::Error,
    follow::{EventFilter, EventFollower},
    target,
    ui::{self, Screen},
};

/// Prints the progress of a run until its outcome is sealed. The exit code depends on the outcome.
pub(super) fn run(context: &Context, row: &RunRow, since: u64) -> CliResult {
    let row = watch(context, row, since)?;
    show(context, &row)
}

/// Prints the progress of a run until its outcome is sealed, and returns the final run.
fn watch(context: &Context, row: &RunRow, since: u64) -> Result<RunRow, Error> {
    let short = ui::short_id(&row.id);
    let next = [format!("provost status {short} --watch"), format!("provost cancel {short}")];
    // If the handler cannot be installed, Ctrl-C still terminates this program, but prints no
    // message.
    drop(ctrl_c::on_interrupt(&context.ui, &format!("run {short}"), &next));
    // The ID is printed first. With JSON, it goes to standard error, because standard output
    // contains only the result.
    if context.ui.json {
        context.ui.notice(&row.id);
    } else {
        context.ui.line(&row.id)?;
    }
    row.warnings.iter().for_each(|warning| context.ui.warn(warning));
    until_sealed(context, &row.id, since)
}

/// Waits for the outcome, and for the summary that is written when the outcome is sealed. Without a
/// terminal, a question ends the wait too. `since` is an event before the run was opened.
pub(crate) fn until_sealed(context: &Context, id: &str, since: u64) -> Result<RunRow, Error> {
    // Without a terminal, no one would see the question while this command waits.
    let attended = stdin().is_terminal();
    let mut events = EventFollower::new(context, EventFilter::Run(id.to_owned()), Some(since));
    events.open(&context.daemon()?)?;
    loop {
        let event = events.next()?;
        if event.stream != "run" {
            continue;
        }
        print_event(context, &event, id)?;
        if event.kind == "run.report_written" {
            let row = target::find_run(&context.daemon()?, id)?;
            if row.sealed {
                return Ok(row);
            }
        }
        if !attended && INPUT_EVENTS.contains(&event.kind.as_str()) {
            let row = target::find_run(&context.daemon()?, id)?;
            if needs_input(&row) {
                return Ok(row);
            }
        }
    }
}

/// The events after which a run may be waiting for the user.
const INPUT_EVENTS: [&str; 3] = ["run.request_observed", "run.plan_reviewed", "run.landing_held"];

/// Whether a run cannot continue without an answer or an approval.
fn needs_input(row: &RunRow) -> bool {
    let asks = row.requests.iter().any(|request| request.blocking);
    !row.terminal && (asks || row.awaits_approval)
}

/// Prints an event and, for a question, the command that answers it. Prints nothing with JSON,
/// because the result contains all facts.
fn print_event(context: &Context, event: &EventRow, id: &str) -> Result<(), ApiError> {
    if context.ui.json {
        return Ok(());
    }
    let paint = context.ui.notice_paint;
    if let Some(words) = ui::run_event_line(paint, event) {
        context.ui.notice(&words);
    }
    ui::review_finding_lines(event).iter().for_each(|line| context.ui.notice(line));
    if matches!(event.kind.as_str(), "run.plan_reviewed" | "run.landing_held") {
        let row = target::find_run(&context.daemon()?, id)?;
        if row.awaits_approval {
            context.ui.notice(&format!("the run waits for you: {}", ui::describe_approval(&row)));
            let approval = row.approval.clone().unwrap_or_default();
            let commands = approval.commands.iter().map(|command| ui::escape_line(command));
            for line in commands.chain(ui::approval_diff(&approval)) {
                context.ui.notice(&format!("  {line}"));
            }
            context.ui.next(&next_commands(&row));
        }
    }
    if event.kind == "run.request_observed" {
        let row = target::find_run(&context.daemon()?, id)?;
        let asked = ui::requests(paint, Screen::stderr(), clock::now_ms(), &row.requests);
        asked.iter().for_each(|line| context.ui.notice(line));
    }
    Ok(())
}

/// Returns the error code for the exit status, or `None` if the run succeeded.
fn failure(row: &RunRow) -> Option<ErrorCode> {
    match row.state.known() {
        Some(RunStateName::Succeeded | RunStateName::Completed) => None,
        Some(_) | None if needs_input(row) => Some(ErrorCode::InputNeeded),
        Some(_) | None => Some(ErrorCode::Failed),
    }
}

/// Returns the run's open question as a single line.
fn open_question(row: &RunRow) -> Option<String> {
    let request = row.requests.iter().find(|request| request.blocking);
    let question = request.map(|request| {
        let question = request.questions.first().map(|one| one.question.clone());
        question.unwrap_or_else(|| request.title.clone())
    });
    question.or_else(|| row.awaits_approval.then(|| ui::describe_approval(row)))
}

/// Describes why waiting for a run ended without success.
pub(crate) fn message(row: &RunRow, code: ErrorCode) -> String {
    let id = ui::short_id(&row.id);
    match open_question(row) {
        Some(text) if code == ErrorCode::InputNeeded => format!("run {id} needs input: {text}"),
        Some(_) | None => format!("run {id} is {}", row.state),
    }
}

pub(crate) fn show(context: &Context, row: &RunRow) -> CliResult {
    let next = next_commands(row);
    let failure = failure(row);
    let code = ExitCode::from(failure.map_or(0, ErrorCode::exit_code));
    if !context.ui.json {
        context.ui.line(&ui::run_line(context.ui.paint, row))?;
        if failure == Some(ErrorCode::InputNeeded) {
            context.ui.notice(
                "no longer waiting, because there is no terminal for the answer; \
                the run continues once the question is answered",
            );
        }
        context.ui.next(&next);
        return Ok(code);
    }
    let mut value = json!({"ok": failure.is_none(), "id": row.id, "run": row});
    if let Some(code) = failure {
        let message = message(row, code);
        value["error"] = json!(ApiError::new(code, message).next_all(&next));
    }
    context.ui.result(value, &next)?;
    Ok(code)
}
