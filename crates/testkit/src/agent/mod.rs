//! The scripted agent: plays a scenario as a real process.

mod args;
mod children;
mod files;
mod input;
mod output;
mod play;
mod report;
mod screen;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use args::AgentInvocation;
pub use screen::{THREAD, VERSION};

/// The exit code for bad usage and for a file that is not a scenario.
pub const BAD_SCENARIO: u8 = 2;
/// The exit code for a failed step, such as a file that never appeared.
pub const BROKEN_STEP: u8 = 70;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("read the scenario {name}")]
    Unreadable {
        name: String,
        #[source]
        source: std::io::Error,
    },
    #[error("parse the scenario {name}")]
    Scenario {
        name: String,
        #[source]
        source: crate::scenario::Error,
    },
    #[error("{what}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0}")]
    Step(String),
}

/// Runs the scripted agent with its arguments, without the program's name.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    match args::parse(args).and_then(run) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            print_error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(invocation: AgentInvocation) -> Result<u8, Error> {
    match invocation {
        AgentInvocation::Play(play) => play::play(&play),
        AgentInvocation::Grandchild(grandchild) => {
            children::run_grandchild(&grandchild).map(|()| 0)
        }
        AgentInvocation::LateReport(late) => report::report_after_eof(&late).map(|()| 0),
    }
}

fn print_error(error: &Error) {
    let mut text = format!("scripted-agent: failed to {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    // stderr may be closed. The exit code still reports the failure.
    drop(writeln!(std::io::stderr(), "{text}"));
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Unreadable { .. } | Self::Scenario { .. } => BAD_SCENARIO,
            Self::Io { .. } | Self::Step(_) => BROKEN_STEP,
        }
    }
}
