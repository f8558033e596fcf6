//! All output of the command line. Results go to standard output, and messages go to standard
//! error. No other module prints anything.

mod age;
mod config;
mod contract;
mod describe_run;
mod detail;
mod detail_view;
mod doctor;
mod event;
mod graph;
mod history;
mod list;
mod paint;
mod run;
mod run_detail;
mod run_graph;
mod screen;
mod table;
mod team;
mod team_overview;
mod text;
mod unknown_holders;

use std::io::{self, IsTerminal as _, Write};

use provost_api::{ApiError, ErrorBody, ErrorCode};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use age::{age, ago, expand_durations, for_how_long, format_duration, format_size};
pub(crate) use config::config_table;
pub(crate) use contract::contract_detail;
pub(crate) use describe_run::{describe_run_event, review_finding_lines, run_event_line};
pub(crate) use detail::{overview, requests, session_detail, why_lines};
pub(crate) use doctor::finding_lines;
pub(crate) use event::{EventLines, format_time};
pub(crate) use graph::{GraphExtent, GraphTaskRow, graph_lines};
pub(crate) use history::{
    audit_lines, history_header, history_lines, hit_lines, metrics_lines, team_figure_lines,
};
#[cfg(test)]
pub(crate) use list::tests::{asking as test_asking, session as test_session};
pub(crate) use list::{
    awaits_user, describe_exit, describe_state, first_session, has_unseen_turns, is_interrupted,
    outcome_line, progress_line, reason, session_lines, short_id, shortage_lines, uncommitted_work,
};
pub(crate) use paint::{Charset, ColorInputs, Paint, Tone};
#[cfg(test)]
pub(crate) use run::tests::run as test_run;
pub(crate) use run::{first_run, run_line, run_lines, why_run_lines};
pub(crate) use run_detail::{
    RunExtras, approval_commands, approval_diff, describe_approval, run_detail,
};
pub(crate) use run_graph::task_rows;
pub(crate) use screen::{Screen, unbreakable};
pub(crate) use table::{ColumnFit, Table};
pub(crate) use team::{
    criterion_lines, draft_lines, for_operator_lines, heartbeat_lines, loop_lines,
    message_change_line, message_lines, team_change_lines, team_detail, team_lines,
};
pub(crate) use team_overview::team_overview;
pub(crate) use text::{clip, escape_block, escape_json, escape_line, join_lines};
pub(crate) use unknown_holders::unknown_lines;

use crate::error::Error;

/// The output format and colors.
#[derive(Clone, Debug)]
pub(crate) struct Ui {
    pub(crate) json: bool,
    /// Whether text output includes suggested commands.
    pub(crate) hints: bool,
    /// The colors for standard output.
    pub(crate) paint: Paint,
    /// The colors for standard error.
    pub(crate) notice_paint: Paint,
}

impl Ui {
    /// Prints one line of a result.
    pub(crate) fn line(&self, text: &str) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::from_write_error)
    }

    pub(crate) fn lines(&self, lines: &[String]) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        self.line(&lines.join("\n"))
    }

    /// Prints bytes unchanged.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Error::from_write_error)
    }

    /// Copies a JSON reply to standard output as it arrives.
    pub(crate) fn copy(&self, from: &mut impl io::Read) -> Result<(), Error> {
        if io::stdout().is_terminal() {
            let text = io::read_to_string(from).map_err(Error::from_write_error)?;
            return self.line(&escape_json(&text));
        }
        let mut out = io::stdout().lock();
        io::copy(from, &mut out).and_then(|_| out.flush()).map_err(Error::from_write_error)?;
        out.write_all(b"\n").map_err(Error::from_write_error)
    }

    /// Prints a JSON value on a single line.
    pub(crate) fn value(&self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value).map_err(|why| Error::Output(why.into()))?;
        self.line(&if io::stdout().is_terminal() { escape_json(&text) } else { text })
    }

    /// Prints a command's result object, including suggested commands.
    pub(crate) fn result(&self, mut value: Value, next: &[String]) -> Result<(), Error> {
        assert_valid_hints(next);
        if let Value::Object(fields) = &mut value {
            fields.entry("ok").or_insert(json!(true));
            fields.entry("next").or_insert(json!(next));
        }
        self.value(&value)
    }

    /// Prints a message to standard error. If this fails, the error is ignored, because the
    /// terminal may be closed.
    pub(crate) fn notice(&self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{text}"));
    }

    /// Suggests commands to run next.
    pub(crate) fn next(&self, commands: &[String]) {
        assert_valid_hints(commands);
        if self.hints && !self.json && !commands.is_empty() {
            let lines = next_lines(Screen::stderr(), commands);
            self.notice(&self.notice_paint.paint(Tone::Dim, &lines.join("\n")));
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        let mark = self.notice_paint.paint(Tone::Warn, "warning:");
        let text = escape_block(text);
        let lines = text.lines().enumerate().map(|(at, line)| match at {
            0 => format!("{mark} {line}"),
            _ => format!("  {line}"),
        });
        self.notice(&wrap_all(Screen::stderr(), lines).join("\n"));
    }

    /// Reports that a command failed, and returns its exit code.
    pub(crate) fn report_error(&self, error: &Error) -> u8 {
        match error {
            Error::PipeClosed => 0,
            Error::Api(error) => self.report_api_error(error),
            Error::Output(why) => {
                let message = format!("cannot write the output: {why}");
                self.report_api_error(&ApiError::new(ErrorCode::Storage, message))
            }
        }
    }

    fn report_api_error(&self, error: &ApiError) -> u8 {
        assert_valid_hints(&error.next);
        if self.json {
            let body = ErrorBody::from(error.clone());
            // If the output cannot be written, the exit code still reports the failure.
            drop(self.value(&body));
        } else {
            self.notice(&error_lines(self.notice_paint, Screen::stderr(), error).join("\n"));
        }
        error.code.exit_code()
    }
}

/// Whether to print suggestions. They are not printed to the terminal if the output goes to another program in a
/// pipeline. Agents capture and read both streams, so agents always get suggestions.
pub(crate) fn wants_hints() -> bool {
    io::stdout().is_terminal() || !io::stderr().is_terminal()
}

/// Makes every test fail that shows an invalid command as a hint.
fn assert_valid_hints(next: &[impl ToString]) {
    let stray = || {
        next.iter()
            .map(ToString::to_string)
            .find(|command| !crate::cli::hints::is_valid_hint(command))
    };
    debug_assert!(stray().is_none(), "a hint is not a valid command: {:?}", stray());
}

/// Prints a parser error or the requested help. An error repeats the user's input, which may
/// contain terminal escape sequences.
pub(crate) fn print_parser_error(error: &clap::Error) -> io::Result<()> {
    if !error.use_stderr() {
        return error.print();
    }
    let text = crate::cli::plain_parser_text(error.render().to_string());
    let text = escape_block(text.trim_end());
    let lines = wrap_all(Screen::stderr(), text.lines().map(str::to_owned));
    writeln!(io::stderr(), "{}", lines.join("\n"))
}

/// The indentation of all lines of a message except the first, in columns.
const HANG: usize = 2;

fn error_lines(paint: Paint, screen: Screen, error: &ApiError) -> Vec<String> {
    let message = escape_block(&error.message);
    let mut lines = message.lines();
    let what = lines.next().unwrap_or_default();
    let mut shown = vec![format!("{} {what}", paint.paint(Tone::Bad, "error:"))];
    shown.extend(lines.map(|line| format!("  {line}")));
    let mut shown = wrap_all(screen, shown);
    // A command stays on a single line, so that it can be copied.
    let next = error.next.iter().map(|next| format!("  next: {}", escape_line(&next.to_string())));
    shown.extend(next.map(|line| paint.paint(Tone::Dim, &line)));
    shown
}

fn wrap_all(screen: Screen, lines: impl IntoIterator<Item = String>) -> Vec<String> {
    lines.into_iter().flat_map(|line| screen.wrap(&line, HANG)).collect()
}

/// Returns the commands on a single line if they fit, or else on one line each.
fn next_lines(screen: Screen, commands: &[String]) -> Vec<String> {
    let (head, below) = ("next: ", "      ");
    let commands: Vec<String> = commands.iter().map(|command| escape_line(command)).collect();
    let one = format!("{head}{}", commands.join("  ·  "));
    if screen.columns().is_none_or(|columns| text::width(&one) <= columns) {
        return vec![one];
    }
    let mark = |at: usize| if at == 0 { head } else { below };
    commands.iter().enumerate().map(|(at, command)| format!("{}{command}", mark(at))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_shows_message_and_next_commands() {
        let error = ApiError::new(ErrorCode::NotFound, "no session \"x\u{1b}[2J\"\nthere are two")
            .next("provost ls");
        insta::assert_snapshot!(error_lines(Paint::OFF, Screen::UNLIMITED, &error).join("\n"), @r#"
        error: no session "x␛[2J"
          there are two
          next: provost ls
        "#);
    }

    #[test]
    fn error_wraps_but_its_commands_do_not() {
        let error =
            ApiError::new(ErrorCode::Refused, "the session has ended and takes no further input")
                .next("provost resolve deadbeef --as accepted --because TEXT");
        insta::assert_snapshot!(error_lines(Paint::OFF, Screen::with_columns(40), &error).join("\n"), @"
        error: the session has ended and takes
          no further input
          next: provost resolve deadbeef --as accepted --because TEXT
        ");
    }

    #[test]
    fn next_commands_that_do_not_fit_are_split() {
        let commands = ["provost status deadbeef", "provost logs deadbeef -f"].map(str::to_owned);
        assert_eq!(next_lines(Screen::with_columns(80), &commands).len(), 1);
        assert_eq!(
            next_lines(Screen::with_columns(40), &commands),
            ["next: provost status deadbeef", "      provost logs deadbeef -f"]
        );
    }
}
