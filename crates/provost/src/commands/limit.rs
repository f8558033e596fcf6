//! `provost limit`

use clap::Args;
use provost_api::LimitRequest;

use super::{
    input,
    mutation::{self, KeyArgs},
};
use crate::{
    cli::CliResult,
    context::Context,
    settings,
    target::{self, SessionOrRun},
};

/// Change the limits of a session, or raise those of a run
///
/// Limits can only be raised. If a session has no limit, this command can set one; the limits of a
/// run must already exist. If a session or run ended because its budget was used up, raise the
/// limit, then run `provost resume`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  provost limit 1a2b3c4d --output 4GiB\n  provost limit 1a2b3c4d --tokens 4M && provost resume 1a2b3c4d",
    group(clap::ArgGroup::new("what").required(true).multiple(true).args(["output", "tokens", "turns"]))
)]
pub(crate) struct LimitArgs {
    /// Session or run ID or name
    #[arg(value_parser = input::parse_name)]
    id: String,
    /// Maximum size of the output that Provost records per launch, such as 64MiB (sessions only)
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["tokens", "turns"])]
    output: Option<String>,
    /// Maximum number of tokens in total, such as 500k or 2M
    #[arg(long, value_name = "N", value_parser = input::parse_count)]
    tokens: Option<u64>,
    /// Maximum number of turns in total
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    turns: Option<u32>,
    #[command(flatten)]
    key: KeyArgs,
}

pub(crate) fn run(context: &Context, args: &LimitArgs) -> CliResult {
    let output = args.output.as_deref().map(|text| settings::parse_size("--output", text));
    let request =
        LimitRequest { output: output.transpose()?, tokens: args.tokens, turns: args.turns };
    let found = context.find_session_or_run(&args.id)?;
    let (client, key) = (context.daemon()?, args.key.get(context));
    match found {
        SessionOrRun::Session(row) => {
            let path = target::session_action_path(&row.id, "limit");
            let reply = client.post(&path, &request, &key)?;
            notify(context, args);
            mutation::show(context, reply)
        }
        SessionOrRun::Run(row) => {
            let reply = client.post(&target::run_action_path(&row.id, "limit"), &request, &key)?;
            notify(context, args);
            mutation::show_run(context, reply)
        }
    }
}

/// Shows the new limits.
fn notify(context: &Context, args: &LimitArgs) {
    let limits = [
        args.output.as_ref().map(|size| format!("{size} of output per launch")),
        args.tokens.map(|tokens| format!("{tokens} tokens")),
        args.turns.map(|turns| format!("{turns} turns")),
    ];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    if !context.ui.json {
        context.ui.notice(&format!("limited to {}", limits.join(" and ")));
    }
}
