//! The findings of `provost doctor`.

use serde::Serialize;

use super::{Paint, Screen, Tone, text::clean};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Ok,
    Warn,
    Fail,
}

/// The result of one examination.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) level: Level,
    pub(crate) found: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Finding { what, level: Level::Ok, found: found.into(), fix: None }
    }

    pub(crate) fn warn(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding { what, level: Level::Warn, found: found.into(), fix: Some(fix.into()) }
    }

    pub(crate) fn fail(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding { what, level: Level::Fail, found: found.into(), fix: Some(fix.into()) }
    }
}

/// The width before a finding's text.
const FOUND_AT: usize = 19;

/// Shows findings, each with its fix below it, in the width of standard output.
pub(crate) fn finding_lines(paint: Paint, findings: &[Finding]) -> Vec<String> {
    let screen = Screen::output();
    findings.iter().flat_map(|finding| lines(paint, screen, finding)).collect()
}

fn lines(paint: Paint, screen: Screen, finding: &Finding) -> Vec<String> {
    let mark = match finding.level {
        Level::Ok => paint.paint(Tone::Good, "ok  "),
        Level::Warn => paint.paint(Tone::Warn, "warn"),
        Level::Fail => paint.paint(Tone::Bad, "FAIL"),
    };
    let found = format!("{mark}  {:<12} {}", finding.what, clean(&finding.found));
    let mut lines = screen.wrap(&found, FOUND_AT);
    if let Some(fix) = &finding.fix {
        let fix = paint.paint(Tone::Dim, &format!("→ {}", clean(fix)));
        lines.extend(screen.wrap(&format!("{:FOUND_AT$}{fix}", ""), FOUND_AT + 2));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_wraps_below_itself() {
        let found = "the daemon does not run and will be started by the next command";
        let finding = Finding::warn("daemon", found, "provost daemon run, or any other command");
        insta::assert_snapshot!(lines(Paint::OFF, Screen::of(50), &finding).join("\n"), @"
        warn  daemon       the daemon does not run and
                           will be started by the next
                           command
                           → provost daemon run, or any
                             other command
        ");
    }
}
