//! Hooks of a run: which events trigger them, and which executions are pending. The commands are in
//! the run's spec (`RunSpec::hooks`). A hook is executed once for each occurrence of its event.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{outcome::RunEnding, stage::RunStage};
use crate::time::Moment;

/// The event that triggers a run hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RunHookEvent {
    Opened,
    /// An agent of the run asked a question or requested an approval.
    Question,
    /// The plan passed its review, but may still need the user's approval.
    Planned,
    /// A review reported findings.
    Findings,
    Ended(RunEnding),
}

impl RunHookEvent {
    /// All events. A hook can be parsed only if its event is in this list.
    pub const ALL: [RunHookEvent; 8] = [
        RunHookEvent::Opened,
        RunHookEvent::Question,
        RunHookEvent::Planned,
        RunHookEvent::Findings,
        RunHookEvent::Ended(RunEnding::Succeeded),
        RunHookEvent::Ended(RunEnding::Completed),
        RunHookEvent::Ended(RunEnding::Failed),
        RunHookEvent::Ended(RunEnding::Cancelled),
    ];

    fn as_str(self) -> &'static str {
        match self {
            RunHookEvent::Opened => "opened",
            RunHookEvent::Question => "question",
            RunHookEvent::Planned => "planned",
            RunHookEvent::Findings => "findings",
            RunHookEvent::Ended(ending) => ending.as_str(),
        }
    }
}

impl fmt::Display for RunHookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "run.{}", self.as_str())
    }
}

impl From<RunHookEvent> for String {
    fn from(event: RunHookEvent) -> String {
        event.to_string()
    }
}

impl FromStr for RunHookEvent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = RunHookEvent::ALL.into_iter().find(|event| event.to_string() == text);
        found.ok_or_else(|| {
            let names = RunHookEvent::ALL.map(|event| event.to_string()).join(", ");
            format!("\"{text}\" is not a run hook: expected one of {names}")
        })
    }
}

impl TryFrom<String> for RunHookEvent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Identifies one execution of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunHookKey {
    pub event: RunHookEvent,
    /// How many times the event has occurred in this run, including this time.
    pub no: u32,
}

/// A pending hook, with the run's state at the time when the hook became due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRunHook {
    pub key: RunHookKey,
    /// The attempt of the run (not of the hook) in which the event occurred.
    pub attempt: u32,
    pub stage: RunStage,
    /// When the event occurred.
    pub at: Moment,
}
