//! `provost help exit-codes`

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use crate::{cli::CliResult, context::Context};

/// Show what the exit codes mean
///
/// 0  success
/// 1  failed: the work failed, is disputed or did not pass its checks
/// 2  bad usage
/// 3  not found
/// 4  refused in this state
/// 5  timed out
/// 6  the daemon, an agent or the storage could not be reached
/// 7  waiting for input: the question is printed, and the work continues once it is answered
/// 130  Ctrl-C ended a wait; the session keeps running
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "Examples:\n  provost spawn --wait -- make test && echo passed"
)]
pub(crate) struct ExitCodesArgs {}

/// The exit codes and their meanings, with the same text as in the help above.
const CODES: [(u8, &str); 9] = [
    (0, "success"),
    (1, "failed: the work failed, is disputed or did not pass its checks"),
    (2, "bad usage"),
    (3, "not found"),
    (4, "refused in this state"),
    (5, "timed out"),
    (6, "the daemon, an agent or the storage could not be reached"),
    (7, "waiting for input: the question is printed, and the work continues once it is answered"),
    (130, "Ctrl-C ended a wait; the session keeps running"),
];

pub(crate) fn run(context: &Context, _args: &ExitCodesArgs) -> CliResult {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_matches_command_output() {
        let help = crate::cli::command()
            .find_subcommand("exit-codes")
            .unwrap()
            .get_long_about()
            .unwrap()
            .to_string();
        for (code, means) in CODES {
            assert!(help.contains(&format!("{code}  {means}")), "{code}");
        }
    }
}
