//! `provost report`

use std::{path::Path, process::ExitCode};

use clap::{Args, Subcommand};
use provost_api::{ApiError, ReportReply, ReportRequest};
use provost_core::ids::LaunchId;
use serde_json::json;

use super::{
    change::KeyArgs,
    input,
    telling::{self, Told},
};
use crate::{cli::Outcome, context::Context, error::usage, ui};

/// Say how a session's work stands; agents say it about themselves
///
/// An agent is known by PROVOST_LAUNCH and PROVOST_TOKEN, which Provost gives it. The operator names
/// the session with --session. A report is never refused because it is late: it is then recorded.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost report working --message 'reading the code'\n  provost report completed --message 'all tests pass'\n  provost report failed --session 1a2b3c4d --message 'gave up'\n  provost report fact --branch fix/login"
)]
pub(crate) struct ReportArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The work goes on
    #[command(after_help = "Examples:\n  provost report working --message 'half of it is done'")]
    Working(ClaimArgs),
    /// The work cannot go on without a person
    #[command(after_help = "Examples:\n  provost report needs-input --message 'Which database?'")]
    NeedsInput(ClaimArgs),
    /// The work is done
    #[command(
        after_help = "Examples:\n  provost report completed\n  provost report completed --message 'see the branch'"
    )]
    Completed(ClaimArgs),
    /// The work failed
    #[command(after_help = "Examples:\n  provost report failed --message 'the API is gone'")]
    Failed(ClaimArgs),
    /// Something about the work: a branch, a pull request or an artifact
    #[command(
        after_help = "Examples:\n  provost report fact --branch fix/login\n  provost report fact --pr https://example.org/pull/7\n  provost report fact --artifact target/report.html"
    )]
    Fact(FactArgs),
}

#[derive(Debug, Args)]
struct ClaimArgs {
    /// What to add, for people; `-` takes it from standard input
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
    /// The branch that has the work
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,
    /// The pull request that has the work
    #[arg(long, value_name = "URL")]
    pr: Option<String>,
    /// A file or address that the work made
    #[arg(long, value_name = "VALUE")]
    artifact: Option<String>,
}

#[derive(Debug, Args)]
struct AboutArgs {
    /// Speak as the operator, about this session
    #[arg(long, value_name = "ID", value_parser = input::parse_name)]
    session: Option<String>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &ReportArgs) -> Outcome {
    let (about, mut request) = request(&args.what)?;
    sign(context, about, &mut request)?;
    let key = about.key.get(context);
    if request.launch.is_none() {
        return show(context, &context.daemon()?.post("/v1/reports", &request, &key)?);
    }
    match telling::tell(context, &request, &key)? {
        Told::Heard(reply) => show(context, &reply),
        Told::Dropped { launch, path } => show_dropped(context, launch, &path),
    }
}

fn request(what: &What) -> Result<(&AboutArgs, ReportRequest), ApiError> {
    let claim = |args: &ClaimArgs, word: &str| -> Result<ReportRequest, ApiError> {
        let text = args.message.as_deref().map(input::text).transpose()?;
        Ok(ReportRequest { claim: Some(word.to_owned()), text, ..ReportRequest::default() })
    };
    Ok(match what {
        What::Working(args) => (&args.about, claim(args, "working")?),
        What::NeedsInput(args) => (&args.about, claim(args, "needs_input")?),
        What::Completed(args) => (&args.about, claim(args, "completed")?),
        What::Failed(args) => (&args.about, claim(args, "failed")?),
        What::Fact(args) => (&args.about, fact(&args.fact)?),
    })
}

fn fact(value: &FactValue) -> Result<ReportRequest, ApiError> {
    let given = [("branch", &value.branch), ("pr", &value.pr), ("artifact", &value.artifact)];
    let given = given.into_iter().find_map(|(word, value)| Some((word, value.as_deref()?)));
    let (word, value) = given.ok_or_else(|| usage("a fact is a branch, a pr or an artifact"))?;
    let value = Some(input::text(value)?);
    Ok(ReportRequest { fact: Some(word.to_owned()), value, ..ReportRequest::default() })
}

/// Says who speaks: the operator if a session is named, else the launch that this process belongs to.
fn sign(context: &Context, about: &AboutArgs, request: &mut ReportRequest) -> Result<(), ApiError> {
    if about.session.is_some() {
        request.session.clone_from(&about.session);
        return Ok(());
    }
    telling::sign(context, request);
    match request.launch.is_some() && request.token.is_some() {
        true => Ok(()),
        false => Err(usage("nobody knows who speaks: PROVOST_LAUNCH and PROVOST_TOKEN are set only for agents that Provost started")
            .next("provost report completed --session ID")),
    }
}

fn show_dropped(context: &Context, launch: LaunchId, path: &Path) -> Outcome {
    let path = path.display().to_string();
    if context.ui.json {
        let id = launch.session.to_string();
        let value = json!({"ok": true, "standing": "recorded", "id": id, "dropped": path});
        context.ui.result(value, &[])?;
    } else {
        let told = format!("recorded: no daemon answers here; it will find {path}");
        context.ui.line(&told)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, reply: &ReportReply) -> Outcome {
    if context.ui.json {
        context.ui.result(json!(reply), &reply.next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let sealed = if reply.sealed { ", sealed" } else { "" };
    let standing = ui::clean(&reply.standing.replace('_', " "));
    let state = ui::clean(&reply.state.replace('_', " "));
    context.ui.line(&format!("{standing}: session {} is {state}{sealed}", ui::short(&reply.id)))?;
    context.ui.next(&reply.next);
    Ok(ExitCode::SUCCESS)
}
