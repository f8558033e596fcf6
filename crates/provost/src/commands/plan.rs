//! `provost plan`

use clap::Args;
use provost_api::RunStateName;

use super::{
    graph,
    run::{self, CommonArgs, RunArgs, follow},
};
use crate::{cli::CliResult, context::Context};

/// Break a goal into tasks, without doing them
///
/// An agent reads the goal and the project, asks questions, and writes a plan, which another agent
/// reviews. With --toml, the plan is printed in a format that you can edit and pass to `provost run
/// --plan`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost plan 'Move the importer to the new API'\n  provost plan --spec docs/feature.md --toml > plan.toml\n  provost run --plan plan.toml --spec docs/feature.md"
)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Print the plan as TOML
    #[arg(long, conflicts_with_all = ["detach", "json"])]
    toml: bool,
}

pub(crate) fn run(context: &Context, args: PlanArgs) -> CliResult {
    let opening = RunArgs::for_plan(args.common);
    let run::OpenedRun { reply, row, since } =
        run::open(context, opening.request()?, &opening.key(context))?;
    if opening.is_detached() {
        return run::show_opened(context, reply, &row);
    }
    // Only the plan is written to standard output.
    let row = follow::until_sealed(context, &row.id, since)?;
    if row.state == RunStateName::Completed {
        graph::show(context, &row.id, args.toml)
    } else {
        follow::show(context, &row)
    }
}
