//! `provost team done`

use clap::Args;
use provost_core::team::{BlockerWaiver, TeamCommand};

use super::{args::NamedTeamArgs, wait};
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
};

/// Finish a team's work, if nothing blocks it
///
/// Provost examines criteria, the accepted contract, the epilogue and the loop, and reruns every
/// check on the final tree. A team cannot finish while a worker is working, instructions are open,
/// nothing changed or nothing proves the work. --allow overrides these blockers by name, and the
/// override is recorded. Other blockers must be resolved. The command waits for the checks, except
/// with --no-wait or inside an agent, which is notified of the result. Finishing a finished team
/// has no effect. Sessions that were opened for the team are stopped after their current turns.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team done limits --because 'merged and announced'\n  provost team done --because 'all criteria hold' --no-wait\n  provost team done limits --because 'nothing was to be changed' --allow nothing_changed"
)]
pub(crate) struct DoneArgs {
    #[command(flatten)]
    team: NamedTeamArgs,
    /// Reason why the work is done
    #[arg(long, value_name = "TEXT", default_value = "the work is done")]
    because: String,
    /// Ignore a blocker: member_working, instruction_open, nothing_changed or nothing_proved
    /// (operator only, repeatable)
    #[arg(long, value_name = "BLOCKER", value_delimiter = ',', value_parser = allowance)]
    allow: Vec<BlockerWaiver>,
    #[command(flatten)]
    key: KeyArgs,
    /// Do not wait for the final checks
    #[arg(long)]
    no_wait: bool,
}

pub(crate) fn run(context: &Context, args: &DoneArgs) -> CliResult {
    let command = TeamCommand::Finish {
        because: input::read_text("the reason (--because)", &args.because)?,
        allow: args.allow.clone(),
    };
    wait::finish(context, args.team.target(context), &command, &args.key, args.no_wait)
}

fn allowance(text: &str) -> Result<BlockerWaiver, String> {
    let known = BlockerWaiver::ALL.into_iter().find(|one| one.as_str() == text);
    known.ok_or_else(|| {
        let names = BlockerWaiver::ALL.map(BlockerWaiver::as_str).join(", ");
        format!("{text:?} is not a blocker that --allow can override: expected one of {names}")
    })
}
