//! `provost team new`

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use provost_api::{ApiError, OpenTeamRequest, TeamRow};
use provost_core::team::{ConsentTerms, ManagerConfig, TeamLimits, TeamSpec};
use serde_json::Value;

use super::{args::next_commands, loop_templates};
use crate::{
    cli::CliResult,
    clock,
    commands::{
        input,
        mutation::KeyArgs,
        spawn::{label, policy, spec::directory},
    },
    context::Context,
    error::usage,
    settings,
    trust::TrustPrompt,
    ui,
};

/// Open a team without members
///
/// `provost team start` opens a team together with its members.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team new limits --goal 'Limit how often each caller may call'\n  provost team new limits --goal - --check 'cargo test' < goal.md"
)]
pub(super) struct TeamNewArgs {
    /// Name of the team, unique among open teams
    #[arg(value_parser = label)]
    name: String,
    /// Goal; `-` reads standard input
    #[arg(long, value_name = "TEXT")]
    goal: String,
    /// Goal in one line, for lists
    #[arg(long)]
    summary: Option<String>,
    /// Command that must pass on the finished work (repeatable)
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// Manage the team by this policy from the configuration instead of an agent
    #[arg(long, value_name = "NAME", value_parser = input::parse_name)]
    policy: Option<String>,
    /// Directory in which the team works [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    #[command(flatten)]
    windows: WindowArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// The time limits of messages
#[derive(Debug, Args)]
pub(super) struct WindowArgs {
    /// Time for which an offered message is reserved for the member that got the offer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = input::parse_age)]
    offer: u64,
    /// Time in which a member must acknowledge an accepted message before Provost offers it again
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = input::parse_age)]
    lease: u64,
}

impl WindowArgs {
    pub(super) fn bounds(&self) -> TeamLimits {
        TeamLimits { offer_ms: self.offer, lease_ms: self.lease, ..TeamLimits::default() }
    }
}

/// Builds the spec of a team.
pub(super) fn spec(
    context: &Context,
    name: &str,
    goal: String,
    summary: Option<String>,
    checks: &[String],
    cwd: Option<&Path>,
    bounds: TeamLimits,
) -> Result<TeamSpec, ApiError> {
    let cwd = directory(context, cwd)?;
    let text = |path: &Path| -> Result<String, ApiError> {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| usage(format!("{} is not UTF-8", path.display())))
    };
    let project = settings::project_top(&cwd).as_deref().map(text).transpose()?;
    let config = settings::load(&context.environment, &cwd, Vec::new())?;
    let consent = ConsentTerms {
        rules: policy::build(context, &config, &cwd)?,
        named: loop_templates::commands(&config),
    };
    Ok(TeamSpec {
        name: name.to_owned(),
        goal,
        summary,
        project,
        cwd: text(&cwd)?,
        checks: checks.to_vec(),
        consent,
        config: ManagerConfig::default(),
        policy: None,
        bounds,
    })
}

pub(super) fn run(context: &Context, args: &TeamNewArgs) -> CliResult {
    let (goal, summary) = (input::read_text("the goal", &args.goal)?, args.summary.clone());
    let (cwd, bounds) = (args.cwd.as_deref(), args.windows.bounds());
    let mut spec = spec(context, &args.name, goal, summary, &args.check, cwd, bounds)?;
    if let Some(name) = &args.policy {
        let (cwd, wanted) = (Path::new(&spec.cwd), settings::ConfigInputs::default());
        let config = settings::load_to_start(context, cwd, wanted, TrustPrompt::AtTerminal)?;
        spec.policy = Some(loop_templates::policy(&config, name)?);
    }
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("cannot encode the team: {why}")))?;
    let request = OpenTeamRequest { id: clock::new_id().to_string(), spec };
    let reply: Value = context.daemon()?.post("/v1/teams", &request, &args.key.get(context))?;
    show_opened(context, reply)
}

/// Shows a team that was just opened. The ID is printed first.
fn show_opened(context: &Context, reply: Value) -> CliResult {
    let row: Option<TeamRow> =
        reply.get("team").cloned().and_then(|row| serde_json::from_value(row).ok());
    let next = row.as_ref().map(|row| next_commands(row, None)).unwrap_or_default();
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(row) = &row {
        context.ui.line(&row.id)?;
        context.ui.notice(&format!("{} is {}", ui::escape_line(&row.name), row.state));
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
