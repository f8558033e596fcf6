//! Watching a run until its outcome is sealed.

use std::process::ExitCode;

use provost_api::{ApiError, Code, EventRow, RunRow};
use serde_json::json;

use super::next_commands;
use crate::{
    cli::Outcome,
    clock,
    commands::spawn::parting,
    context::Context,
    error::Error,
    follow::{Follow, Of},
    target,
    ui::{self, Screen},
};

/// Tells what happens until the outcome is sealed, and exits as it came out.
pub(super) fn run(context: &Context, row: &RunRow) -> Outcome {
    let row = watch(context, row)?;
    show(context, &row)
}

/// Tells what happens until the outcome is sealed, and gives the run as it is then.
pub(crate) fn watch(context: &Context, row: &RunRow) -> Result<RunRow, Error> {
    let short = ui::short(&row.id);
    let next = [format!("provost status {short} --watch"), format!("provost cancel {short}")];
    // Whoever cannot hear Ctrl-C is ended by it all the same, only without a word.
    drop(parting::on_interrupt(&context.ui, &format!("run {short}"), &next));
    // The handle comes first; as JSON there is only one result object, so it is talk then.
    match context.ui.json {
        true => context.ui.talk(&row.id),
        false => context.ui.line(&row.id)?,
    }
    row.warnings.iter().for_each(|warning| context.ui.warn(warning));
    until_sealed(context, &row.id)
}

/// The report card is written when the outcome is sealed, so it is waited for too.
pub(crate) fn until_sealed(context: &Context, id: &str) -> Result<RunRow, Error> {
    let mut events = Follow::new(context, Of::Run(id.to_owned()), Some(0));
    events.open(&context.daemon()?)?;
    loop {
        let event = events.next()?;
        if event.stream != "run" {
            continue;
        }
        tell(context, &event, id)?;
        if event.kind == "run.card_written" {
            let row = target::find_run(&context.daemon()?, id)?;
            if row.sealed {
                return Ok(row);
            }
        }
    }
}

/// Says what happened, and what is asked with the command that answers it. Programs read the result.
fn tell(context: &Context, event: &EventRow, id: &str) -> Result<(), ApiError> {
    if context.ui.json {
        return Ok(());
    }
    let paint = context.ui.talk_paint;
    if let Some(words) = ui::run_event(paint, event) {
        context.ui.talk(&words);
    }
    ui::run_findings(event).iter().for_each(|line| context.ui.talk(line));
    if matches!(event.kind.as_str(), "run.plan_reviewed" | "run.landing_held") {
        let row = target::find_run(&context.daemon()?, id)?;
        if row.awaits_approval {
            context.ui.talk(&format!("the run waits for you: {}", ui::approval_words(&row)));
            let approval = row.approval.clone().unwrap_or_default();
            let shown = approval.commands.iter().map(String::as_str);
            let diff = approval.diff.as_deref().unwrap_or_default();
            for line in shown.chain(diff.lines()) {
                context.ui.talk(&format!("  {}", ui::clean(line)));
            }
            context.ui.next(&next_commands(&row));
        }
    }
    if event.kind == "run.question_seen" {
        let row = target::find_run(&context.daemon()?, id)?;
        let asked = ui::requests(paint, Screen::talk(), clock::now_ms(), &row.requests);
        asked.iter().for_each(|line| context.ui.talk(line));
    }
    Ok(())
}

/// Says whether the asked-for thing holds.
fn holds(row: &RunRow) -> bool {
    matches!(row.state.as_str(), "succeeded" | "completed")
}

pub(crate) fn show(context: &Context, row: &RunRow) -> Outcome {
    let next = next_commands(row);
    let code = ExitCode::from(if holds(row) { 0 } else { Code::Failed.exit_code() });
    if !context.ui.json {
        context.ui.line(&ui::run_line(context.ui.paint, row))?;
        context.ui.next(&next);
        return Ok(code);
    }
    let mut value = json!({"ok": holds(row), "id": row.id, "run": row});
    if !holds(row) {
        let message = format!("run {} is {}", ui::short(&row.id), row.state);
        value["error"] = json!(ApiError { code: Code::Failed, message, next: next.clone() });
    }
    context.ui.result(value, &next)?;
    Ok(code)
}
