//! Shows the findings of `provost doctor`.

use serde::Serialize;

use super::{Paint, Screen, Tone, text::escape_line};

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindingLevel {
    Ok,
    Warn,
    Fail,
    /// The check could not be made, for a reason that another finding reports.
    Skipped,
}

/// The result of a single check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DoctorFinding {
    pub(crate) what: &'static str,
    pub(crate) level: FindingLevel,
    pub(crate) found: String,
    /// How to fix the problem, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl DoctorFinding {
    pub(crate) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        DoctorFinding { what, level: FindingLevel::Ok, found: found.into(), fix: None }
    }

    pub(crate) fn skipped(what: &'static str, why: impl Into<String>) -> Self {
        DoctorFinding { what, level: FindingLevel::Skipped, found: why.into(), fix: None }
    }

    pub(crate) fn warn(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        DoctorFinding {
            what,
            level: FindingLevel::Warn,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }

    pub(crate) fn fail(
        what: &'static str,
        found: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        DoctorFinding {
            what,
            level: FindingLevel::Fail,
            found: found.into(),
            fix: Some(fix.into()),
        }
    }
}

/// The column in which the text of a finding starts.
const FOUND_AT: usize = 19;

/// Shows the findings in the width of standard output, each followed by its fix.
pub(crate) fn finding_lines(paint: Paint, findings: &[DoctorFinding]) -> Vec<String> {
    let screen = Screen::stdout();
    findings.iter().flat_map(|finding| lines(paint, screen, finding)).collect()
}

fn lines(paint: Paint, screen: Screen, finding: &DoctorFinding) -> Vec<String> {
    let mark = match finding.level {
        FindingLevel::Ok => paint.paint(Tone::Good, "ok  "),
        FindingLevel::Warn => paint.paint(Tone::Warn, "warn"),
        FindingLevel::Fail => paint.paint(Tone::Bad, "FAIL"),
        FindingLevel::Skipped => paint.paint(Tone::Dim, "skip"),
    };
    let found = format!("{mark}  {:<12} {}", finding.what, escape_line(&finding.found));
    let mut lines = screen.wrap(&found, FOUND_AT);
    if let Some(fix) = &finding.fix {
        let fix = paint.paint(Tone::Dim, &format!("→ {}", escape_line(fix)));
        lines.extend(screen.wrap(&format!("{:FOUND_AT$}{fix}", ""), FOUND_AT + 2));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_wraps_below_itself() {
        let found = "the daemon does not run and will be started by the next command";
        let finding =
            DoctorFinding::warn("daemon", found, "provost daemon run, or any other command");
        insta::assert_snapshot!(lines(Paint::OFF, Screen::with_columns(50), &finding).join("\n"), @"
        warn  daemon       the daemon does not run and
                           will be started by the next
                           command
                           → provost daemon run, or any
                             other command
        ");
    }
}
