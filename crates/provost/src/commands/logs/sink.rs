//! Filters complete lines by time, holds lines back for `--tail`, and removes the colors and the
//! routine messages in agents' output.

use std::collections::VecDeque;

use jiff::tz::TimeZone;
use serde_json::Value;

use crate::{
    error::Error,
    ui::{Tone, Ui, format_time},
};

/// The lines to show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LineFilter {
    /// Show only this many lines at the end of each session or command.
    pub(super) tail: Option<usize>,
    /// Show only lines from this time on, in milliseconds since the epoch.
    pub(super) since_ms: Option<i64>,
    /// Whether to start each text line with its time.
    pub(super) timestamps: bool,
}

/// A line that is ready to be printed.
pub(super) enum ShownLine {
    Text(String),
    Json(Value),
}

/// Prints the lines that pass the filter.
pub(super) struct LineSink {
    filter: LineFilter,
    zone: TimeZone,
    /// The most recent lines, held back until the end of the existing output is reached.
    held: VecDeque<ShownLine>,
    /// Whether lines are being held back.
    holding: bool,
}

impl LineSink {
    pub(super) fn new(filter: LineFilter, zone: TimeZone) -> Self {
        LineSink { filter, zone, held: VecDeque::new(), holding: filter.tail.is_some() }
    }

    /// Whether output from this time passes the filter. If the time is unknown, the output always
    /// passes.
    pub(super) fn admits(&self, at_ms: Option<i64>) -> bool {
        match (self.filter.since_ms, at_ms) {
            (Some(since), Some(at)) => at >= since,
            (None, _) | (_, None) => true,
        }
    }

    pub(super) fn line(
        &mut self,
        ui: &Ui,
        at_ms: Option<i64>,
        line: ShownLine,
    ) -> Result<(), Error> {
        if !self.admits(at_ms) {
            return Ok(());
        }
        let line = match line {
            ShownLine::Text(text) if self.filter.timestamps => {
                ShownLine::Text(format!("{} {text}", self.time(ui, at_ms)))
            }
            ShownLine::Text(_) | ShownLine::Json(_) => line,
        };
        match self.filter.tail {
            Some(tail) if self.holding => {
                self.held.push_back(line);
                if self.held.len() > tail {
                    self.held.pop_front();
                }
                Ok(())
            }
            Some(_) | None => print(ui, line),
        }
    }

    /// Prints the lines that were held back. From then on, lines are printed immediately.
    pub(super) fn release(&mut self, ui: &Ui) -> Result<(), Error> {
        self.holding = false;
        self.held.drain(..).try_for_each(|line| print(ui, line))
    }

    /// Prepares for the output of another session or command. Call [`LineSink::release`] first,
    /// because lines that are still held back are dropped.
    pub(super) fn restart(&mut self) {
        self.held.clear();
        self.holding = self.filter.tail.is_some();
    }

    fn time(&self, ui: &Ui, at_ms: Option<i64>) -> String {
        let text = at_ms.map_or_else(|| "-".to_owned(), |at_ms| format_time(at_ms, &self.zone));
        ui.paint.paint(Tone::Dim, &text)
    }
}

fn print(ui: &Ui, line: ShownLine) -> Result<(), Error> {
    match line {
        ShownLine::Text(text) => ui.line(&text),
        ShownLine::Json(value) => ui.value(&value),
    }
}

/// Removes escape sequences that set colors and styles, and the erase-line sequences that accompany
/// them. Keeps all other escape sequences.
pub(super) fn strip_colors(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let sequence = &rest[at..];
        let is_parameter = |c: char| matches!(c, '0'..='9' | ';' | ':');
        let after_parameters = sequence[2..].trim_start_matches(is_parameter);
        match after_parameters.strip_prefix(['m', 'K']) {
            Some(after) => rest = after,
            None => {
                plain.push_str(&sequence[..2]);
                rest = &sequence[2..];
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// Whether a line that Codex wrote to standard error is a routine log message rather than a warning
/// or an error.
pub(super) fn is_agent_noise(line: &str) -> bool {
    let plain = strip_colors(line);
    let mut words = plain.split_whitespace();
    let dated = words.next().is_some_and(|first| {
        first.len() >= "2026-01-01T00:00:00Z".len()
            && first.ends_with('Z')
            && first.as_bytes().get(4) == Some(&b'-')
            && first.as_bytes().get(10) == Some(&b'T')
    });
    dated && matches!(words.next(), Some("INFO" | "DEBUG" | "TRACE"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_removed_and_other_escapes_stay() {
        assert_eq!(strip_colors("\u{1b}[1;31mred\u{1b}[0m \u{1b}[01m\u{1b}[Kx\u{1b}[m"), "red x");
        assert_eq!(strip_colors("\u{1b}[2Jx\u{1b}[3;4Hy"), "\u{1b}[2Jx\u{1b}[3;4Hy");
        for text in ["\u{1b}[", "\u{1b}[12", "\u{1b}[é", "\u{1b}", "plain"] {
            assert_eq!(strip_colors(text), text);
        }
    }

    #[test]
    fn only_harmless_log_lines_are_noise() {
        let noise = "\u{1b}[2m2026-01-01T10:00:00.123Z\u{1b}[0m  INFO codex_core: started";
        assert!(is_agent_noise(noise));
        for line in [
            "2026-01-01T10:00:00.123Z  WARN codex_core: slow",
            "2026-01-01T10:00:00.123Z ERROR codex_core: failed",
            "INFO started",
            "error: no login",
            "",
        ] {
            assert!(!is_agent_noise(line), "{line}");
        }
    }

    #[test]
    fn restart_drops_lines_that_were_held_back() {
        let filter = LineFilter { tail: Some(2), ..LineFilter::default() };
        let mut sink = LineSink::new(filter, TimeZone::UTC);
        sink.held.push_back(ShownLine::Text("of the last session".to_owned()));
        sink.restart();
        assert!(sink.held.is_empty() && sink.holding);
    }

    #[test]
    fn filter_admits_lines_since_a_time() {
        let filter = LineFilter { since_ms: Some(5), ..LineFilter::default() };
        let sink = LineSink::new(filter, TimeZone::UTC);
        assert!(!sink.admits(Some(4)));
        assert!(sink.admits(Some(5)) && sink.admits(None));
    }
}
