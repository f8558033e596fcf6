//! The output of serving: a line for users, or a JSON object for programs.

use std::time::Duration;

use provost_api::RunRow;
use serde_json::{Value, json};

use crate::ui;

/// A description of the served workflow.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) workflow: String,
    pub(super) tracker: String,
    pub(super) at_once: u32,
    pub(super) interval: Duration,
}

/// The issue that an event concerns.
#[derive(Clone, Debug)]
pub(super) struct Of {
    pub(super) issue: String,
    pub(super) identifier: String,
}

/// An event of serving.
#[derive(Clone, Debug)]
pub(super) enum News {
    Serving(About),
    Reloaded(About),
    NotReloaded {
        class: &'static str,
        message: String,
    },
    /// A file changed that only the operator may trust; the version from the start of serving stays in use.
    NotTaken {
        message: String,
    },
    Warning {
        message: String,
    },
    TrackerFailed {
        category: &'static str,
        message: String,
    },
    /// Another failure, retried with the next poll.
    Failed {
        message: String,
    },
    Opened {
        of: Of,
        title: String,
        url: Option<String>,
        attempt: u32,
        row: Box<RunRow>,
    },
    NotOpened {
        of: Of,
        attempt: u32,
        message: String,
    },
    /// A run opened by an earlier process of this command.
    GoesOn {
        of: Of,
        row: Box<RunRow>,
    },
    Asks {
        of: Of,
        row: Box<RunRow>,
        command: String,
    },
    Ended {
        of: Of,
        row: Box<RunRow>,
    },
    Stopping {
        of: Of,
        run: String,
        why: String,
    },
    Held {
        of: Of,
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

impl News {
    /// Returns the line for users. External text is shown without terminal control characters.
    pub(super) fn line(&self) -> String {
        match self {
            News::Serving(about) => format!("serving {}", about.words()),
            News::Reloaded(about) => format!("the workflow changed: {}", about.words()),
            News::NotReloaded { message, .. } => format!(
                "the workflow changed and is invalid: {}; runs continue with the last valid version, and no new runs start",
                ui::clean(message)
            ),
            News::NotTaken { message } | News::Warning { message } | News::Failed { message } => {
                ui::clean(message)
            }
            News::TrackerFailed { message, .. } => {
                format!("cannot read the tracker: {}", ui::clean(message))
            }
            News::Opened { of, title, row, attempt, .. } => {
                let again =
                    if *attempt > 0 { format!(" (attempt {attempt})") } else { String::new() };
                format!("{of} run {} opened{again}: {}", ui::short(&row.id), ui::clean(title))
            }
            News::NotOpened { of, message, .. } => {
                format!("{of} cannot open a run: {}", ui::clean(message))
            }
            News::GoesOn { of, row } => format!("{of} run {} continues", ui::short(&row.id)),
            News::Asks { of, row, command } => {
                format!(
                    "{of} run {} waits for an answer: {}",
                    ui::short(&row.id),
                    ui::clean(command)
                )
            }
            News::Ended { of, row } => ended(of, row),
            News::Stopping { of, run, why } => {
                format!("{of} run {} is cancelled: {}", ui::short(run), ui::clean(why))
            }
            News::Held { of, why } => format!("{of} {}", ui::clean(why)),
            News::Cleaned { run, removed, kept } => cleaned(run, removed, kept),
            News::Leaving { runs } => leaving(runs),
        }
    }

    /// Returns the object for programs.
    pub(super) fn json(&self, at_ms: i64) -> Value {
        let (event, mut value) = self.fields();
        value["event"] = json!(event);
        value["at"] = json!(at_ms);
        if let Some(of) = self.of() {
            value["issue_id"] = json!(of.issue);
            value["issue_identifier"] = json!(of.identifier);
        }
        value
    }

    fn fields(&self) -> (&'static str, Value) {
        match self {
            News::Serving(about) => ("serving", about.json()),
            News::Reloaded(about) => ("reloaded", about.json()),
            News::NotReloaded { class, message } => {
                ("not_reloaded", json!({"class": class, "message": message}))
            }
            News::NotTaken { message } => ("not_taken", json!({"message": message})),
            News::Warning { message } => ("warning", json!({"message": message})),
            News::TrackerFailed { category, message } => {
                ("tracker_failed", json!({"category": category, "message": message}))
            }
            News::Failed { message } => ("failed", json!({"message": message})),
            News::Opened { title, url, attempt, row, .. } => {
                ("opened", json!({"run": row.id, "attempt": attempt, "title": title, "url": url}))
            }
            News::NotOpened { attempt, message, .. } => {
                ("not_opened", json!({"attempt": attempt, "message": message}))
            }
            News::GoesOn { row, .. } => ("goes_on", json!({"run": row.id, "stage": row.stage})),
            News::Asks { row, command, .. } => ("asks", json!({"run": row.id, "command": command})),
            News::Ended { row, .. } => (
                "ended",
                json!({"run": row.id, "state": row.state, "cause": row.cause, "detail": row.detail,
                    "branch": row.landing.branch, "usage": row.usage}),
            ),
            News::Stopping { run, why, .. } => ("stopping", json!({"run": run, "why": why})),
            News::Held { why, .. } => ("held", json!({"why": why})),
            News::Cleaned { run, removed, kept } => {
                ("cleaned", json!({"run": run, "removed": removed, "kept": kept}))
            }
            News::Leaving { runs } => ("leaving", json!({"runs": runs})),
        }
    }

    fn of(&self) -> Option<&Of> {
        match self {
            News::Opened { of, .. }
            | News::NotOpened { of, .. }
            | News::GoesOn { of, .. }
            | News::Asks { of, .. }
            | News::Ended { of, .. }
            | News::Stopping { of, .. }
            | News::Held { of, .. } => Some(of),
            News::Serving(_)
            | News::Reloaded(_)
            | News::NotReloaded { .. }
            | News::NotTaken { .. }
            | News::Warning { .. }
            | News::TrackerFailed { .. }
            | News::Failed { .. }
            | News::Cleaned { .. }
            | News::Leaving { .. } => None,
        }
    }
}

impl About {
    fn words(&self) -> String {
        let (workflow, tracker) = (ui::clean(&self.workflow), ui::clean(&self.tracker));
        let every = self.interval;
        format!("{workflow}: {tracker}, {} at once, polled every {every:?}", self.at_once)
    }

    fn json(&self) -> Value {
        let interval = u64::try_from(self.interval.as_millis()).unwrap_or(u64::MAX);
        json!({"workflow": self.workflow, "tracker": self.tracker, "at_once": self.at_once, "interval_ms": interval})
    }
}

impl std::fmt::Display for Of {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&ui::clean(&self.identifier))
    }
}

/// Describes how a run ended, and where its work is.
fn ended(of: &Of, row: &RunRow) -> String {
    let landing = &row.landing;
    let pulled = landing.pull_request.as_ref().map(|pull| pull.url.clone());
    let branch = landing.branch.as_ref().map(|branch| format!("branch {branch}"));
    let place = if landing.done { pulled.or(branch) } else { None };
    let place = place.map(|place| format!(", on {}", ui::clean(&place))).unwrap_or_default();
    let detail = row.detail.as_deref().filter(|detail| !detail.is_empty());
    let detail = detail.map(|detail| format!(": {}", ui::clean(detail))).unwrap_or_default();
    format!("{of} run {} {}{place}{detail}", ui::short(&row.id), row.state)
}

fn cleaned(run: &str, removed: &[String], kept: &[String]) -> String {
    let short = ui::short(run);
    let gone = format!("run {short}: {} worktrees removed", removed.len());
    match kept {
        [] => gone,
        kept => format!("{gone}, kept {}", ui::clean(&kept.join(", "))),
    }
}

fn leaving(runs: &[String]) -> String {
    let shorts: Vec<String> = runs.iter().map(|run| ui::short(run)).collect();
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

    fn of() -> Of {
        Of { issue: "7".to_owned(), identifier: "ABC\u{1b}[2J".to_owned() }
    }

    #[test]
    fn a_line_says_how_a_run_ended_and_where_its_work_is() {
        let landing = LandingRow {
            done: true,
            branch: Some("provost/x".to_owned()),
            ..LandingRow::default()
        };
        let row = Box::new(RunRow { landing, ..ui::test_run("succeeded") });
        let line = News::Ended { of: of(), row }.line();
        assert_eq!(line, "ABC␛[2J run deadbeef succeeded, on branch provost/x");
        let failed = RunRow { detail: Some("no\u{7}".to_owned()), ..ui::test_run("failed") };
        let line = News::Ended { of: of(), row: Box::new(failed) }.line();
        assert_eq!(line, "ABC␛[2J run deadbeef failed: no␇");
    }

    #[test]
    fn an_object_names_its_event_and_its_issue() {
        let told = News::Held { of: of(), why: "waits".to_owned() }.json(5);
        let expected = json!({"event": "held", "at": 5, "issue_id": "7", "issue_identifier": "ABC\u{1b}[2J", "why": "waits"});
        assert_eq!(told, expected);
    }

    #[test]
    fn whoever_leaves_says_what_goes_on() {
        let line = |runs: &[&str]| {
            News::Leaving { runs: runs.iter().map(|&run| run.to_owned()).collect() }.line()
        };
        assert_eq!(line(&[]), "serving stopped; no run is in progress");
        assert!(
            line(&["00000000-0000-7000-8000-0000deadbeef"]).ends_with("run deadbeef continues")
        );
    }
}
