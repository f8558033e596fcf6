//! `provost monitor`

mod report;
mod status;
mod verdict;
mod verifier;
mod watch;
mod window;

use clap::Args;
use provost_api::ApiError;
use provost_core::lifecycle::State;
use provost_verify::WorkKey;

use super::{input, spawn::ctrl_c};
use crate::{cli::CliResult, context::Context, error::usage, settings, trust};

/// The states that only runs have.
const RUN_STATES: [&str; 2] = ["running", "stopping"];

/// Wait for sessions and runs, and report their outcomes
///
/// Waits until every session or run (with --any: at least one of them) is completed, incomplete,
/// stuck, failed or lost, or needs input. Without --timeout, there is no time limit. The command
/// does not change any session or run.
///
/// A workflow is a kind of work that your configuration describes under workflows.NAME. Each
/// workflow has a verifier: the command or file that decides whether a work item is really done.
///
/// Exit codes: 0 if all are completed (with --workflow: verified) or reached the state of --until;
/// 1 if one is incomplete, failed, stuck or (with --workflow) not verified; 5 on a timeout; 6 if
/// one was lost; 7 if one needs input (0 with --compat), in which case the question is printed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost monitor 1a2b3c4d\n  provost monitor 1a2b3c4d 5e6f7a8b --json --timeout 30m\n  provost monitor 1a2b3c4d --workflow dev --item 1-2\n  provost monitor 1a2b3c4d --until needs_input\n  provost monitor 1a2b3c4d --compat story-automator --workflow review --item 1.2"
)]
pub(crate) struct MonitorArgs {
    /// Session or run IDs or names
    #[arg(value_name = "ID", required = true, value_parser = input::parse_name)]
    ids: Vec<String>,
    /// Wait until this state is reached or the session or run has ended
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    until: Option<String>,
    /// Maximum wait, such as 90s or 1h30m [default: no limit]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Verify the result with this workflow's verifier
    #[arg(long, value_name = "NAME", requires = "item")]
    workflow: Option<String>,
    /// Work item whose result to verify, such as 1-2, 1.2 or 1-2-login
    #[arg(long, value_name = "ITEM", requires = "workflow", value_parser = parse_item)]
    item: Option<WorkKey>,
    /// Report a session as stuck if it has been silent for this long, in seconds or with a unit
    /// such as 90s [default: 5m]
    #[arg(long, value_name = "DURATION")]
    stale_after: Option<String>,
    /// Print results in the JSON format of another tool: story-automator
    #[arg(long, value_name = "TOOL", value_parser = ["story-automator"])]
    compat: Option<String>,
    /// Exit as soon as one session or run has finished
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Exit when all sessions and runs have finished (default)
    #[arg(long)]
    all: bool,
    /// Number of this attempt in the workflow, starting at 1
    #[arg(long, value_name = "N", default_value_t = 1, requires = "workflow", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    attempt: u32,
    /// JSON output of `provost monitor` for the previous attempt
    #[arg(long, value_name = "JSON", requires = "workflow")]
    previous: Option<String>,
}

pub(crate) fn run(context: &Context, args: &MonitorArgs) -> CliResult {
    reject_several(args)?;
    let here = context.environment.current_dir()?;
    let flags = args.stale_after.iter();
    let flags = flags.map(|text| settings::flag_text("--stale-after", "monitor.stale_after", text));
    // The silence window is determined below. Its module parses the environment variables of the window itself.
    let environment =
        context.environment.without(window::ignored_variables(args.stale_after.is_some()));
    // Only the verifier of a workflow runs commands.
    if args.workflow.is_some() {
        trust::require(context, &here, trust::TrustPrompt::AtTerminal)?;
    }
    let resolved = settings::load(&environment, &here, flags.collect())?;
    let window = window::choose(&context.environment, &resolved)?;
    let timeout = args.timeout.as_deref().map(|text| settings::parse_duration("--timeout", text));
    let previous = args.previous.as_deref().map(report::parse_previous).transpose()?;
    let workflow = args.workflow.as_deref().zip(args.item.as_ref());
    let proof = workflow
        .map(|(name, item)| verifier::WorkflowVerifier::resolve(context, &resolved, name, item));
    let asked = watch::WatchOptions {
        proof: proof.transpose()?,
        window,
        timeout: timeout.transpose()?,
        until: args.until.clone(),
        any: args.any && !args.all,
    };
    let next = args.ids.iter().map(|id| format!("provost status {id}")).collect::<Vec<_>>();
    // If the handler cannot be installed, Ctrl-C still terminates this program, but prints no
    // message.
    drop(ctrl_c::on_interrupt(&context.ui, "the watched work", &next));
    let seen = watch::run(context, &args.ids, &asked)?;
    let tries = report::AttemptHistory { number: args.attempt, previous };
    report::show(context, &asked, &tries, &seen, args.compat.is_some())
}

/// If several sessions are given, rejects options that apply to only one.
fn reject_several(args: &MonitorArgs) -> Result<(), ApiError> {
    let flag = match (&args.compat, &args.previous) {
        _ if args.ids.len() == 1 => return Ok(()),
        (Some(_), _) => "--compat story-automator supports only one session",
        (None, Some(_)) => "--previous supports only one session",
        (None, None) => return Ok(()),
    };
    let message = format!("{flag}, but {} were given", args.ids.len());
    Err(usage(message).next("provost monitor ID"))
}

fn parse_state(text: &str) -> Result<String, String> {
    let words: Vec<&str> =
        State::ALL.iter().map(|state| state.as_str()).chain(RUN_STATES).collect();
    if words.contains(&text) {
        Ok(text.to_owned())
    } else {
        Err(format!("unknown state {text:?}; expected one of {}", words.join(", ")))
    }
}

fn parse_item(text: &str) -> Result<WorkKey, String> {
    WorkKey::parse(text).map_err(|why| why.to_string())
}
