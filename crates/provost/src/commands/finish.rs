//! `provost finish`

use clap::Args;
use provost_core::task::Command;

use super::{
    awaited::{self, WaitArgs},
    change::KeyArgs,
    input,
    tasking::NamedTask,
};
use crate::{cli::Outcome, context::Context};

/// Finish a task, if nothing is open
///
/// Criteria, acknowledgements, the epilogue and the loop are looked at, and every check is run once more on the tree
/// that is to be finished. What stands in the way is named. The checks take
/// their time: with --wait this ends when they are done. To finish what is finished says so, and does nothing. The
/// sessions that were opened for the task are stopped once their turns are over.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost finish limits --because 'merged and announced'\n  provost finish --because 'all criteria hold' --wait"
)]
pub(crate) struct FinishArgs {
    #[command(flatten)]
    task: NamedTask,
    /// Why it is done
    #[arg(long)]
    because: String,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

pub(crate) fn run(context: &Context, args: &FinishArgs) -> Outcome {
    let command = Command::Finish { because: input::text(&args.because)? };
    awaited::finish(context, args.task.meant(), &command, (&args.key, &args.wait))
}
