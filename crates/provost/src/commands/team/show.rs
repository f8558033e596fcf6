//! `provost team ls` and `provost team show`

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, Client, TeamRow, TeamsReply};
use serde_json::json;

use super::args::{self, NamedTeamArgs, next_commands};
use crate::{
    cli::CliResult,
    clock,
    context::Context,
    target,
    ui::{self, Screen},
};

/// List open teams, and the newest closed ones
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team ls\n  provost team ls --json | jq '.teams[].state'"
)]
pub(super) struct TeamLsArgs {
    /// Maximum number of closed teams
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u32,
}

/// Show a team's members, criteria, messages and blockers
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team show limits\n  provost team show --json")]
pub(super) struct TeamShowArgs {
    #[command(flatten)]
    team: NamedTeamArgs,
}

pub(super) fn ls(context: &Context, args: &TeamLsArgs) -> CliResult {
    let path = target::with_query("/v1/teams", &[("limit", Some(args.limit.to_string()))]);
    let reply: TeamsReply = args::client(context)?.get(&path)?;
    if context.ui.json {
        context.ui.result(json!({"teams": reply.teams, "more": reply.more}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if reply.teams.is_empty() {
        context.ui.notice("no teams");
        context.ui.next(&["provost team start GOAL --worker codex".to_owned()]);
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::team_lines(paint, screen, clock::now_ms(), &reply.teams))?;
    if reply.more {
        context.ui.notice("there are more closed teams: provost team ls --limit N");
    }
    let waiting = reply.teams.iter().find(|row| row.for_operator > 0);
    let mut next: Vec<String> = waiting.map(take_message_command).into_iter().collect();
    next.push("provost team show TEAM".to_owned());
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

/// Returns the open teams.
pub(crate) fn open_teams(client: &Client) -> Result<Vec<TeamRow>, ApiError> {
    let path = target::with_query("/v1/teams", &[("limit", Some("0".to_owned()))]);
    let reply: TeamsReply = client.get(&path)?;
    Ok(reply.teams.into_iter().filter(|row| !row.terminal).collect())
}

/// Returns the teams with messages that the operator has not handled yet.
pub(crate) fn for_operator(client: &Client) -> Result<Vec<TeamRow>, ApiError> {
    let mut rows = open_teams(client)?;
    rows.retain(|row| row.for_operator > 0);
    Ok(rows)
}

/// Returns the command that takes the operator's next message in a team.
pub(crate) fn take_message_command(row: &TeamRow) -> String {
    format!("provost team next --as operator -t {}", ui::short_id(&row.id))
}

/// Shows a team in detail.
pub(super) fn show(context: &Context, args: &TeamShowArgs) -> CliResult {
    let meant = args.team.target(context);
    let row = meant.find(context)?;
    let mut next = next_commands(&row, meant.by().as_deref());
    // Leave out the command that the user has just run.
    next.retain(|command| !command.starts_with("provost team show"));
    if context.ui.json {
        context.ui.result(json!({"team": row}), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::team_detail(paint, screen, clock::now_ms(), &row))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
