//! The output of `serve`: lines of text or, with `--json`, JSON objects.

use std::time::Duration;

use provost_api::RunRow;
use serde_json::{Value, json};

use crate::ui;

/// A summary of the workflow being served.
#[derive(Clone, Debug)]
pub(super) struct WorkflowSummary {
    pub(super) workflow: String,
    pub(super) tracker: String,
    pub(super) at_once: u32,
    pub(super) interval: Duration,
}

/// The issue that an event concerns.
#[derive(Clone, Debug)]
pub(super) struct IssueRef {
    pub(super) issue: String,
    pub(super) identifier: String,
}

/// An event that `serve` reports.
#[derive(Clone, Debug)]
pub(super) enum ServeEvent {
    Serving(WorkflowSummary),
    Reloaded(WorkflowSummary),
    NotReloaded {
        class: &'static str,
        message: String,
    },
    /// A file changed, but the operator has not trusted the change, so `serve` keeps using the
    /// version with which it started.
    ChangeNotTrusted {
        message: String,
    },
    Warning {
        message: String,
    },
    TrackerFailed {
        category: &'static str,
        message: String,
    },
    /// Any other failure. It is retried in the next pass.
    Failed {
        message: String,
    },
    Opened {
        of: IssueRef,
        title: String,
        url: Option<String>,
        attempt: u32,
        row: Box<RunRow>,
    },
    NotOpened {
        of: IssueRef,
        attempt: u32,
        message: String,
    },
    /// An open run that was started by an earlier `serve` process.
    Continues {
        of: IssueRef,
        row: Box<RunRow>,
    },
    NeedsInput {
        of: IssueRef,
        row: Box<RunRow>,
        command: String,
    },
    Ended {
        of: IssueRef,
        row: Box<RunRow>,
    },
    Stopping {
        of: IssueRef,
        run: String,
        why: String,
    },
    IssueWaits {
        of: IssueRef,
        why: String,
    },
    Cleaned {
        run: String,
        removed: Vec<String>,
        kept: Vec<String>,
    },
    Leaving {
        runs: Vec<String>,
    },
}

impl ServeEvent {
    /// Returns the event as a line of text. Terminal control characters are escaped.
    pub(super) fn line(&self) -> String {
        match self {
            ServeEvent::Serving(about) => format!("serving {}", about.describe()),
            ServeEvent::Reloaded(about) => format!("the workflow changed: {}", about.describe()),
            ServeEvent::NotReloaded { message, .. } => format!(
                "the workflow changed and is invalid: {}; runs continue with the last valid version, and no new runs start",
                ui::escape_line(message)
            ),
            ServeEvent::ChangeNotTrusted { message }
            | ServeEvent::Warning { message }
            | ServeEvent::Failed { message } => ui::escape_line(message),
            ServeEvent::TrackerFailed { message, .. } => {
                format!("cannot read the tracker: {}", ui::escape_line(message))
            }
            ServeEvent::Opened { of, title, row, attempt, .. } => {
                let again =
                    if *attempt > 0 { format!(" (attempt {attempt})") } else { String::new() };
                format!(
                    "{of} run {} opened{again}: {}",
                    ui::short_id(&row.id),
                    ui::escape_line(title)
                )
            }
            ServeEvent::NotOpened { of, message, .. } => {
                format!("{of} cannot open a run: {}", ui::escape_line(message))
            }
            ServeEvent::Continues { of, row } => {
                format!("{of} run {} continues", ui::short_id(&row.id))
            }
            ServeEvent::NeedsInput { of, row, command } => {
                format!(
                    "{of} run {} waits for an answer: {}",
                    ui::short_id(&row.id),
                    ui::escape_line(command)
                )
            }
            ServeEvent::Ended { of, row } => describe_end(of, row),
            ServeEvent::Stopping { of, run, why } => {
                format!("{of} run {} was cancelled: {}", ui::short_id(run), ui::escape_line(why))
            }
            ServeEvent::IssueWaits { of, why } => format!("{of} {}", ui::escape_line(why)),
            ServeEvent::Cleaned { run, removed, kept } => describe_cleanup(run, removed, kept),
            ServeEvent::Leaving { runs } => describe_stop(runs),
        }
    }

    /// Returns the event as a JSON object, for programs.
    pub(super) fn json(&self, at_ms: i64) -> Value {
        let (event, mut value) = self.fields();
        value["event"] = json!(event);
        value["at"] = json!(at_ms);
        if let Some(of) = self.issue() {
            value["issue_id"] = json!(of.issue);
            value["issue_identifier"] = json!(of.identifier);
        }
        value
    }

    fn fields(&self) -> (&'static str, Value) {
        match self {
            ServeEvent::Serving(about) => ("serving", about.json()),
            ServeEvent::Reloaded(about) => ("reloaded", about.json()),
            ServeEvent::NotReloaded { class, message } => {
                ("not_reloaded", json!({"class": class, "message": message}))
            }
            ServeEvent::ChangeNotTrusted { message } => {
                ("change_not_trusted", json!({"message": message}))
            }
            ServeEvent::Warning { message } => ("warning", json!({"message": message})),
            ServeEvent::TrackerFailed { category, message } => {
                ("tracker_failed", json!({"category": category, "message": message}))
            }
            ServeEvent::Failed { message } => ("failed", json!({"message": message})),
            ServeEvent::Opened { title, url, attempt, row, .. } => {
                ("opened", json!({"run": row.id, "attempt": attempt, "title": title, "url": url}))
            }
            ServeEvent::NotOpened { attempt, message, .. } => {
                ("not_opened", json!({"attempt": attempt, "message": message}))
            }
            ServeEvent::Continues { row, .. } => {
                ("continues", json!({"run": row.id, "stage": row.stage}))
            }
            ServeEvent::NeedsInput { row, command, .. } => {
                ("needs_input", json!({"run": row.id, "command": command}))
            }
            ServeEvent::Ended { row, .. } => (
                "ended",
                json!({"run": row.id, "state": row.state, "cause": row.cause, "detail": row.detail,
                    "branch": row.landing.branch, "usage": row.usage}),
            ),
            ServeEvent::Stopping { run, why, .. } => ("stopping", json!({"run": run, "why": why})),
            ServeEvent::IssueWaits { why, .. } => ("waiting", json!({"why": why})),
            ServeEvent::Cleaned { run, removed, kept } => {
                ("cleaned", json!({"run": run, "removed": removed, "kept": kept}))
            }
            ServeEvent::Leaving { runs } => ("leaving", json!({"runs": runs})),
        }
    }

    fn issue(&self) -> Option<&IssueRef> {
        match self {
            ServeEvent::Opened { of, .. }
            | ServeEvent::NotOpened { of, .. }
            | ServeEvent::Continues { of, .. }
            | ServeEvent::NeedsInput { of, .. }
            | ServeEvent::Ended { of, .. }
            | ServeEvent::Stopping { of, .. }
            | ServeEvent::IssueWaits { of, .. } => Some(of),
            ServeEvent::Serving(_)
            | ServeEvent::Reloaded(_)
            | ServeEvent::NotReloaded { .. }
            | ServeEvent::ChangeNotTrusted { .. }
            | ServeEvent::Warning { .. }
            | ServeEvent::TrackerFailed { .. }
            | ServeEvent::Failed { .. }
            | ServeEvent::Cleaned { .. }
            | ServeEvent::Leaving { .. } => None,
        }
    }
}

impl WorkflowSummary {
    fn describe(&self) -> String {
        let (workflow, tracker) = (ui::escape_line(&self.workflow), ui::escape_line(&self.tracker));
        let every = self.interval;
        format!("{workflow}: {tracker}, {} at once, polled every {every:?}", self.at_once)
    }

    fn json(&self) -> Value {
        let interval = u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX);
        json!({"workflow": self.workflow, "tracker": self.tracker, "at_once": self.at_once, "interval_ms": interval})
    }
}

impl std::fmt::Display for IssueRef {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&ui::escape_line(&self.identifier))
    }
}

/// Describes how a run ended and where its work is.
fn describe_end(of: &IssueRef, row: &RunRow) -> String {
    let landing = &row.landing;
    let pulled = landing.pull_request.as_ref().map(|pull| pull.url.clone());
    let branch = landing.branch.as_ref().map(|branch| format!("branch {branch}"));
    let place = if landing.done { pulled.or(branch) } else { None };
    let place = place.map(|place| format!(", on {}", ui::escape_line(&place))).unwrap_or_default();
    let detail = row.detail.as_deref().filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {}", ui::join_lines(detail))).unwrap_or_default();
    format!("{of} run {} {}{place}{detail}", ui::short_id(&row.id), row.state)
}

fn describe_cleanup(run: &str, removed: &[String], kept: &[String]) -> String {
    let short = ui::short_id(run);
    let gone = format!("run {short}: {} worktrees removed", removed.len());
    match kept {
        [] => gone,
        kept => format!("{gone}, kept {}", ui::escape_line(&kept.join(", "))),
    }
}

fn describe_stop(runs: &[String]) -> String {
    let shorts: Vec<String> = runs.iter().map(|run| ui::short_id(run)).collect();
    match shorts.as_slice() {
        [] => "serving stopped; no run is in progress".to_owned(),
        [one] => format!("serving stopped; run {one} continues"),
        several => format!("serving stopped; runs {} continue", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use provost_api::LandingRow;

    use super::*;

    fn of() -> IssueRef {
        IssueRef { issue: "7".to_owned(), identifier: "ABC\u{1b}[2J".to_owned() }
    }

    #[test]
    fn line_shows_outcome_and_branch() {
        let landing = LandingRow {
            done: true,
            branch: Some("provost/x".to_owned()),
            ..LandingRow::default()
        };
        let row = Box::new(RunRow { landing, ..ui::test_run("succeeded") });
        let line = ServeEvent::Ended { of: of(), row }.line();
        assert_eq!(line, "ABC␛[2J run deadbeef succeeded, on branch provost/x");
        let failed = RunRow { detail: Some("no\u{7}".to_owned()), ..ui::test_run("failed") };
        let line = ServeEvent::Ended { of: of(), row: Box::new(failed) }.line();
        assert_eq!(line, "ABC␛[2J run deadbeef failed: no␇");
    }

    #[test]
    fn json_names_event_and_issue() {
        let written = ServeEvent::IssueWaits { of: of(), why: "waits".to_owned() }.json(5);
        let expected = json!({"event": "waiting", "at": 5, "issue_id": "7", "issue_identifier": "ABC\u{1b}[2J", "why": "waits"});
        assert_eq!(written, expected);
    }

    #[test]
    fn stop_message_lists_open_runs() {
        let line = |runs: &[&str]| {
            ServeEvent::Leaving { runs: runs.iter().map(|&run| run.to_owned()).collect() }.line()
        };
        assert_eq!(line(&[]), "serving stopped; no run is in progress");
        assert!(
            line(&["00000000-0000-7000-8000-0000deadbeef"]).ends_with("run deadbeef continues")
        );
    }
}
