//! `provost run`

pub(crate) mod follow;
mod goal;
mod next;
pub(crate) mod plan_file;
mod spec;

use std::{path::PathBuf, process::ExitCode};

use clap::Args;
use provost_api::{ApiError, OpenRunRequest, RunRow};
use serde_json::Value;

pub(crate) use self::{
    goal::{Goal, MAX_SPEC},
    next::next_commands,
    spec::{Wish, WishedChecks},
};
use super::{
    change::KeyArgs,
    spawn::{self, codex::CodexArgs, variables::VariableArgs},
};
use crate::{
    cli::Outcome, clock, context::Context, error::usage, follow::newest, target::RunReply, ui,
};

/// Take a goal through triage, work, checks and review to a change that is proved
///
/// The run's id is printed first, then what happens. Agents work in worktrees of their own, outside of the
/// repository; Provost commits what they leave and runs the checks itself in a clean checkout. Ctrl-C ends
/// only the watching, with exit 130: the run goes on. Without a terminal a question ends the watching too,
/// with exit 7.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost run 'Add rate limiting to the API' --check 'cargo test'\n  provost run --spec docs/feature.md --check 'make test' --land merge\n  provost run 'Fix the flaky test' --preset quick --detach\n  provost run --plan plan.toml --parallel 4 'Build the importer'\n  provost run - --no-questions --budget 2M < goal.md"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Let work count that changed nothing
    #[arg(long)]
    no_change_ok: bool,
    /// What becomes of the work: branch, merge or pr
    #[arg(long, value_name = "HOW")]
    land: Option<String>,
    /// Work on the tasks of this plan, a TOML or JSON file; nobody is asked for another
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan_mode", "no_plan"])]
    plan: Option<PathBuf>,
    /// Whether the goal is divided into tasks: auto, always or never
    #[arg(long, value_name = "MODE")]
    plan_mode: Option<String>,
    /// Do all of it as one task, whatever triage says
    #[arg(long, conflicts_with = "plan_mode")]
    no_plan: bool,
    /// How many agents of the run work at the same time
    #[arg(long, value_name = "N")]
    parallel: Option<String>,
    /// How many finished tasks are merged and checked together
    #[arg(long, value_name = "N")]
    batch: Option<String>,
    /// The review of the work: off, report or repair
    #[arg(long, value_name = "MODE")]
    review_task: Option<String>,
    /// The review of the whole before it lands: off, report or repair
    #[arg(long, value_name = "MODE")]
    review_final: Option<String>,
    /// How many times a review that repairs may look
    #[arg(long, value_name = "N")]
    cycles: Option<String>,
    /// Whether the run ends with its plan
    #[arg(skip)]
    plan_only: bool,
}

/// What runs and plans are opened with
#[derive(Debug, Args)]
pub(crate) struct CommonArgs {
    /// What is to be done; `-` takes it from standard input
    goal: Option<String>,
    /// A file that says more about it; its text is kept in the run
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// What the run is called; made from the id otherwise
    #[arg(long, value_parser = spawn::label)]
    name: Option<String>,
    /// `codex`, or an agent from the configuration, `[agents.NAME]`
    #[arg(long, value_name = "NAME", default_value = provost_config::BUILT_IN)]
    agent: String,
    #[command(flatten)]
    codex: CodexArgs,
    /// Leave out the project's provost.toml, and let Codex trust none of the project's files
    #[arg(long)]
    ignore_project_config: bool,
    /// A command that must succeed on the result; may be repeated
    #[arg(long, value_name = "COMMAND", conflicts_with = "no_check")]
    check: Vec<String>,
    /// Run no checks, whatever the configuration or the plan says
    #[arg(long)]
    no_check: bool,
    /// Take the stages, reviews and checks of a preset; what other flags say wins
    #[arg(long, value_name = "NAME")]
    preset: Option<String>,
    /// Let an agent first read the goal and the project, and ask what is unclear
    #[arg(long, overrides_with = "no_triage")]
    triage: bool,
    /// Begin with the work at once
    #[arg(long, overrides_with = "triage")]
    no_triage: bool,
    /// Ask nobody anything: agents decide for themselves
    #[arg(long)]
    no_questions: bool,
    /// Answers given beforehand, by the ids of questions, in the form that `answer --answers` takes; `-` is standard input
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// The review of the plan: off, report or repair
    #[arg(long, value_name = "MODE")]
    review_plan: Option<String>,
    /// Wait for a person to approve of the plan
    #[arg(long)]
    approve_plan: bool,
    /// How many tokens the run may use, as in 2M or 500k
    #[arg(long, value_name = "TOKENS")]
    budget: Option<String>,
    /// How many turns its agents may take
    #[arg(long, value_name = "N")]
    turns: Option<String>,
    /// How long each of its agents may work, as in 90m; waiting for people does not count
    #[arg(long, value_name = "TIME")]
    time_limit: Option<String>,
    #[command(flatten)]
    variables: VariableArgs,
    /// Where to work: a directory in the repository
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Print the id and let the run go on by itself
    #[arg(long)]
    detach: bool,
    #[command(flatten)]
    key: KeyArgs,
}

impl RunArgs {
    /// Gives what opens a run that ends with its plan.
    pub(crate) fn only_plan(common: CommonArgs) -> RunArgs {
        RunArgs {
            common,
            no_change_ok: false,
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

    /// Gives what is wished, before the configuration says the rest.
    pub(crate) fn wish(&self) -> Result<Wish<'_>, ApiError> {
        spec::wish(self)
    }

    pub(crate) fn key(&self, context: &Context) -> String {
        self.common.key.get(context)
    }

    pub(crate) fn is_detached(&self) -> bool {
        self.common.detach
    }
}

pub(crate) fn run(context: &Context, args: &RunArgs) -> Outcome {
    let Opened { reply, row, since } = open(context, args.wish()?, &args.key(context))?;
    if args.is_detached() {
        opened(context, reply, &row)
    } else {
        follow::run(context, &row, since)
    }
}

/// A run that was opened.
pub(crate) struct Opened {
    /// The daemon's answer.
    pub(crate) reply: Value,
    /// The row in it.
    pub(crate) row: RunRow,
    /// An event before the run was opened.
    pub(crate) since: u64,
}

/// Opens a run, or finds the one that was opened under this key before.
pub(crate) fn open(context: &Context, wish: Wish<'_>, key: &str) -> Result<Opened, ApiError> {
    let id = clock::mint();
    let mut spec = spec::build(context, wish, id)?;
    let client = context.daemon()?;
    spawn::expand(context, &client, &mut spec.agent, &mut spec.warnings)?;
    let spec = serde_json::to_value(&spec)
        .map_err(|why| usage(format!("the run cannot be written down: {why}")))?;
    let request = OpenRunRequest { id: id.to_string(), spec };
    // Without it the run is followed from the first event on.
    let newest = newest(context).unwrap_or_default();
    let reply: Value = client.post("/v1/runs", &request, key)?;
    let row = serde_json::from_value::<RunReply>(reply.clone())
        .map_err(|why| usage(format!("the daemon's answer cannot be read: {why}")))?
        .run;
    let since = if row.id == id.to_string() { newest } else { 0 };
    Ok(Opened { reply, row, since })
}

pub(crate) fn opened(context: &Context, reply: Value, row: &RunRow) -> Outcome {
    let next = next_commands(row);
    if context.ui.json {
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.line(&row.id)?;
    row.warnings.iter().for_each(|warning| context.ui.warn(warning));
    context.ui.talk(&ui::run_line(context.ui.talk_paint, row));
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
