//! `provost team contract`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use provost_api::ApiError;
use provost_core::team::{
    EpilogueStep, MANAGER_RULES, ManagerConfig, MoveKind, TeamCommand, WorkChallenge,
    recipes::{RECIPES, recipe, summary},
};
use serde_json::{Value, json};

use super::args::TeamFlags;
use crate::{
    cli::CliResult,
    commands::{input, mutation::KeyArgs},
    context::Context,
    error::usage,
    ui::{self, Screen},
};

/// Manage the contract of a team's manager
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team contract show -t limits\n  provost team contract accept --revision 0 -t limits --as boss\n  provost team contract move nudge --because 'it waits for a word' -t limits --as boss"
)]
pub(crate) struct ContractArgs {
    #[command(subcommand)]
    what: ContractCommand,
}

#[derive(Debug, Subcommand)]
enum ContractCommand {
    Show(ContractShowArgs),
    Set(SetArgs),
    Accept(ContractAcceptArgs),
    Move(MoveArgs),
    Epilogue(EpilogueArgs),
    Challenge(ChallengeArgs),
}

/// Show the rules that a manager accepts, and their revision
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost team contract show -t limits --json > manager.json")]
struct ContractShowArgs {
    #[command(flatten)]
    team: TeamFlags,
}

/// Replace the contract with a new revision
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team contract set - --expect 0 -t limits < manager.json\n  provost team contract set --recipe strict --expect 0 -t limits\n  provost team contract set --recipe strict --yes --expect 0 -t limits"
)]
struct SetArgs {
    /// Contract as JSON, in the format of `provost team contract show --json`; `-` reads standard
    /// input. Omitted keys keep their values
    #[arg(required_unless_present = "recipe")]
    config: Option<String>,
    /// Use a predefined contract; shows its summary, or applies it with --yes
    #[arg(long, conflicts_with = "config", value_parser = RECIPES)]
    recipe: Option<String>,
    /// Apply the recipe
    #[arg(long, requires = "recipe")]
    yes: bool,
    /// Revision to replace; must be the current revision
    #[arg(long, value_name = "REVISION")]
    expect: u32,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Accept the contract as the team's manager
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team contract accept --revision 0 -t limits --as boss"
)]
struct ContractAcceptArgs {
    /// Revision of the contract to accept
    #[arg(long)]
    revision: u32,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Record the manager's next move, as strict mode requires
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team contract move wait --because 'its tests still run' -t limits --as boss"
)]
struct MoveArgs {
    /// Kind of move
    #[arg(value_parser = input::one_of(&MoveKind::ALL, MoveKind::as_str))]
    kind: MoveKind,
    /// Reason, with at least 12 letters or digits
    #[arg(long, value_name = "TEXT")]
    because: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// The steps that are recorded with this command. Provost runs the checks itself.
const RECORDED_STEPS: [EpilogueStep; 3] =
    [EpilogueStep::DraftPullRequest, EpilogueStep::SeparateReview, EpilogueStep::Handover];

/// Returns the word for a step on the command line.
fn step_word(step: EpilogueStep) -> &'static str {
    match step {
        EpilogueStep::DraftPullRequest => "draft-pull-request",
        EpilogueStep::SeparateReview => "separate-review",
        EpilogueStep::Checks | EpilogueStep::Handover => step.as_str(),
    }
}

/// Record that a step of the epilogue is done
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team contract epilogue handover --evidence 'written to HANDOVER.md' -t limits"
)]
struct EpilogueArgs {
    /// Step to record; `provost team done` runs the checks itself
    #[arg(value_parser = input::one_of(&RECORDED_STEPS, step_word))]
    step: EpilogueStep,
    /// Description of the step's result, with at least 12 letters or digits
    #[arg(long, value_name = "TEXT")]
    evidence: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

/// Record a challenge: an attempt to disprove the whole work
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost team contract challenge --failure-mode 'two callers at once' --check 'ran 100 in parallel' --result 'none was let through' -t limits"
)]
struct ChallengeArgs {
    /// Possible failure of the work
    #[arg(long, value_name = "TEXT")]
    failure_mode: String,
    /// Test that would show the failure
    #[arg(long, value_name = "COMMAND")]
    check: String,
    /// Result of the test for the failure
    #[arg(long, value_name = "TEXT")]
    result: String,
    #[command(flatten)]
    team: TeamFlags,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &ContractArgs) -> CliResult {
    match &args.what {
        ContractCommand::Show(args) => show(context, args),
        ContractCommand::Set(args) => set(context, args),
        ContractCommand::Accept(args) => {
            let command = TeamCommand::AcknowledgeContract { revision: args.revision };
            args.team.target(context).change(context, &command, &args.key)
        }
        ContractCommand::Move(args) => {
            let (kind, because) =
                (args.kind, input::read_text("the reason (--because)", &args.because)?);
            args.team.target(context).change(
                context,
                &TeamCommand::RecordMove { kind, because },
                &args.key,
            )
        }
        ContractCommand::Epilogue(args) => {
            let command = TeamCommand::DoEpilogue {
                step: args.step,
                evidence: input::read_text("the evidence (--evidence)", &args.evidence)?,
            };
            args.team.target(context).change(context, &command, &args.key)
        }
        ContractCommand::Challenge(args) => {
            let challenge = WorkChallenge {
                failure_mode: args.failure_mode.clone(),
                check: args.check.clone(),
                result: args.result.clone(),
            };
            args.team.target(context).change(
                context,
                &TeamCommand::ChallengeWork { challenge },
                &args.key,
            )
        }
    }
}

fn set(context: &Context, args: &SetArgs) -> CliResult {
    let config: ManagerConfig = match (&args.config, args.recipe.as_deref().and_then(recipe)) {
        (_, Some(config)) if !args.yes => return show_recipe(context, args, &config),
        (_, Some(config)) => config,
        (Some(given), None) => {
            let current = args.team.target(context).find(context)?.config;
            merge_config(current, &input::read_text("the contract", given)?)?
        }
        (None, None) => {
            return Err(usage("no contract given: pass a configuration or --recipe").into());
        }
    };
    let command = TeamCommand::Configure { config: Box::new(config), expected: args.expect };
    args.team.target(context).change(context, &command, &args.key)
}

/// Merges the given keys into the current configuration. Unknown keys are an error.
fn merge_config(current: Value, given: &str) -> Result<ManagerConfig, ApiError> {
    let unread =
        |why: &dyn std::fmt::Display| usage(format!("cannot parse the configuration: {why}"));
    let given: Value = serde_json::from_str(given).map_err(|why| unread(&why))?;
    // Accept either the output of `team contract show --json` or only its `config`.
    let given = given.get("config").cloned().unwrap_or(given);
    let (Value::Object(mut whole), Value::Object(given)) = (current, given) else {
        return Err(unread(
            &"expected an object, as `provost team contract show --json` prints it",
        ));
    };
    for (name, value) in given {
        if !whole.contains_key(&name) {
            let known: Vec<&str> = whole.keys().map(String::as_str).collect();
            let why = format!("unknown key {name:?}; expected one of {}", known.join(", "));
            return Err(unread(&why));
        }
        whole.insert(name, value);
    }
    serde_json::from_value(Value::Object(whole)).map_err(|why| unread(&why))
}

/// Prints the summary of a recipe without applying it.
fn show_recipe(context: &Context, args: &SetArgs, config: &ManagerConfig) -> CliResult {
    let (name, lines) = (args.recipe.clone().unwrap_or_default(), summary(config));
    let task = args.team.as_options();
    let next =
        [format!("provost team contract set --recipe {name} --yes --expect {}{task}", args.expect)];
    if context.ui.json {
        let reply = json!({"recipe": name, "summary": lines, "config": config, "changed": false});
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.ui.lines(&lines)?;
    context.ui.notice("nothing was changed; apply the recipe with --yes");
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}

fn show(context: &Context, args: &ContractShowArgs) -> CliResult {
    let meant = args.team.target(context);
    let row = meant.find(context)?;
    // If the manager has not accepted the contract yet, the next command is to accept it.
    let unread = row.blockers.iter().filter(|one| one.code == "contract_not_accepted");
    let mut next: Vec<String> = unread.filter_map(|one| one.next.clone()).collect();
    if next.is_empty() {
        next.push(meant.show_command(&row.id));
    }
    if context.ui.json {
        let reply = json!({"team": row.id, "config": row.config, "rules": MANAGER_RULES});
        context.ui.result(reply, &next)?;
        return Ok(ExitCode::SUCCESS);
    }
    let config: ManagerConfig = serde_json::from_value(row.config.clone())
        .map_err(|why| usage(format!("cannot parse the configuration: {why}")))?;
    let (paint, screen) = (context.ui.paint, Screen::stdout());
    context.ui.lines(&ui::contract_detail(paint, screen, &row, &config))?;
    context.ui.next(&next);
    Ok(ExitCode::SUCCESS)
}
