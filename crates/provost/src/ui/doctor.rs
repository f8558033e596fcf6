//! Shows the findings of `provost doctor`.

use provost_agent::front_end::{DoctorFinding, FindingLevel};

use super::{Paint, Screen, Tone, text::escape_line};

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
