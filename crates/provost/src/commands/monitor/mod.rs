//! `provost monitor`

mod conclude;
mod proof;
mod report;
mod stand;
mod watch;
mod window;

use clap::Args;
use provost_api::ApiError;
use provost_core::lifecycle::State;
use provost_verify::Key;

use super::{input, spawn::parting};
use crate::{cli::Outcome, context::Context, error::usage, settings, trust};

/// The states that a run has and a session has not.
const RUN_STATES: [&str; 2] = ["running", "stopping"];

/// Wait for sessions and runs, and say what came of each
///
/// One blocking wait over the stream of events. It ends when every one (with --any: one of them) is completed, incomplete, needs
/// input, is stuck, failed or lost; by time alone only with --timeout. Nothing that is watched is changed by it.
///
/// Exit codes: 0 all completed (and verified, with --workflow) or wait for an answer, or are in the state of --until; 1 one
/// is incomplete, failed or stuck, or is not verified though --workflow asks for that; 5 the time was over; 6 one was lost sight of.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost monitor 1a2b3c4d\n  provost monitor 1a2b3c4d 5e6f7a8b --json --timeout 30m\n  provost monitor 1a2b3c4d --workflow dev --key 1-2\n  provost monitor 1a2b3c4d --until needs_input\n  provost monitor 1a2b3c4d --compat story-automator --workflow review --story-key 1.2"
)]
pub(crate) struct MonitorArgs {
    /// The sessions or runs: their ids, the beginning or end of them, or their names
    #[arg(value_name = "ID", required = true, value_parser = input::parse_name)]
    ids: Vec<String>,
    /// Wait for this state, and for nothing else than it or the end
    #[arg(long, value_name = "STATE", value_parser = parse_state)]
    until: Option<String>,
    /// Wait no longer than this, as in 90s or 1h30m
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Hold what was left against the verifier of this workflow
    #[arg(long, value_name = "NAME", requires = "key")]
    workflow: Option<String>,
    /// What the workflow was about, as in 1-2, 1.2 or 1-2-login
    #[arg(long, value_name = "KEY", alias = "story-key", requires = "workflow", value_parser = parse_key)]
    key: Option<Key>,
    /// Say that one is stuck after so many seconds of silence, or after a duration such as 90s
    #[arg(long, value_name = "SECONDS")]
    stale_after: Option<String>,
    /// Print the one JSON object that users of another tool know
    #[arg(long, value_name = "TOOL", value_parser = ["story-automator"])]
    compat: Option<String>,
    /// End when one of them has come to something
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// End when all of them have come to something, which is usual
    #[arg(long)]
    all: bool,
    /// Which try of the workflow this is, from 1
    #[arg(long, value_name = "N", default_value_t = 1, requires = "workflow", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    attempt: u32,
    /// What the monitor printed as JSON for the try before
    #[arg(long, value_name = "JSON", requires = "workflow")]
    previous: Option<String>,
}

pub(crate) fn run(context: &Context, args: &MonitorArgs) -> Outcome {
    only_one(args)?;
    let here = context.environment.here()?;
    let flags = args.stale_after.iter();
    let flags = flags.map(|text| settings::flag_text("--stale-after", "monitor.stale_after", text));
    // Only the value that counts is looked at, and that is for the window to say.
    let environment =
        context.environment.without(window::looked_at_later(args.stale_after.is_some()));
    // Only a workflow's verifier runs anything.
    if args.workflow.is_some() {
        trust::require(context, &here, trust::Asking::AtTerminal)?;
    }
    let resolved = settings::load(&environment, &here, flags.collect())?;
    let window = window::choose(&context.environment, &resolved)?;
    let timeout = args.timeout.as_deref().map(|text| settings::parse_duration("--timeout", text));
    let previous = args.previous.as_deref().map(report::parse_previous).transpose()?;
    let workflow = args.workflow.as_deref().zip(args.key.as_ref());
    let proof = workflow.map(|(name, key)| proof::Proof::of(context, &resolved, name, key));
    let asked = watch::Asked {
        proof: proof.transpose()?,
        window,
        timeout: timeout.transpose()?,
        until: args.until.clone(),
        any: args.any && !args.all,
    };
    let next = args.ids.iter().map(|id| format!("provost status {id}")).collect::<Vec<_>>();
    // Whoever cannot hear Ctrl-C is ended by it all the same, only without a word.
    drop(parting::on_interrupt(&context.ui, "what was watched", &next));
    let seen = watch::run(context, &args.ids, &asked)?;
    let tries = report::Tries { no: args.attempt, previous };
    report::show(context, &asked, &tries, &seen, args.compat.is_some())
}

/// What speaks of one thing is asked for one only.
fn only_one(args: &MonitorArgs) -> Result<(), ApiError> {
    let flag = match (&args.compat, &args.previous) {
        _ if args.ids.len() == 1 => return Ok(()),
        (Some(_), _) => "--compat story-automator prints one object, for one session",
        (None, Some(_)) => "--previous is about one session",
        (None, None) => return Ok(()),
    };
    let message = format!("{flag}, and {} are named", args.ids.len());
    Err(usage(message).next("provost monitor ID"))
}

fn parse_state(text: &str) -> Result<String, String> {
    let words: Vec<&str> = State::ALL.iter().map(|state| state.word()).chain(RUN_STATES).collect();
    match words.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("there is no such state; expected one of {}", words.join(", "))),
    }
}

fn parse_key(text: &str) -> Result<Key, String> {
    Key::parse(text).map_err(|why| why.to_string())
}
