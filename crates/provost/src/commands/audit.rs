//! `provost audit`

use std::process::ExitCode;

use clap::Args;
use provost_api::AuditReply;
use serde_json::json;

use super::{input, team::args as team_args};
use crate::{
    cli::CliResult,
    context::Context,
    target,
    ui::{self, Screen},
};

/// Show who did what in a team, and the evidence for it
///
/// Lists all actions with the channel they came through, all refusals with their reasons, and the
/// evidence for each criterion. Also reports contradictory signals from the team's sessions, such
/// as a claim of success despite a failed check.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost audit limits\n  provost audit limits --content\n  provost audit limits --json | jq '.actions[] | select(.refused)'"
)]
pub(crate) struct AuditArgs {
    /// Team ID or name
    #[arg(value_name = "TEAM", value_parser = input::parse_name)]
    team: String,
    /// Also show the text of the actions
    #[arg(long)]
    content: bool,
}

pub(crate) fn run(context: &Context, args: &AuditArgs) -> CliResult {
    let content = args.content.then(|| "1".to_owned());
    let path =
        target::with_query(&target::team_action_path(&args.team, "audit"), &[("content", content)]);
    let reply: AuditReply = team_args::client(context)?.get(&path)?;
    let id = ui::short_id(&reply.team.id);
    let next = [format!("provost replay {id}"), format!("provost export {id} --to DIRECTORY")];
    if context.ui.json {
        context.ui.result(json!(reply), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::history_header(paint, screen, &reply.team, &reply.sessions))?;
    context.ui.lines(&ui::audit_lines(paint, screen, &reply))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
