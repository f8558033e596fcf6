//! `provost rename`

use clap::Args;
use provost_api::RenameRequest;

use super::{
    input,
    mutation::{KeyArgs, change},
    spawn::label,
};
use crate::{cli::CliResult, context::Context};

/// Rename a session
///
/// The ID, branch and worktree of the session do not change. Closed sessions cannot be renamed. To
/// rename a team, use `provost team rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost rename 1a2b3c4d limits-tests\n  provost rename limits limits-tests --json"
)]
pub(crate) struct RenameArgs {
    /// Session ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// New name
    #[arg(value_parser = label)]
    name: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &RenameArgs) -> CliResult {
    let request = RenameRequest { name: args.name.clone() };
    change(context, &args.id, "rename", &request, &args.key)
}
