//! What the doctor found.

use serde::Serialize;

use super::{Paint, Tone, text::clean};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) level: Level,
    pub(crate) found: String,
    /// What to do about it.
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

/// Shows findings, one line each, with what to do below.
pub(crate) fn finding_lines(paint: Paint, findings: &[Finding]) -> Vec<String> {
    let mut lines = Vec::new();
    for finding in findings {
        let mark = match finding.level {
            Level::Ok => paint.paint(Tone::Good, "ok  "),
            Level::Warn => paint.paint(Tone::Warn, "warn"),
            Level::Fail => paint.paint(Tone::Bad, "FAIL"),
        };
        lines.push(format!("{mark}  {:<12} {}", finding.what, clean(&finding.found)));
        if let Some(fix) = &finding.fix {
            lines.push(format!(
                "      {:<12} {}",
                "",
                paint.paint(Tone::Dim, &format!("→ {}", clean(fix)))
            ));
        }
    }
    lines
}
