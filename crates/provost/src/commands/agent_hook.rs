//! `provost agent-hook`: what an agent runs when something happens to it.
//!
//! It is a child of the agent, and says what it is given on standard input to the supervisor. It prints nothing and
//! never fails the agent: what cannot be told is in the agent's own record too.

use std::{
    io::{Read, stdin},
    process::ExitCode,
};

use clap::Args;
use provost_api::{ApiError, ReportRequest};
use serde_json::Value;

use super::telling;
use crate::{cli::Outcome, context::Context, error::usage};

/// The most that is read; a hook that says more says it in the agent's record.
const MAX_INPUT: u64 = 256 << 10;

/// Tell the supervisor what an agent's hook was given
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost agent-hook < hook.json")]
pub(crate) struct AgentHookArgs {}

pub(crate) fn run(context: &Context, _args: &AgentHookArgs) -> Outcome {
    // An exit status other than 0 would be taken by the agent as an objection.
    tell(context).ok();
    Ok(ExitCode::SUCCESS)
}

fn tell(context: &Context) -> Result<(), ApiError> {
    let mut input = Vec::new();
    let read = stdin().lock().take(MAX_INPUT).read_to_end(&mut input);
    read.map_err(|why| usage(format!("standard input cannot be read: {why}")))?;
    let hook: Value = serde_json::from_slice(&input)
        .map_err(|why| usage(format!("standard input is no JSON: {why}")))?;
    let key = format!("hook-{}", blake3::hash(&input).to_hex());
    let mut request = ReportRequest { hook: Some(hook), ..ReportRequest::default() };
    telling::sign(context, &mut request);
    telling::tell(context, &request, &key).map(drop)
}
