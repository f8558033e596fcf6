//! `provost team overview`

use std::process::ExitCode;

use clap::Args;
use provost_api::OverviewReply;
use serde_json::json;

use super::args::NamedTeamArgs;
use crate::{
    cli::CliResult,
    context::Context,
    target,
    ui::{self, Screen},
};

/// Show everything needed to decide a team's next step
///
/// Lists members and their status, open criteria, the loop, budgets, messages, blockers, new events
/// and suggestions. The command takes no message and marks nothing as read; --since selects the
/// events that are new to you.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team overview limits\n  provost team overview limits --as boss --json\n  provost team overview limits --as boss --since 412 --json"
)]
pub(crate) struct OverviewArgs {
    #[command(flatten)]
    team: NamedTeamArgs,
    /// Show events after this sequence number, such as `seq` from the output of your last call
    /// [default: the newest events]
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
}

pub(crate) fn run(context: &Context, args: &OverviewArgs) -> CliResult {
    let meant = args.team.target(context);
    let since = args.since.map(|seq| seq.to_string());
    let path = target::with_query(&meant.path("cycle"), &[("since", since)]);
    let reply: OverviewReply = meant.get(context, &path)?;
    if context.ui.json {
        context.ui.result(json!({"cycle": reply.cycle}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::team_overview(paint, screen, &reply.cycle))?;
    Ok(ExitCode::SUCCESS)
}
