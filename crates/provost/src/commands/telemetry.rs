//! `provost telemetry`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use provost_api::TelemetryReply;
use serde_json::json;

use super::{input, team::args as team_args};
use crate::{
    cli::CliResult,
    context::Context,
    target,
    ui::{self, Screen},
};

/// Count messages, waits, refusals, checks and tokens
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost telemetry\n  provost telemetry -t limits --window 7d\n  provost telemetry --view failures\n  provost telemetry --json | jq .metrics.stored_to_accepted_ms"
)]
pub(crate) struct TelemetryArgs {
    /// Only this team: ID or name
    #[arg(short, long, value_name = "TEAM", value_parser = input::parse_name)]
    team: Option<String>,
    /// Length of the period to count, which ends now; an archived team is counted only if it is
    /// given with --team
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = input::parse_age)]
    window: u64,
    /// Show only one table; --json always includes all of them
    #[arg(long, value_name = "VIEW", value_enum)]
    view: Option<TelemetryView>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TelemetryView {
    /// Figures per team
    Task,
    /// Refusals and failures
    Failures,
    /// Figures of all teams together
    Metrics,
}

pub(crate) fn run(context: &Context, args: &TelemetryArgs) -> CliResult {
    let path = target::with_query(
        "/v1/telemetry",
        &[("team", args.team.clone()), ("window_ms", Some(args.window.to_string()))],
    );
    let reply: TelemetryReply = team_args::client(context)?.get(&path)?;
    let next: Vec<String> = match reply.teams.first() {
        Some(task) => vec![format!("provost audit {}", ui::short_id(&task.id))],
        None => vec!["provost team ls".to_owned()],
    };
    if context.ui.json {
        context.ui.result(json!(reply), &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    let shows = |view: TelemetryView| args.view.is_none_or(|wanted| wanted == view);
    let mut parts = Vec::new();
    if shows(TelemetryView::Task) {
        parts.push(ui::team_figure_lines(paint, screen, &reply.teams));
    }
    if shows(TelemetryView::Failures) {
        let mut failures = ui::history_lines(paint, screen, &reply.failures);
        if reply.older_failures > 0 {
            failures.insert(0, format!("{} older failures are not shown", reply.older_failures));
        }
        parts.push(failures);
    }
    if shows(TelemetryView::Metrics) {
        parts.push(ui::metrics_lines(&reply.metrics));
    }
    parts.retain(|part| !part.is_empty());
    context.ui.lines(&parts.join(&String::new()))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
