//! `provost agent-hook`: the program that an agent runs as the hook for its own events.
//!
//! The hook runs as a child of the agent and forwards the JSON on standard input to the supervisor. The hook prints
//! nothing and always exits with code 0, so it cannot make the agent fail. If an event cannot be delivered, it is not
//! lost, because the agent's transcript also contains it.

use std::{
    io::{Read, stdin},
    process::ExitCode,
};

use clap::Args;
use provost_api::{ApiError, ReportRequest};
use serde_json::Value;

use super::report_delivery;
use crate::{cli::CliResult, context::Context, error::usage};

/// The maximum input in bytes. Longer events are truncated, because the transcript contains the complete events.
const MAX_INPUT: u64 = 256 << 10;

/// Forward an agent's hook event to the supervisor
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost agent-hook < hook.json")]
pub(crate) struct AgentHookArgs {}

pub(crate) fn run(context: &Context, _args: &AgentHookArgs) -> CliResult {
    // An error is ignored, because the agent would interpret a nonzero exit status as an objection.
    forward_hook(context).ok();
    Ok(ExitCode::SUCCESS)
}

fn forward_hook(context: &Context) -> Result<(), ApiError> {
    let mut input = Vec::new();
    let read = stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    read.map_err(|why| usage(format!("cannot read standard input: {why}")))?;
    let hook: Value = serde_json::from_slice(&input)
        .map_err(|why| usage(format!("standard input is not valid JSON: {why}")))?;
    let key = format!("hook-{}", blake3::hash(&input).to_hex());
    let mut request = ReportRequest { hook: Some(hook), ..ReportRequest::default() };
    report_delivery::add_identity(context, &mut request);
    report_delivery::deliver(context, &request, &key).map(drop)
}
