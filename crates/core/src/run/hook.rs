//! Hooks of a run: commands of the project that run once per occasion.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use super::{outcome::RunEnding, stage::RunStage};
use crate::time::Moment;

/// The occasion of a run hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum RunHookEvent {
    Opened,
    /// An agent of the run asks a question, or requests an approval.
    Question,
    /// The plan passed its review. The user may still have to approve it.
    Planned,
    /// A review found something.
    Findings,
    Ended(RunEnding),
}

impl RunHookEvent {
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
        found.ok_or_else(|| format!("\"{text}\" is not a run hook"))
    }
}

impl TryFrom<String> for RunHookEvent {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Identifies one occurrence of a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunHookKey {
    pub event: RunHookEvent,
    pub no: u32,
}

/// A pending hook, with the state of the run when it became due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingRunHook {
    pub key: RunHookKey,
    pub attempt: u32,
    pub stage: RunStage,
    pub at: Moment,
}
