//! `provost finish`

use clap::Args;
use provost_core::task::{Allowance, Command};

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
/// that is to be finished. A task is not finished while a worker works, instructions are open, nothing changed or nothing
/// proves the work: --allow lets these pass, by name, and that is recorded. Other blockers have to be resolved. The checks take
/// their time: with --wait this ends when they are done. To finish what is finished says so, and does nothing. The
/// sessions that were opened for the task are stopped once their turns are over.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost finish limits --because 'merged and announced'\n  provost finish --because 'all criteria hold' --wait\n  provost finish limits --because 'nothing was to be changed' --allow nothing_changed"
)]
pub(crate) struct FinishArgs {
    #[command(flatten)]
    task: NamedTask,
    /// Why it is done
    #[arg(long)]
    because: String,
    /// Let these blockers pass: member_working, instruction_open, nothing_changed, nothing_proved (operator only)
    #[arg(long, value_name = "BLOCKER", value_delimiter = ',', value_parser = allowance)]
    allow: Vec<Allowance>,
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    wait: WaitArgs,
}

pub(crate) fn run(context: &Context, args: &FinishArgs) -> Outcome {
    let command =
        Command::Finish { because: input::text(&args.because)?, allow: args.allow.clone() };
    awaited::finish(context, args.task.meant(), &command, (&args.key, &args.wait))
}

fn allowance(text: &str) -> Result<Allowance, String> {
    let known = Allowance::ALL.into_iter().find(|one| one.as_str() == text);
    known.ok_or_else(|| {
        let names = Allowance::ALL.map(Allowance::as_str).join(", ");
        format!("{text:?} cannot be let pass: expected one of {names}")
    })
}
