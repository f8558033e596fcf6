//! `provost report`

use std::{path::Path, process::ExitCode};

use clap::{Args, Subcommand};
use provost_api::{ApiError, ReportReply, ReportRequest};
use provost_core::{ids::LaunchId, text::shell_quote};
use serde_json::json;

use super::{
    input,
    mutation::KeyArgs,
    report_delivery::{self, ReportOutcome},
};
use crate::{cli::CliResult, context::Context, error::usage, ui};

/// Report the status of a session's work (for agents)
///
/// An agent is identified by PROVOST_LAUNCH and PROVOST_TOKEN, which Provost sets. The operator
/// specifies the session with --session. A late report is recorded too.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost report working --message 'reading the code'\n  provost report completed --message 'all tests pass'\n  provost report failed --session 1a2b3c4d --message 'gave up'\n  provost report fact --branch fix/login"
)]
pub(crate) struct ReportArgs {
    #[command(subcommand)]
    what: ReportCommand,
}

#[derive(Debug, Subcommand)]
enum ReportCommand {
    /// Report that the work continues
    #[command(after_help = "Examples:\n  provost report working --message 'half of it is done'")]
    Working(ClaimArgs),
    /// Report that the work needs input from the user
    #[command(after_help = "Examples:\n  provost report needs-input --message 'Which database?'")]
    NeedsInput(ClaimArgs),
    /// Report that the work is done
    #[command(
        after_help = "Examples:\n  provost report completed\n  provost report completed --message 'see the branch'"
    )]
    Completed(ClaimArgs),
    /// Report that the work failed
    #[command(after_help = "Examples:\n  provost report failed --message 'the API is gone'")]
    Failed(ClaimArgs),
    /// Record a branch, a pull request or an artifact
    #[command(
        after_help = "Examples:\n  provost report fact --branch fix/login\n  provost report fact --pr https://example.org/pull/7\n  provost report fact --artifact target/report.html"
    )]
    Fact(FactArgs),
}

#[derive(Debug, Args)]
struct ClaimArgs {
    /// Message for the user; `-` reads standard input
    #[arg(long, short, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    about: AboutArgs,
}

#[derive(Debug, Args)]
struct FactArgs {
    #[command(flatten)]
    fact: FactValue,
    #[command(flatten)]
    about: AboutArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct FactValue {
    /// Branch that contains the session's work
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// Pull request that contains the session's work
    #[arg(long, value_name = "URL")]
    pr: Option<String>,
    /// File or address that the work produced
    #[arg(long, value_name = "VALUE")]
    artifact: Option<String>,
}

#[derive(Debug, Args)]
struct AboutArgs {
    /// Session that the report is about, if you are the operator
    #[arg(long, value_name = "ID", value_parser = input::parse_name)]
    session: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &ReportArgs) -> CliResult {
    let (about, mut request) = request(&args.what)?;
    set_reporter(context, &args.what, about, &mut request)?;
    let key = about.key.get(context);
    if request.launch.is_none() {
        return show(context, &context.daemon()?.post("/v1/reports", &request, &key)?);
    }
    match report_delivery::deliver(context, &request, &key)? {
        ReportOutcome::Delivered(reply) => show(context, &reply),
        ReportOutcome::Dropped { launch, path } => show_dropped(context, launch, &path),
    }
}

fn request(what: &ReportCommand) -> Result<(&AboutArgs, ReportRequest), ApiError> {
    let claim = |args: &ClaimArgs, word: &str| -> Result<ReportRequest, ApiError> {
        let read = |text: &str| input::read_text("the message (--message)", text);
        let text = args.message.as_deref().map(read).transpose()?;
        Ok(ReportRequest { claim: Some(word.to_owned()), text, ..ReportRequest::default() })
    };
    Ok(match what {
        ReportCommand::Working(args) => (&args.about, claim(args, "working")?),
        ReportCommand::NeedsInput(args) => (&args.about, claim(args, "needs_input")?),
        ReportCommand::Completed(args) => (&args.about, claim(args, "completed")?),
        ReportCommand::Failed(args) => (&args.about, claim(args, "failed")?),
        ReportCommand::Fact(args) => (&args.about, fact(&args.fact)?),
    })
}

fn fact(value: &FactValue) -> Result<ReportRequest, ApiError> {
    let given = [("branch", &value.branch), ("pr", &value.pr), ("artifact", &value.artifact)];
    let given = given.into_iter().find_map(|(word, value)| Some((word, value.as_deref()?)));
    let (word, value) =
        given.ok_or_else(|| usage("nothing to report: pass --branch, --pr or --artifact"))?;
    let value = Some(input::read_text("the value", value)?);
    Ok(ReportRequest { fact: Some(word.to_owned()), value, ..ReportRequest::default() })
}

/// Sets the reporter: the operator if a session is given, otherwise the launch to which this
/// process belongs.
fn set_reporter(
    context: &Context,
    what: &ReportCommand,
    about: &AboutArgs,
    request: &mut ReportRequest,
) -> Result<(), ApiError> {
    if about.session.is_some() {
        request.session.clone_from(&about.session);
        return Ok(());
    }
    report_delivery::add_identity(context, request);
    if request.launch.is_some() && request.token.is_some() {
        return Ok(());
    }
    Err(usage("not called from inside an agent; specify the session with --session ID")
        .next(operator_command(what)))
}

/// Returns the command with which the operator can make the same report.
fn operator_command(what: &ReportCommand) -> String {
    let claim = |word: &str, args: &ClaimArgs| {
        let message = args.message.as_deref().map(|text| format!(" --message {}", repeat(text)));
        format!("provost report {word} --session ID{}", message.unwrap_or_default())
    };
    match what {
        ReportCommand::Working(args) => claim("working", args),
        ReportCommand::NeedsInput(args) => claim("needs-input", args),
        ReportCommand::Completed(args) => claim("completed", args),
        ReportCommand::Failed(args) => claim("failed", args),
        ReportCommand::Fact(args) => {
            let FactValue { branch, pr, artifact } = &args.fact;
            let given = [("branch", branch), ("pr", pr), ("artifact", artifact)];
            let given = given.into_iter().filter_map(|(flag, value)| {
                Some(format!(" --{flag} {}", repeat(value.as_deref()?)))
            });
            format!("provost report fact --session ID{}", given.collect::<String>())
        }
    }
}

/// The maximum length of a text that a suggested command repeats.
const MAX_REPEATED: usize = 100;

/// Quotes a text for a suggested command. A long text, or one with several lines, is left out.
fn repeat(text: &str) -> String {
    if text.contains('\n') || text.chars().count() > MAX_REPEATED {
        "TEXT".to_owned()
    } else {
        shell_quote(text)
    }
}

fn show_dropped(context: &Context, launch: LaunchId, path: &Path) -> CliResult {
    let path = path.display().to_string();
    if context.ui.json {
        let id = launch.session.to_string();
        let value = json!({"ok": true, "status": "recorded", "id": id, "dropped": path});
        context.ui.result(value, &[])?;
    } else {
        let line = format!(
            "the report is recorded in {path}, because the daemon is not reachable; the daemon will read it later"
        );
        context.ui.line(&line)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, reply: &ReportReply) -> CliResult {
    let next: Vec<String> = reply.next.iter().map(ToString::to_string).collect();
    if context.ui.json {
        context.ui.result(json!(reply), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let sealed = if reply.sealed { ", sealed" } else { "" };
    let status = ui::escape_line(&reply.status.replace('_', " "));
    let state = ui::escape_line(&reply.state.replace('_', " "));
    context
        .ui
        .line(&format!("{status}: session {} is {state}{sealed}", ui::short_id(&reply.id)))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> AboutArgs {
        AboutArgs { session: None, key: KeyArgs::default() }
    }

    #[test]
    fn report_outside_an_agent_repeats_the_subcommand() {
        let message = |text: &str| ClaimArgs { message: Some(text.to_owned()), about: about() };
        let needs_input = ReportCommand::NeedsInput(message("which database?"));
        assert_eq!(
            operator_command(&needs_input),
            "provost report needs-input --session ID --message 'which database?'"
        );
        let failed = ReportCommand::Failed(message("two\nlines"));
        assert_eq!(operator_command(&failed), "provost report failed --session ID --message TEXT");
        let fact = FactValue { branch: Some("fix/login".to_owned()), pr: None, artifact: None };
        let fact = ReportCommand::Fact(FactArgs { fact, about: about() });
        assert_eq!(operator_command(&fact), "provost report fact --session ID --branch fix/login");
    }
}
