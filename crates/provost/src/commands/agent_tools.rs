//! `provost agent-tools`: the MCP server that an agent starts to speak to its supervisor.
//!
//! It is a child of the agent but not in its sandbox, so it reaches the daemon's socket, and its ancestry
//! says which launch speaks. Standard output has answers only.

use std::{
    io::{self, BufRead, Read},
    process::ExitCode,
};

use clap::Args;
use provost_api::ApiError;
use provost_drivers::mcp::{self, Call, Heard, MAX_LINE};
use provost_engine::report;

use super::telling;
use crate::{cli::Outcome, clock, context::Context, error::usage};

/// Serve the supervisor's tools to an agent, as an MCP server on standard streams
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  provost agent-tools")]
pub(crate) struct AgentToolsArgs {}

pub(crate) fn run(context: &Context, _args: &AgentToolsArgs) -> Outcome {
    let nonce = clock::mint().to_string();
    let mut input = io::stdin().lock();
    loop {
        let line = read_line(&mut input)
            .map_err(|why| usage(format!("standard input cannot be read: {why}")))?;
        let answer = match line {
            Line::End => return Ok(ExitCode::SUCCESS),
            Line::TooLong => Some(mcp::too_long()),
            Line::Whole(line) => match mcp::hear(&line) {
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

/// Tells the supervisor what a call says, and gives the answer to the call.
fn take(context: &Context, nonce: &str, call: &Call) -> Vec<u8> {
    match tell(context, nonce, call) {
        Ok(()) => call.noted(),
        Err(why) => call.refused(&format!("the supervisor could not be told: {}", why.message)),
    }
}

fn tell(context: &Context, nonce: &str, call: &Call) -> Result<(), ApiError> {
    let mut request = report::request(&call.said);
    telling::sign(context, &mut request);
    let key = key(request.launch.as_deref().unwrap_or_default(), nonce, &call.id());
    telling::tell(context, &request, &key).map(drop)
}

/// One call of one process of one launch is one report, whichever way and however often it is told.
fn key(launch: &str, nonce: &str, id: &str) -> String {
    let parts = serde_json::json!([launch, nonce, id]).to_string();
    format!("mcp-{}", blake3::hash(parts.as_bytes()).to_hex())
}

/// What was read up to the next end of a line.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Whole(Vec<u8>),
    /// It was passed over.
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
