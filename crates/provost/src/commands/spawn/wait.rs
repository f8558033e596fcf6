//! Waiting for an outcome.

use std::process::ExitCode;

use provost_api::{ApiError, Code, SessionRow};
use serde_json::{Value, json};

use super::{id_of, parting, warn};
use crate::{
    cli::Outcome,
    commands::change::{self, next_commands},
    context::Context,
    follow::{Follow, Of},
    target, ui,
};

/// Waits until a session's outcome is sealed or a person is needed, and exits as it ended.
pub(super) fn run(context: &Context, reply: &Value) -> Outcome {
    let id = id_of(reply).to_owned();
    // Whoever cannot hear Ctrl-C is ended by it all the same, only without a word.
    let short = ui::short(&id);
    let next = [
        format!("provost status {short}"),
        format!("provost logs {short} -f"),
        format!("provost stop {short}"),
    ];
    drop(parting::on_interrupt(&context.ui, &format!("session {short}"), &next));
    // The handle comes first; as JSON there is only one result object, so it is talk then.
    match context.ui.json {
        true => context.ui.talk(&id),
        false => context.ui.line(&id)?,
    }
    warn(context, reply);
    let row = until_settled(context, &id)?;
    show(context, reply, &row)
}

fn until_settled(context: &Context, id: &str) -> Result<SessionRow, ApiError> {
    let mut events = Follow::new(context, Of::Session(id.to_owned()), Some(0));
    let client = context.daemon()?;
    events.open(&client)?;
    let mut row = target::find(&client, id)?;
    let mut told = String::new();
    while !is_settled(&row) {
        tell(context, &row, &mut told);
        events.next()?;
        row = target::find(&context.daemon()?, id)?;
    }
    Ok(row)
}

/// Says what the session is at, where that has changed. Programs read the result.
fn tell(context: &Context, row: &SessionRow, told: &mut String) {
    let words = ui::under_way(context.ui.talk_paint, row);
    if !context.ui.json && words != *told {
        context.ui.talk(&words);
        *told = words;
    }
}

fn is_settled(row: &SessionRow) -> bool {
    (row.terminal && row.sealed) || row.state == "needs_input"
}

/// Waiting for an answer is not a failure.
fn holds(row: &SessionRow) -> bool {
    matches!(row.state.as_str(), "succeeded" | "completed" | "accepted" | "needs_input")
}

fn show(context: &Context, reply: &Value, row: &SessionRow) -> Outcome {
    let next = next_commands(row);
    let code = ExitCode::from(if holds(row) { 0 } else { Code::Failed.exit_code() });
    if !context.ui.json {
        change::line(context, row)?;
        if row.state == "needs_input" {
            context.ui.talk("it waits for a person");
        }
        context.ui.next(&next);
        return Ok(code);
    }
    let mut value = json!({
        "ok": holds(row), "id": row.id, "session": row, "warnings": reply.get("warnings"),
    });
    if !holds(row) {
        let message = format!("session {} is {}", ui::short(&row.id), row.state);
        value["error"] = json!(ApiError { code: Code::Failed, message, next: next.clone() });
    }
    context.ui.result(value, &next)?;
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: &str, sealed: bool) -> SessionRow {
        let row = crate::ui::test_session("x", state);
        SessionRow { terminal: sealed, sealed, ..row }
    }

    #[test]
    fn only_a_sealed_outcome_or_a_question_ends_the_wait() {
        assert!(!is_settled(&row("working", false)));
        assert!(!is_settled(&SessionRow { sealed: false, ..row("completed", true) }));
        assert!(is_settled(&row("failed", true)));
        assert!(is_settled(&row("needs_input", false)));
    }

    #[test]
    fn the_exit_code_follows_the_outcome() {
        for state in ["succeeded", "completed", "accepted", "needs_input"] {
            assert!(holds(&row(state, true)), "{state}");
        }
        for state in ["failed", "disputed", "ended_unclaimed", "cancelled", "superseded"] {
            assert!(!holds(&row(state, true)), "{state}");
        }
    }
}
