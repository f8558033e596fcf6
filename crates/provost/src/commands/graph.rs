//! `provost graph`

use std::process::ExitCode;

use clap::Args;
use provost_api::{ApiError, Client, GraphReply, RunGraphRow, RunRow, TaskRow};
use provost_core::plan::{Plan, PlanTask, format_faults};
use serde_json::json;

use super::{input, run::plan_file};
use crate::{
    cli::CliResult,
    context::Context,
    error::usage,
    target,
    ui::{self, GraphExtent, Screen},
};

/// Show a run's tasks and their progress
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost graph 1a2b3c4d\n  provost graph 1a2b3c4d --all\n  provost graph 1a2b3c4d --toml > plan.toml"
)]
pub(crate) struct GraphArgs {
    /// Run ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Show every task, even of a large plan
    #[arg(long)]
    all: bool,
    /// Print the plan as TOML for `provost run --plan`
    #[arg(long, conflicts_with_all = ["all", "json"])]
    toml: bool,
}

pub(crate) fn run(context: &Context, args: &GraphArgs) -> CliResult {
    let graph = find(&context.daemon()?, &args.id)?;
    let extent = if args.all { GraphExtent::Whole } else { GraphExtent::Folded };
    print_graph(context, &graph, args.toml, extent)
}

/// Shows the plan of a run.
pub(crate) fn show(context: &Context, id: &str, toml: bool) -> CliResult {
    print_graph(context, &find(&context.daemon()?, id)?, toml, GraphExtent::Whole)
}

/// Returns the plan of a run, if it has one.
pub(crate) fn find_plan(client: &Client, row: &RunRow) -> Result<Option<RunGraphRow>, ApiError> {
    if row.tasks.is_some() { find(client, &row.id).map(Some) } else { Ok(None) }
}

fn find(client: &Client, id: &str) -> Result<RunGraphRow, ApiError> {
    let reply: GraphReply = client.get(&target::run_action_path(id, "graph"))?;
    Ok(reply.graph)
}

fn print_graph(
    context: &Context,
    graph: &RunGraphRow,
    toml: bool,
    extent: GraphExtent,
) -> CliResult {
    let id = ui::short_id(&graph.run);
    if context.ui.json {
        context.ui.result(json!({"ok": true, "graph": graph}), &[])?;
        return Ok(ExitCode::SUCCESS);
    }
    if toml {
        context.ui.line(plan_file::toml(&plan_of(graph)?).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    for line in ui::graph_lines(context.ui.paint, Screen::stdout(), &ui::task_rows(graph), extent) {
        context.ui.line(&line)?;
    }
    context.ui.next(&[format!("provost graph {id} --toml"), format!("provost status {id}")]);
    Ok(ExitCode::SUCCESS)
}

fn plan_of(graph: &RunGraphRow) -> Result<Plan, ApiError> {
    let unread = |why: String| usage(format!("cannot parse the daemon's plan: {why}"));
    let task = |row: &TaskRow| -> Result<PlanTask, ApiError> {
        let id = |text: &String| {
            text.parse()
                .map_err(|why: provost_core::plan::ParseTaskIdError| unread(why.to_string()))
        };
        Ok(PlanTask {
            id: id(&row.id)?,
            title: row.title.clone(),
            instruction: row.instruction.clone(),
            after: row.after.iter().map(id).collect::<Result<_, _>>()?,
            criteria: row.criteria.clone(),
            checks: row.checks.clone(),
            scope: row.scope.clone(),
        })
    };
    let tasks = graph.tasks.iter().map(task).collect::<Result<_, _>>()?;
    Plan::new(tasks).map_err(|faults| unread(format_faults(&faults)))
}
