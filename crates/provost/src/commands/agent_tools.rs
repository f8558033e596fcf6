//! `provost agent-tools`: the MCP server that lets an agent call its supervisor.
//!
//! This process is a child of the agent but runs outside the agent's sandbox, so it can reach the
//! daemon's socket. Its ancestry identifies the calling launch. Only responses are written to
//! standard output.

use std::{
    io::{self, BufRead, Read},
    process::ExitCode,
};

use clap::Args;
use provost_agent::mcp::{self, MAX_LINE, McpCall, McpCallContent, McpOutcome};
use provost_api::{ApiError, CallReply, CallRequest, ErrorCode, ReportRequest};
use provost_core::{
    session::{ReportBody, TeamMembership},
    team::{self, MemberRole},
};
use provost_engine::report;

use super::report_delivery;
use crate::{cli::CliResult, clock, context::Context, daemon, error::usage};

/// The maximum number of attempts to send a call about a team to a daemon that is restarting.
const MAX_ATTEMPTS: u32 = 100;
const RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(300);

/// Serve the supervisor's tools to an agent over MCP (stdio)
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost agent-tools\n  provost agent-tools --role manager")]
pub(crate) struct AgentToolsArgs {
    /// Role of the agent in its team: worker, manager or reviewer
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<MemberRole>,
}

fn role(word: &str) -> Result<MemberRole, String> {
    let known = MemberRole::ALL.into_iter().find(|role| role.as_str() == word);
    known.ok_or_else(|| "expected worker, manager or reviewer".to_owned())
}

pub(crate) fn run(context: &Context, args: &AgentToolsArgs) -> CliResult {
    let member = args.role.map(|role| TeamMembership { role });
    let nonce = clock::new_id().to_string();
    let mut input = io::stdin().lock();
    loop {
        let line = read_line(&mut input)
            .map_err(|why| usage(format!("cannot read standard input: {why}")))?;
        let answer = match line {
            InputLine::End => return Ok(ExitCode::SUCCESS),
            InputLine::TooLong => Some(mcp::line_too_long()),
            InputLine::Whole(line) => match mcp::handle_line(&line, member) {
                McpOutcome::NoReply => None,
                McpOutcome::Reply(answer) => Some(answer),
                McpOutcome::Call(call) => Some(handle_call(context, &nonce, &call)),
            },
        };
        if let Some(answer) = answer {
            context.ui.raw(&answer)?;
        }
    }
}

/// Forwards a call to the supervisor and returns the response to the call.
fn handle_call(context: &Context, nonce: &str, call: &McpCall) -> Vec<u8> {
    let taken = match &call.content {
        McpCallContent::Testimony(report) => {
            send_report(context, nonce, &call.id(), report).map(|()| call.acknowledge())
        }
        McpCallContent::TeamCall(asked) => send_team_call(context, nonce, &call.id(), asked)
            .map(|reply| call.result(&reply.answer, reply.accepted)),
    };
    taken.unwrap_or_else(|why| {
        call.rejection(&format!("could not reach the supervisor: {}", why.message))
    })
}

fn send_report(
    context: &Context,
    nonce: &str,
    id: &str,
    body: &ReportBody,
) -> Result<(), ApiError> {
    let mut request = report::to_request(body);
    report_delivery::add_identity(context, &mut request);
    let key = report_key(request.launch.as_deref().unwrap_or_default(), nonce, id);
    report_delivery::deliver(context, &request, &key).map(drop)
}

/// Sends a call about the agent's team to the daemon, and retries while the daemon restarts. The
/// agent waits for the response. Because of the idempotency key, every retry returns the same
/// response.
fn send_team_call(
    context: &Context,
    nonce: &str,
    id: &str,
    asked: &team::MemberCall,
) -> Result<CallReply, ApiError> {
    let mut signed = ReportRequest::default();
    report_delivery::add_identity(context, &mut signed);
    let ReportRequest { launch, token, .. } = signed;
    let key = report_key(launch.as_deref().unwrap_or_default(), nonce, id);
    let call = serde_json::to_value(asked)
        .map_err(|why| ApiError::new(ErrorCode::Internal, why.to_string()))?;
    let request = CallRequest { id: key.clone(), call, launch, token };
    let home = context.trusted_home()?;
    let post = || -> Result<CallReply, ApiError> {
        daemon::connect_only(&home)?.post("/v1/calls", &request, &key)
    };
    for _ in 1..MAX_ATTEMPTS {
        match post() {
            Err(why) if why.code == ErrorCode::Unreachable => clock::sleep(RETRY_PAUSE),
            answered => return answered,
        }
    }
    post()
}

/// Returns the idempotency key for a call by one process of a launch. The key is the same for every
/// channel and retry.
fn report_key(launch: &str, nonce: &str, id: &str) -> String {
    let parts = serde_json::json!([launch, nonce, id]).to_string();
    format!("mcp-{}", blake3::hash(parts.as_bytes()).to_hex())
}

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
enum InputLine {
    Whole(Vec<u8>),
    /// The line was longer than the limit, so it was skipped.
    TooLong,
    End,
}

fn read_line(input: &mut impl BufRead) -> io::Result<InputLine> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(InputLine::End),
        Some(b'\n') => Ok(InputLine::Whole(line)),
        Some(_) if line.len() <= MAX_LINE => Ok(InputLine::Whole(line)),
        Some(_) => input.skip_until(b'\n').map(|_| InputLine::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_line_is_skipped() {
        let long = "x".repeat(3 * MAX_LINE);
        let fits = "y".repeat(MAX_LINE);
        let text = format!("a\n{long}\n{fits}\nlast");
        let mut input = text.as_bytes();
        let mut next = || read_line(&mut input).unwrap();
        assert_eq!(next(), InputLine::Whole(b"a\n".to_vec()));
        assert_eq!(next(), InputLine::TooLong);
        assert_eq!(next(), InputLine::Whole(format!("{fits}\n").into_bytes()));
        assert_eq!(next(), InputLine::Whole(b"last".to_vec()));
        assert_eq!(next(), InputLine::End);
    }

    #[test]
    fn key_is_unique_per_launch_process_and_call() {
        let first = report_key("l", "n", "1");
        assert_eq!(first, report_key("l", "n", "1"));
        for other in
            [report_key("m", "n", "1"), report_key("l", "o", "1"), report_key("l", "n", "\"1\"")]
        {
            assert_ne!(first, other);
        }
        assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    }
}
