//! Reports to Provost through the real `provost report`, now or after this process has exited.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::args::LATE_REPORT;
use super::children::ignoring_term;
use super::play::{MAX_LIFE, expect_exit};
use super::{Error, files};
use crate::clock::pause;
use crate::scenario::{ExpectedExit, LateReport, ReportStep, render};

/// The settings of the grandchild that makes a late report.
pub(super) struct LateReportArgs {
    pub(super) after: Duration,
    pub(super) reply_to: Option<String>,
    /// The arguments after `provost`.
    pub(super) argv: Vec<String>,
}

/// Reports now. Prints nothing unless the exit code is unexpected.
pub(super) fn report(wanted: &ReportStep, known: &BTreeMap<String, String>) -> Result<(), Error> {
    let text = |text: &String| render(text, known);
    let mut argv = argv(&text(&wanted.claim), wanted.message.as_ref().map(text));
    argv.extend(wanted.args.iter().map(text));
    run_provost(&argv, wanted.reply_to.as_ref().map(text).as_deref(), wanted.expect_exit)
}

/// Starts the grandchild that reports once this process exits. The grandchild notices the exit
/// because only this process holds the returned pipe.
///
/// The grandchild ignores TERM, so that the graceful part of a clean-up does not prevent its
/// report.
pub(super) fn report_after_exit(
    late: &LateReport,
    known: &BTreeMap<String, String>,
) -> Result<(Child, PipeWriter), Error> {
    let text = |text: &String| render(text, known);
    let reply_to = late.reply_to.as_ref().map(text).unwrap_or_default();
    let mut args = vec![LATE_REPORT.to_owned(), late.after_ms.to_string(), reply_to];
    args.extend(argv(&text(&late.claim), late.message.as_ref().map(text)));
    let (lifeline, ours) = io::pipe().map_err(Error::io("make a pipe"))?;
    let mut command = ignoring_term(&args)?;
    command.stdin(lifeline).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(Error::io("start the late reporter"))?;
    Ok((child, ours))
}

/// Runs the late reporter: waits for the end of stdin, then reports.
pub(super) fn report_after_eof(late: &LateReportArgs) -> Result<(), Error> {
    io::copy(&mut io::stdin(), &mut io::sink()).map_err(Error::io("wait for the agent's end"))?;
    pause(late.after.min(MAX_LIFE));
    run_provost(&late.argv, late.reply_to.as_deref(), ExpectedExit::Any)
}

fn argv(claim: &str, message: Option<String>) -> Vec<String> {
    let mut argv = vec!["report".to_owned(), claim.replace('_', "-")];
    if let Some(message) = message {
        argv.extend(["--message".to_owned(), message]);
    }
    argv
}

fn run_provost(
    argv: &[String],
    reply_to: Option<&str>,
    expected: ExpectedExit,
) -> Result<(), Error> {
    let output = Command::new(provost())
        .args(argv)
        .stdin(Stdio::null())
        .output()
        .map_err(Error::io("run provost"))?;
    if let Some(path) = reply_to {
        files::write(path, &String::from_utf8_lossy(&output.stdout))?;
    }
    expect_exit("provost", output.status.code(), expected).map_err(|error| {
        let printed = String::from_utf8_lossy(&output.stderr);
        Error::Step(format!("{error}; it said: {}", printed.trim()))
    })
}

#[expect(clippy::disallowed_methods, reason = "the agent reads the environment that Provost set")]
pub(super) fn provost() -> OsString {
    std::env::var_os("PROVOST_BIN").unwrap_or_else(|| "provost".into())
}
