//! The topic `exit-codes` of `provost help`.

use std::process::ExitCode;

use serde_json::json;

use crate::{cli::CliResult, context::Context};

/// The name of the topic.
pub(crate) const TOPIC: &str = "exit-codes";

/// The exit codes and their meanings.
const CODES: [(u8, &str); 9] = [
    (0, "success"),
    (1, "failed: the work failed, did not pass its checks or is disputed"),
    (2, "bad usage"),
    (3, "not found"),
    (4, "not allowed in the current state"),
    (5, "timed out"),
    (6, "the daemon, an agent or the storage could not be reached"),
    (7, "waiting for input: the question is printed, and the work continues once it is answered"),
    (130, "interrupted with Ctrl-C while waiting; the session keeps running"),
];

/// Shows what the exit codes mean.
pub(crate) fn show(context: &Context) -> CliResult {
    if context.ui.json {
        let codes: Vec<_> =
            CODES.iter().map(|(code, means)| json!({"code": code, "means": means})).collect();
        context.ui.result(json!({"ok": true, "exit_codes": codes}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    let lines: Vec<_> = CODES.iter().map(|(code, means)| format!("{code}  {means}")).collect();
    context.ui.lines(&lines)?;
    Ok(ExitCode::SUCCESS)
}
