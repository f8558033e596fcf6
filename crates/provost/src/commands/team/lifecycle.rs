//! Commands that change a team's name or state: `provost team rename`, `pause`, `resume`, `fail` and `cancel`

use clap::Args;
use provost_core::team::TeamCommand;

use super::args::{NamedTeamArgs, TeamTarget};
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs, spawn::label},
    context::Context,
};

/// Rename a team
///
/// The team's ID and references to it do not change. A closed team cannot be renamed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team rename limits call-limits\n  provost team rename 1a2b3c4d call-limits --json"
)]
pub(super) struct TeamRenameArgs {
    /// Team ID or name
    #[arg(value_parser = input::parse_name)]
    team: String,
    /// New name; unique among open teams
    #[arg(value_parser = label)]
    name: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Pause a team, so that no messages are delivered
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team pause limits --because 'until Monday'")]
pub(super) struct PauseArgs {
    #[command(flatten)]
    team: NamedTeamArgs,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
}

/// Resume a paused team
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team resume limits")]
pub(super) struct TeamResumeArgs {
    #[command(flatten)]
    team: NamedTeamArgs,
    #[command(flatten)]
    key: KeyArgs,
}

/// End a team as failed, and stop its sessions
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team fail limits --because 'the library cannot do it'"
)]
pub(super) struct FailArgs {
    #[command(flatten)]
    rest: PauseArgs,
}

/// End a team as cancelled, and stop its sessions
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team cancel limits --because 'no longer needed'")]
pub(super) struct TeamCancelArgs {
    #[command(flatten)]
    rest: PauseArgs,
}

pub(super) fn rename(context: &Context, args: &TeamRenameArgs) -> CliResult {
    let command = TeamCommand::Rename { name: args.name.clone() };
    TeamTarget::new(&args.team).change(context, &command, &args.key)
}

pub(super) fn pause(context: &Context, args: &PauseArgs) -> CliResult {
    change_with_reason(context, args, |because| TeamCommand::Pause { because })
}

pub(super) fn resume(context: &Context, args: &TeamResumeArgs) -> CliResult {
    args.team.target(context).change(context, &TeamCommand::Resume, &args.key)
}

pub(super) fn fail(context: &Context, args: &FailArgs) -> CliResult {
    change_with_reason(context, &args.rest, |because| TeamCommand::Fail { because })
}

pub(super) fn cancel(context: &Context, args: &TeamCancelArgs) -> CliResult {
    change_with_reason(context, &args.rest, |because| TeamCommand::Cancel { because })
}

fn change_with_reason(
    context: &Context,
    args: &PauseArgs,
    of: impl Fn(String) -> TeamCommand,
) -> CliResult {
    args.team.target(context).change(
        context,
        &of(input::read_text("the reason (--because)", &args.because)?),
        &args.key,
    )
}
