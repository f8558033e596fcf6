//! `provost run`

pub(crate) mod follow;
mod goal;
mod next;
pub(crate) mod plan_file;
mod spec;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use provost_api::{ApiError, OpenRunRequest, RunReply, RunRow};
use serde_json::Value;

pub(crate) use self::{
    goal::{MAX_SPEC, RunGoal},
    next::next_commands,
    spec::{CheckSource, RunRequest},
};
use super::{
    mutation::KeyArgs,
    spawn::{self, built_in::AgentArgs, variables::VariableArgs},
};
use crate::{
    adapters::DEFAULT_AGENT, cli::CliResult, clock, context::Context, error::usage, follow::newest,
    ui,
};

/// Turn a goal into a reviewed, tested branch
///
/// Prints the run's ID first, then its progress. Agents work in their own worktrees outside the
/// repository. Provost commits their work and runs the checks itself in a clean checkout. Ctrl-C
/// ends only this command, with exit code 130; the run continues. Without a terminal, a question
/// also ends this command, with exit code 7.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost run 'Add rate limiting to the API' --check 'cargo test'\n  provost run --spec docs/feature.md --check 'make test' --land merge\n  provost run 'Fix the flaky test' --preset quick --detach\n  provost run --plan plan.toml --parallel 4 'Build the importer'\n  provost run - --no-questions --budget 2M < goal.md"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Accept a result even if it contains no changes
    #[arg(long)]
    allow_empty_diff: bool,
    /// Landing mode: keep the work on its branch, merge it, or open a pull request
    #[arg(long, value_name = "HOW")]
    land: Option<String>,
    /// Use this plan file (TOML or JSON) instead of asking an agent to plan
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan_mode", "no_plan"])]
    plan: Option<PathBuf>,
    /// Planning mode: when to break the goal into tasks
    #[arg(long, value_name = "MODE")]
    plan_mode: Option<String>,
    /// Do all work as one task, even if triage suggests a plan
    #[arg(long, conflicts_with = "plan_mode")]
    no_plan: bool,
    /// Maximum number of agents that work at the same time [default: number of processors, 2 to 8]
    #[arg(long, value_name = "N")]
    parallel: Option<String>,
    /// Maximum number of finished tasks that are merged and checked together
    #[arg(long, value_name = "N")]
    batch: Option<String>,
    /// Review mode for each task's work
    #[arg(long, value_name = "MODE")]
    review_task: Option<String>,
    /// Review mode for the whole change before it lands
    #[arg(long, value_name = "MODE")]
    review_final: Option<String>,
    /// Maximum number of review-and-fix rounds
    #[arg(long, value_name = "N")]
    cycles: Option<String>,
    /// Whether the run ends with its plan
    #[arg(skip)]
    plan_only: bool,
}

/// The options that runs and plans share
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// Goal; `-` reads standard input
    goal: Option<String>,
    /// File with the full specification; its text is stored in the run
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Name of the run, unique among open runs [default: derived from the ID]
    #[arg(long, value_parser = spawn::label)]
    name: Option<String>,
    /// Agent: `codex`, `demo`, or the name of an `[agents.NAME]` table in the configuration; `demo`
    /// needs --no-triage --no-plan --review-task off --review-final off
    #[arg(long, value_name = "NAME", default_value = DEFAULT_AGENT)]
    agent: String,
    #[command(flatten)]
    settings: AgentArgs,
    /// Ignore the project's provost.toml, and do not let Codex trust the project's files
    #[arg(long)]
    ignore_project_config: bool,
    /// Command that must succeed on the result (repeatable)
    #[arg(long, value_name = "COMMAND", conflicts_with = "no_check")]
    check: Vec<String>,
    /// Run no checks, even if the configuration or the plan contains some
    #[arg(long)]
    no_check: bool,
    /// Use the stages, reviews and checks of this preset; other flags override it
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Start with triage: an agent reads the goal and the project, and asks questions (default)
    #[arg(long, overrides_with = "no_triage")]
    triage: bool,
    /// Start the work immediately, without triage
    #[arg(long, overrides_with = "triage")]
    no_triage: bool,
    /// Never ask questions; agents decide on their own
    #[arg(long)]
    no_questions: bool,
    /// File with answers by question ID, in the format of `answer --answers`; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Review mode for the plan
    #[arg(long, value_name = "MODE")]
    review_plan: Option<String>,
    /// Wait for your approval of the plan
    #[arg(long)]
    approve_plan: bool,
    /// Maximum number of tokens, such as 2M or 500k [default: no limit]
    #[arg(long, value_name = "TOKENS")]
    budget: Option<String>,
    /// Maximum number of turns of all agents [default: no limit]
    #[arg(long, value_name = "N")]
    turns: Option<String>,
    /// Maximum working time per agent, such as 90m; time spent waiting for you does not count [default: no limit]
    #[arg(long, value_name = "DURATION")]
    time_limit: Option<String>,
    #[command(flatten)]
    variables: VariableArgs,
    /// Directory in the repository to work in [default: current directory]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Print the ID and let the run continue in the background
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    key: KeyArgs,
}

impl RunArgs {
    /// Returns the arguments for a run that ends when its plan is ready.
    pub(crate) fn for_plan(common: CommonArgs) -> RunArgs {
        RunArgs {
            common,
            allow_empty_diff: false,
            land: None,
            plan: None,
            plan_mode: None,
            no_plan: false,
            parallel: None,
            batch: None,
            review_task: None,
            review_final: None,
            cycles: None,
            plan_only: true,
        }
    }

    /// Returns the requested settings, before they are completed from the configuration.
    pub(crate) fn request(&self) -> Result<RunRequest<'_>, ApiError> {
        spec::request_from_args(self)
    }

    pub(crate) fn key(&self, context: &Context) -> String {
        self.common.key.get(context)
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.common.detach
    }
}

pub(crate) fn run(context: &Context, args: &RunArgs) -> CliResult {
    let OpenedRun { reply, row, since } = open(context, args.request()?, &args.key(context))?;
    if args.is_detached() {
        show_opened(context, reply, &row)
    } else {
        follow::run(context, &row, since)
    }
}

/// A run that was just opened.
pub(crate) struct OpenedRun {
    /// The daemon's reply.
    pub(crate) reply: Value,
    /// The run contained in the reply.
    pub(crate) row: RunRow,
    /// The sequence number of an event before the run was opened.
    pub(crate) since: u64,
}

/// Opens a run, or returns the run that was already opened with this key.
pub(crate) fn open(
    context: &Context,
    wish: RunRequest<'_>,
    key: &str,
) -> Result<OpenedRun, ApiError> {
    let id = clock::new_id();
    let mut spec = spec::build(context, wish, id)?;
    let client = context.daemon()?;
    spawn::expand(context, &client, &mut spec.agent, &mut spec.warnings)?;
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("cannot encode the run: {why}")))?;
    let request = OpenRunRequest { id: id.to_string(), spec };
    // If the newest event is not known, the run is followed from the first event on.
    let newest = newest(context).unwrap_or_default();
    let reply: Value = client.post("/v1/runs", &request, key)?;
    let row = serde_json::from_value::<RunReply>(reply.clone())
        .map_err(|why| usage(format!("cannot parse the daemon's reply: {why}")))?
        .run;
    let since = if row.id == id.to_string() { newest } else { 0 };
    Ok(OpenedRun { reply, row, since })
}

pub(crate) fn show_opened(context: &Context, reply: Value, row: &RunRow) -> CliResult {
    let next = next_commands(row);
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.line(&row.id)?;
    row.warnings.iter().for_each(|warning| context.ui.warn(warning));
    context.ui.notice(&ui::run_line(context.ui.notice_paint, row));
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
