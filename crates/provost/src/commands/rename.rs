//! `provost rename`

use clap::Args;
use provost_api::RenameRequest;

use super::{
    change::{KeyArgs, change},
    input,
    spawn::label,
};
use crate::{cli::Outcome, context::Context};

/// Give a session another name
///
/// Its id stays, and so do its branch and its worktree. A session that is over keeps its name. Tasks are renamed by
/// `provost task rename`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost rename 1a2b3c4d limits-tests\n  provost rename limits limits-tests --json"
)]
pub(crate) struct RenameArgs {
    /// The session: its id, the beginning or end of it, or its name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// What it is called from now on
    #[arg(value_parser = label)]
    name: String,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &RenameArgs) -> Outcome {
    let request = RenameRequest { name: args.name.clone() };
    change(context, &args.id, "rename", &request, &args.key)
}
