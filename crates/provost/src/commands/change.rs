//! What all commands have in common that change one session.

use std::process::ExitCode;

use clap::Args;
use provost_api::SessionRow;
use serde::Serialize;
use serde_json::Value;

use crate::{cli::Outcome, context::Context, error::Error, target, ui};

/// Makes the change happen once
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// Name this change, so that repeating the command with the same key does nothing more
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<String>,
}

/// The longest key that is taken.
const MAX_KEY: usize = 200;

impl KeyArgs {
    pub(crate) fn get(&self, context: &Context) -> String {
        context.key(self.key.as_deref())
    }

    /// Says whether the change was named, so that it may be one that was made before.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }
}

/// Asks for a change of a session and shows what is true then.
pub(crate) fn change(
    context: &Context,
    id: &str,
    action: &str,
    body: &impl Serialize,
    key: &KeyArgs,
) -> Outcome {
    let key = key.get(context);
    let reply: Value = context.daemon()?.post(&target::action(id, action), body, &key)?;
    show(context, reply)
}

/// Shows the answer to a change: the session's state in one line.
pub(crate) fn show(context: &Context, reply: Value) -> Outcome {
    let session = reply.get("session").cloned().and_then(|row| serde_json::from_value(row).ok());
    let next = session.as_ref().map(next_commands).unwrap_or_default();
    if context.ui.json {
        context.ui.result(reply, &next)?;
    } else if let Some(row) = &session {
        line(context, row)?;
        context.ui.next(&next);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints a session in one line.
pub(crate) fn line(context: &Context, row: &SessionRow) -> Result<(), Error> {
    let (tone, words) = ui::state_words(row);
    let words = context.ui.paint.paint(tone, &words);
    context.ui.line(&format!("{} {} {words}", ui::short(&row.id), ui::clean(&row.name)))
}

/// Gives the commands that make sense for a session as it is.
pub(crate) fn next_commands(row: &SessionRow) -> Vec<String> {
    let id = ui::short(&row.id);
    let mut next = Vec::new();
    if let Some(request) = row.requests.first() {
        next.push(format!("provost answer {} --revision {} TEXT", request.id, request.revision));
    }
    if row.flags.iter().any(|flag| flag == "output_limit") {
        next.push(format!("provost limit {id} --output SIZE"));
    }
    if !row.terminal {
        next.extend([format!("provost logs {id} -f"), format!("provost stop {id}")]);
        return next;
    }
    let failed_check =
        row.checks.iter().position(|check| check.result != "passed" && check.output.is_some());
    match failed_check {
        Some(at) => next.push(format!("provost logs {id} --check {}", at + 1)),
        None => next.push(format!("provost logs {id}")),
    }
    if !matches!(row.state.as_str(), "succeeded" | "completed" | "accepted") {
        next.push(format!("provost status {id} --why"));
        next.push(format!("provost resolve {id} --as accepted --because TEXT"));
    }
    next
}

/// A key travels in a header, so it is plain.
fn key(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
    match plain && (1..=MAX_KEY).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("a key has 1 to {MAX_KEY} visible ASCII characters and no blanks")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_break_out_of_its_header() {
        assert!(key("a-1").is_ok());
        for bad in ["", "a b", "a\r\nx: y", "é", &"x".repeat(201)] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }
}
