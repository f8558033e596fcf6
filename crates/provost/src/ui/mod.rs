//! All output. Results go to standard output, messages to standard error; nothing else prints.

mod age;
mod card;
mod config;
mod contract;
mod cycle;
mod doctor;
mod event;
mod graph;
mod list;
mod paint;
mod past;
mod run;
mod run_graph;
mod run_words;
mod screen;
mod table;
mod task;
mod text;
mod unknown;

use std::io::{self, IsTerminal as _, Write};

use provost_api::{ApiError, Code, ErrorBody};
use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use age::{age, ago, size, span, spell_times};
pub(crate) use card::{card, overview, requests, why};
pub(crate) use config::config_table;
pub(crate) use contract::contract_card;
pub(crate) use cycle::cycle_card;
pub(crate) use doctor::{Finding, Level, finding_lines};
pub(crate) use event::EventLines;
pub(crate) use graph::{Extent, GraphRow, graph_lines};
#[cfg(test)]
pub(crate) use list::tests::{asking as test_asking, session as test_session};
pub(crate) use list::{
    awaits_user, ending, is_interrupted, is_unseen, outcome, reason, session_lines, short,
    shortage_lines, state_words, under_way,
};
pub(crate) use paint::{Paint, Tone, Wish};
pub(crate) use past::{audit_lines, hit_lines, metrics, past_head, past_lines, task_figures};
#[cfg(test)]
pub(crate) use run::tests::run as test_run;
pub(crate) use run::{
    Beside, approval_commands, approval_words, run_card, run_line, run_lines, why_run,
};
pub(crate) use run_graph::task_rows;
pub(crate) use run_words::{run_event, run_findings, run_words};
pub(crate) use screen::{Screen, together};
pub(crate) use table::{Fit, Table};
pub(crate) use task::{
    criterion_lines, draft_lines, for_operator_lines, heartbeat_lines, loop_lines, message_changed,
    message_lines, task_card, task_changed, task_lines,
};
pub(crate) use text::{clean, clean_block, clip, escape_json};
pub(crate) use unknown::unknown_lines;

use crate::error::Error;

/// The output format and colors.
#[derive(Clone, Debug)]
pub(crate) struct Ui {
    pub(crate) json: bool,
    /// Colors of standard output.
    pub(crate) paint: Paint,
    /// Colors of standard error.
    pub(crate) talk_paint: Paint,
}

impl Ui {
    /// Prints one line of the result.
    pub(crate) fn line(&self, text: &str) -> Result<(), Error> {
        let mut out = io::stdout().lock();
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::output)
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
        out.write_all(bytes).and_then(|()| out.flush()).map_err(Error::output)
    }

    /// Copies a whole JSON reply through as it arrives.
    pub(crate) fn copy(&self, from: &mut impl io::Read) -> Result<(), Error> {
        if io::stdout().is_terminal() {
            let text = io::read_to_string(from).map_err(Error::output)?;
            return self.line(&escape_json(&text));
        }
        let mut out = io::stdout().lock();
        io::copy(from, &mut out).and_then(|_| out.flush()).map_err(Error::output)?;
        out.write_all(b"\n").map_err(Error::output)
    }

    /// Prints one JSON value on one line.
    pub(crate) fn value(&self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value).map_err(|why| Error::Output(why.into()))?;
        self.line(&if io::stdout().is_terminal() { escape_json(&text) } else { text })
    }

    /// Prints the result object of a command, with suggested next commands.
    pub(crate) fn result(&self, mut value: Value, next: &[String]) -> Result<(), Error> {
        lead_somewhere(next);
        if let Value::Object(fields) = &mut value {
            fields.entry("ok").or_insert(json!(true));
            fields.entry("next").or_insert(json!(next));
        }
        self.value(&value)
    }

    /// Prints a message to standard error. Errors are ignored, because the terminal may be closed.
    pub(crate) fn talk(&self, text: &str) {
        drop(writeln!(io::stderr().lock(), "{text}"));
    }

    /// Suggests next commands to the user.
    pub(crate) fn next(&self, commands: &[String]) {
        lead_somewhere(commands);
        if !self.json && !commands.is_empty() {
            let lines = next_lines(Screen::talk(), commands);
            self.talk(&self.talk_paint.paint(Tone::Dim, &lines.join("\n")));
        }
    }

    pub(crate) fn warn(&self, text: &str) {
        let mark = self.talk_paint.paint(Tone::Warn, "warning:");
        let text = clean_block(text);
        let lines = text.lines().enumerate().map(|(at, line)| match at {
            0 => format!("{mark} {line}"),
            _ => format!("  {line}"),
        });
        self.talk(&wrap_all(Screen::talk(), lines).join("\n"));
    }

    /// Reports the failure of a command, and returns its exit code.
    pub(crate) fn fail(&self, error: &Error) -> u8 {
        match error {
            Error::PipeClosed => 0,
            Error::Api(error) => self.fail_api(error),
            Error::Output(why) => {
                let message = format!("cannot write the output: {why}");
                self.fail_api(&ApiError::new(Code::Storage, message))
            }
        }
    }

    fn fail_api(&self, error: &ApiError) -> u8 {
        lead_somewhere(&error.next);
        if self.json {
            let body = ErrorBody::from(error.clone());
            // The exit code still reports the failure if the output cannot be written.
            drop(self.value(&body));
        } else {
            self.talk(&error_lines(self.talk_paint, Screen::talk(), error).join("\n"));
        }
        error.code.exit_code()
    }
}

/// Fails every test that shows an invalid command as a hint.
fn lead_somewhere(next: &[String]) {
    let stray = || next.iter().find(|command| !crate::cli::takes(command));
    debug_assert!(stray().is_none(), "a hint is not a valid command: {:?}", stray());
}

/// Shows a parser error, or the requested help. An error repeats the user's input, which may
/// contain terminal escapes.
pub(crate) fn parser_says(error: &clap::Error) -> io::Result<()> {
    if !error.use_stderr() {
        return error.print();
    }
    let text = clean_block(error.render().to_string().trim_end());
    let lines = wrap_all(Screen::talk(), text.lines().map(str::to_owned));
    writeln!(io::stderr(), "{}", lines.join("\n"))
}

/// The indentation of a message's further lines.
const HANG: usize = 2;

fn error_lines(paint: Paint, screen: Screen, error: &ApiError) -> Vec<String> {
    let message = clean_block(&error.message);
    let mut lines = message.lines();
    let what = lines.next().unwrap_or_default();
    let mut shown = vec![format!("{} {what}", paint.paint(Tone::Bad, "error:"))];
    shown.extend(lines.map(|line| format!("  {line}")));
    let mut shown = wrap_all(screen, shown);
    // A command stays on one line, so that it can be copied.
    let next = error.next.iter().map(|next| format!("  next: {}", clean(next)));
    shown.extend(next.map(|line| paint.paint(Tone::Dim, &line)));
    shown
}

fn wrap_all(screen: Screen, lines: impl IntoIterator<Item = String>) -> Vec<String> {
    lines.into_iter().flat_map(|line| screen.wrap(&line, HANG)).collect()
}

/// Puts commands on one line if they fit, otherwise each on its own.
fn next_lines(screen: Screen, commands: &[String]) -> Vec<String> {
    let (head, below) = ("next: ", "      ");
    let commands: Vec<String> = commands.iter().map(|command| clean(command)).collect();
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
    fn an_error_says_what_and_what_next() {
        let error = ApiError::new(Code::NotFound, "no session \"x\u{1b}[2J\"\nthere are two")
            .next("provost ls");
        insta::assert_snapshot!(error_lines(Paint::OFF, Screen::ENDLESS, &error).join("\n"), @r#"
        error: no session "x␛[2J"
          there are two
          next: provost ls
        "#);
    }

    #[test]
    fn an_error_wraps_but_its_commands_do_not() {
        let error = ApiError::new(Code::Refused, "the session has ended and takes no more of it")
            .next("provost resolve deadbeef --as accepted --because TEXT");
        insta::assert_snapshot!(error_lines(Paint::OFF, Screen::of(40), &error).join("\n"), @"
        error: the session has ended and takes
          no more of it
          next: provost resolve deadbeef --as accepted --because TEXT
        ");
    }

    #[test]
    fn commands_that_do_not_fit_on_a_line_have_one_each() {
        let commands = ["provost status deadbeef", "provost logs deadbeef -f"].map(str::to_owned);
        assert_eq!(next_lines(Screen::of(80), &commands).len(), 1);
        assert_eq!(
            next_lines(Screen::of(40), &commands),
            ["next: provost status deadbeef", "      provost logs deadbeef -f"]
        );
    }
}
