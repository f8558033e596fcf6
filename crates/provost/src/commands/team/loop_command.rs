//! `provost team loop`

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use clap::{Args, Subcommand};
use provost_api::ApiError;
use provost_config::Resolved;
use provost_core::team::{
    CriterionEvidence, LoopTemplate, ShownEvidence, TeamCommand, WorkChallenge,
    templates::{LoopOutline, outline_from_evidence, with_adversarial_proof},
};
use serde_json::json;

use super::{
    args::{self, TeamFlags},
    loop_templates,
};
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
    error::usage,
    settings,
    trust::TrustPrompt,
    ui::{self, Screen},
};

/// Run a bounded loop that requires evidence per iteration
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team loop status -t limits\n  provost team loop submit notes --text 'changed src/limit.rs, all tests run' -t limits\n  provost team send --next 'Now the second caller.' -t limits"
)]
pub(crate) struct LoopArgs {
    #[command(subcommand)]
    what: LoopCommand,
}

#[derive(Debug, Subcommand)]
enum LoopCommand {
    Start(LoopStartArgs),
    Status(LoopStatusArgs),
    Submit(LoopSubmitArgs),
    Stop(LoopStopArgs),
}

/// Start a loop
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team loop start build --check 'cargo test' -t limits\n  provost team loop start --require tests=verified:'cargo test' --require challenge --max-iterations 5 -t limits"
)]
struct LoopStartArgs {
    #[command(flatten)]
    looped: LoopFlags,
    /// Command that must pass in each iteration (repeatable) [default: the team's checks]
    #[arg(long, value_name = "COMMAND")]
    check: Vec<String>,
    /// Name of a built-in template, or of one in the configuration
    #[arg(
        value_name = "TEMPLATE",
        required_unless_present = "require",
        conflicts_with = "require"
    )]
    template: Option<String>,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// The requirements of a loop
#[derive(Debug, Args)]
pub(crate) struct LoopFlags {
    /// Require this evidence in each iteration, as in tests=verified:COMMAND (repeatable)
    #[arg(long, value_name = "EVIDENCE")]
    pub(crate) require: Vec<String>,
    /// Also require evidence of an attempt to disprove the work in each iteration
    #[arg(long)]
    pub(crate) adversarial: bool,
    /// Maximum number of iterations [default: from the template]
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u32>,
}

impl LoopFlags {
    /// Returns the requested loop, including its commands, if there is one.
    pub(crate) fn template(
        &self,
        config: &Resolved,
        named: Option<&str>,
        checks: &[String],
    ) -> Result<Option<LoopTemplate>, ApiError> {
        let outline = match (named, self.require.is_empty()) {
            (Some(name), _) => loop_templates::outline(config, name)?,
            (None, false) => {
                let texts = self.require.iter().map(String::as_str);
                outline_from_evidence(texts).map_err(|why| usage(why.to_string()))?
            }
            (None, true) if self.adversarial || self.max_iterations.is_some() => {
                let message = "--adversarial and --max-iterations need a loop";
                return Err(
                    usage(message).next("provost team start GOAL --worker codex --loop build")
                );
            }
            (None, true) => return Ok(None),
        };
        let outline = LoopOutline { max: self.max_iterations.unwrap_or(outline.max), ..outline };
        let template = outline.fill_checks(checks).map_err(|why| usage(why.to_string()))?;
        let template = if self.adversarial { with_adversarial_proof(template) } else { template };
        template.validate().map_err(|why| usage(why.to_string()))?;
        Ok(Some(template))
    }
}

/// Show a loop's limits, evidence, history and next step
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team loop status -t limits\n  provost team loop status --json"
)]
struct LoopStatusArgs {
    #[command(flatten)]
    team: TeamFlags,
}

/// Record evidence for the current iteration
///
/// Evidence from a command is recorded by `provost team prove --evidence NAME`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team loop submit notes --text 'changed src/limit.rs, all tests run' -t limits\n  provost team loop submit challenge --failure-mode 'two callers at once' --check 'ran 100 in parallel' --result 'none was let through'\n  provost team loop submit release --field version=1.2 --field notes=NOTES.md"
)]
struct LoopSubmitArgs {
    /// Name of the evidence, as listed by `provost team loop status`
    name: String,
    /// Iteration that the evidence belongs to [default: the current one]
    #[arg(long, value_name = "N")]
    iteration: Option<u32>,
    /// For an assertion: a description of the work and its result, with at least 12 letters or
    /// digits; `-` reads standard input
    #[arg(long, group = "kind")]
    text: Option<String>,
    /// For a challenge: the possible failure of the work
    #[arg(long, group = "kind", requires = "check", requires = "result")]
    failure_mode: Option<String>,
    /// For a challenge: the test that would show the failure
    #[arg(long, requires = "failure_mode")]
    check: Option<String>,
    /// For a challenge: the result of the test
    #[arg(long, requires = "failure_mode")]
    result: Option<String>,
    /// For an artifact: a field, as NAME=VALUE (repeatable)
    #[arg(long, group = "kind", value_name = "NAME=VALUE")]
    field: Vec<String>,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Stop the loop; the team continues without a loop
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team loop stop --because 'it is good enough' -t limits"
)]
struct LoopStopArgs {
    /// Reason
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &LoopArgs) -> CliResult {
    match &args.what {
        LoopCommand::Start(args) => start(context, args),
        LoopCommand::Status(args) => status(context, args),
        LoopCommand::Submit(args) => submit(context, args),
        LoopCommand::Stop(args) => {
            let command = TeamCommand::StopLoop {
                because: input::read_text("the reason (--because)", &args.because)?,
            };
            args.team.target(context).change(context, &command, &args.key)
        }
    }
}

fn start(context: &Context, args: &LoopStartArgs) -> CliResult {
    let meant = args.team.target(context);
    let task = meant.find(context)?;
    let (cwd, wanted) = (Path::new(&task.cwd), settings::ConfigInputs::default());
    let config = settings::load_to_start(context, cwd, wanted, TrustPrompt::AtTerminal)?;
    let checks = if args.check.is_empty() { &task.checks } else { &args.check };
    let template = args.looped.template(&config, args.template.as_deref(), checks)?;
    let template =
        template.ok_or_else(|| usage("no loop given: name a template, or use --require"))?;
    let command = TeamCommand::BeginLoop { template: Box::new(template) };
    meant.change(context, &command, &args.key)
}

fn status(context: &Context, args: &LoopStatusArgs) -> CliResult {
    let meant = args.team.target(context);
    let task = meant.find(context)?;
    let next = args::next_commands(&task, meant.by().as_deref());
    if context.ui.json {
        let counts = &task.messages;
        let reply = json!({"team": task.id, "loop": task.loop_row, "messages": counts});
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    match &task.loop_row {
        None => context.ui.notice("no loop is running"),
        Some(looped) => {
            let lines = ui::loop_lines(context.ui.paint, Screen::stdout(), &task, looped);
            context.ui.lines(&lines)?;
        }
    }
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn submit(context: &Context, args: &LoopSubmitArgs) -> CliResult {
    let meant = args.team.target(context);
    let shown = parse_evidence(args)?;
    let iteration = match args.iteration {
        Some(iteration) => iteration,
        None => meant.find(context)?.loop_row.map_or(0, |looped| looped.iteration),
    };
    let command = TeamCommand::Show { iteration, name: args.name.clone(), shown };
    meant.change(context, &command, &args.key)
}

fn parse_evidence(args: &LoopSubmitArgs) -> Result<ShownEvidence, ApiError> {
    if let Some(text) = &args.text {
        // The daemon sets the author, so that no member can claim to be another.
        let evidence = CriterionEvidence::Asserted {
            text: input::read_text("the evidence", text)?,
            by: String::new(),
        };
        return Ok(ShownEvidence::Evidence(evidence));
    }
    if let (Some(failure_mode), Some(check), Some(result)) =
        (args.failure_mode.clone(), args.check.clone(), args.result.clone())
    {
        return Ok(ShownEvidence::Challenge(WorkChallenge { failure_mode, check, result }));
    }
    if args.field.is_empty() {
        let message = "no evidence given: use --text, --field NAME=VALUE, or --failure-mode with --check and --result";
        return Err(usage(message).next("provost team loop status"));
    }
    let mut fields = BTreeMap::new();
    for field in &args.field {
        let (name, value) = field
            .split_once('=')
            .ok_or_else(|| usage(format!("--field {field:?} has no \"=\"; expected NAME=VALUE")))?;
        if fields.insert(name.to_owned(), value.to_owned()).is_some() {
            let message = format!("--field {name:?} is given twice: each field has one value");
            return Err(usage(message).next("provost team loop status"));
        }
    }
    Ok(ShownEvidence::Artifact(fields))
}
