//! `provost team propose` and `provost team choose`

use clap::Args;
use provost_core::team::{ProposalChoice, TeamCommand};

use super::args::TeamFlags;
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
};

/// Propose the next step, without seeing the other proposal
///
/// The worker proposes first, then the manager. When both proposals exist, the reviewer gets them
/// and chooses with `provost team choose`. Without a reviewer, you choose.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team propose 'Now the second caller, with a test that fails first.' -t limits --as hand\n  provost team propose - -t limits --as boss < next.md"
)]
pub(super) struct ProposeArgs {
    /// Proposed next step; `-` reads standard input
    text: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Choose between two proposals for the next step, or stop
///
/// Only the reviewer or the operator can choose. `stop` pauses the team. The team also pauses if the reviewer fails.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team choose worker --because 'it is smaller, and shows more' -t limits --as eye\n  provost team choose stop --because 'neither says how it is tested' -t limits --as eye"
)]
pub(super) struct ChooseArgs {
    #[arg(value_parser = input::one_of_described(&CHOICES, ProposalChoice::as_str))]
    choice: ProposalChoice,
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

const CHOICES: [(ProposalChoice, &str); 3] = [
    (ProposalChoice::Worker, "The worker's proposal"),
    (ProposalChoice::Manager, "The manager's proposal"),
    (ProposalChoice::Stop, "Neither proposal; pause the team"),
];

pub(super) fn propose(context: &Context, args: &ProposeArgs) -> CliResult {
    let command = TeamCommand::ProposeNext { text: input::read_text("the proposal", &args.text)? };
    args.team.target(context).change(context, &command, &args.key)
}

pub(super) fn choose(context: &Context, args: &ChooseArgs) -> CliResult {
    let (choice, because) =
        (args.choice, input::read_text("the reason (--because)", &args.because)?);
    let command = TeamCommand::ChooseNext { choice, because };
    args.team.target(context).change(context, &command, &args.key)
}
