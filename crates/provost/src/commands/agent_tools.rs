//! `provost agent-tools`: the MCP server through which an agent calls its supervisor.
//!
//! It is a child of the agent but runs outside its sandbox, so it can reach the daemon's socket. Its ancestry
//! identifies the calling launch. Standard output carries responses only.

use std::{
    io::{self, BufRead, Read},
    process::ExitCode,
};

use clap::Args;
use provost_api::{ApiError, CallReply, CallRequest, Code, ReportRequest};
use provost_core::{
    session::{Membership, Testimony},
    task::{self, Role},
};
use provost_drivers::mcp::{self, Call, Heard, MAX_LINE, What};
use provost_engine::report;

use super::telling;
use crate::{cli::Outcome, clock, context::Context, daemon, error::usage};

/// Attempts and pause between them while an unreachable daemon restarts, for calls about a team.
const ASKED: u32 = 100;
const AGAIN: std::time::Duration = std::time::Duration::from_millis(300);

/// Serve the supervisor's tools to an agent over MCP (stdio)
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost agent-tools\n  provost agent-tools --role manager")]
pub(crate) struct AgentToolsArgs {
    /// Role of the agent in its team: worker, manager or reviewer
    #[arg(long, value_name = "ROLE", value_parser = role)]
    role: Option<Role>,
}

fn role(word: &str) -> Result<Role, String> {
    let known = Role::ALL.into_iter().find(|role| role.word() == word);
    known.ok_or_else(|| "expected worker, manager or reviewer".to_owned())
}

pub(crate) fn run(context: &Context, args: &AgentToolsArgs) -> Outcome {
    let member = args.role.map(|role| Membership { role });
    let nonce = clock::mint().to_string();
    let mut input = io::stdin().lock();
    loop {
        let line = read_line(&mut input)
            .map_err(|why| usage(format!("cannot read standard input: {why}")))?;
        let answer = match line {
            Line::End => return Ok(ExitCode::SUCCESS),
            Line::TooLong => Some(mcp::too_long()),
            Line::Whole(line) => match mcp::hear(&line, member) {
                Heard::Nothing => None,
                Heard::Answer(answer) => Some(answer),
                Heard::Call(call) => Some(take(context, &nonce, &call)),
            },
        };
        if let Some(answer) = answer {
            context.ui.raw(&answer)?;
        }
    }
}

/// Forwards a call to the supervisor and returns the response to the call.
fn take(context: &Context, nonce: &str, call: &Call) -> Vec<u8> {
    let taken = match &call.what {
        What::Said(said) => tell(context, nonce, &call.id(), said).map(|()| call.noted()),
        What::OfTask(asked) => ask(context, nonce, &call.id(), asked)
            .map(|reply| call.returned(&reply.answer, reply.taken)),
    };
    taken.unwrap_or_else(|why| {
        call.refused(&format!("could not reach the supervisor: {}", why.message))
    })
}

fn tell(context: &Context, nonce: &str, id: &str, said: &Testimony) -> Result<(), ApiError> {
    let mut request = report::request(said);
    telling::sign(context, &mut request);
    let key = key(request.launch.as_deref().unwrap_or_default(), nonce, id);
    telling::tell(context, &request, &key).map(drop)
}

/// Sends a call about the agent's team to the daemon, and retries while the daemon restarts. The agent waits for the
/// response; the idempotency key makes every retry return the same one.
fn ask(
    context: &Context,
    nonce: &str,
    id: &str,
    asked: &task::Call,
) -> Result<CallReply, ApiError> {
    let mut signed = ReportRequest::default();
    telling::sign(context, &mut signed);
    let ReportRequest { launch, token, .. } = signed;
    let key = key(launch.as_deref().unwrap_or_default(), nonce, id);
    let call = serde_json::to_value(asked)
        .map_err(|why| ApiError::new(Code::Internal, why.to_string()))?;
    let request = CallRequest { id: key.clone(), call, launch, token };
    let home = context.trusted_home()?;
    let post = || -> Result<CallReply, ApiError> {
        daemon::connect_only(&home)?.post("/v1/calls", &request, &key)
    };
    for _ in 1..ASKED {
        match post() {
            Err(why) if why.code == Code::Unreachable => clock::pause(AGAIN),
            answered => return answered,
        }
    }
    post()
}

/// Returns the idempotency key of one call by one process of one launch, the same over every channel and retry.
fn key(launch: &str, nonce: &str, id: &str) -> String {
    let parts = serde_json::json!([launch, nonce, id]).to_string();
    format!("mcp-{}", blake3::hash(parts.as_bytes()).to_hex())
}

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    /// The line exceeded the limit and was skipped.
    TooLong,
    End,
}

fn read_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(Line::End),
        Some(b'\n') => Ok(Line::Whole(line)),
        Some(_) if line.len() <= MAX_LINE => Ok(Line::Whole(line)),
        Some(_) => input.skip_until(b'\n').map(|_| Line::TooLong),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let long = "x".repeat(3 * MAX_LINE);
        let fits = "y".repeat(MAX_LINE);
        let text = format!("a\n{long}\n{fits}\nlast");
        let mut input = text.as_bytes();
        let mut next = || read_line(&mut input).unwrap();
        assert_eq!(next(), Line::Whole(b"a\n".to_vec()));
        assert_eq!(next(), Line::TooLong);
        assert_eq!(next(), Line::Whole(format!("{fits}\n").into_bytes()));
        assert_eq!(next(), Line::Whole(b"last".to_vec()));
        assert_eq!(next(), Line::End);
    }

    #[test]
    fn a_key_is_of_one_call_of_one_process_of_one_launch() {
        let first = key("l", "n", "1");
        assert_eq!(first, key("l", "n", "1"));
        for other in [key("m", "n", "1"), key("l", "o", "1"), key("l", "n", "\"1\"")] {
            assert_ne!(first, other);
        }
        assert!(first.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'));
    }
}
