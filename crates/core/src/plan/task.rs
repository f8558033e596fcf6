//! A task of a plan, and the limits of its texts.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault::{Fault, Place, clipped},
    read,
};

/// Longest id. It becomes part of branch names.
pub const MAX_ID: usize = 40;

/// Longest title, in characters. It is one line, in lists and in commit messages.
pub const MAX_TITLE: usize = 200;

/// Longest instruction, in characters. Every session of the task receives all of it.
pub const MAX_INSTRUCTION: usize = 32 << 10;

/// Maximum number of criteria, checks or scopes of a task.
pub const MAX_ENTRIES: usize = 100;

/// Longest criterion, check or scope, in characters.
pub const MAX_ENTRY: usize = 4 << 10;

/// Names a task within its plan: 1 to 40 of `a-z`, `0-9` and `-`, beginning with a letter or digit.
/// The text is shared, because ids are copied with every session and link of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(Arc<str>);

/// Why a text is not a valid task id.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a valid task id: expected 1 to {MAX_ID} of a-z, 0-9 and \"-\", the first a letter or digit"
)]
pub struct BadTaskId(String);

impl TaskId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<TaskId> for String {
    fn from(id: TaskId) -> String {
        id.0.as_ref().to_owned()
    }
}

impl TryFrom<String> for TaskId {
    type Error = BadTaskId;

    fn try_from(text: String) -> Result<Self, BadTaskId> {
        let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let fits = (1..=MAX_ID).contains(&text.len()) && !text.starts_with('-');
        if fits && text.bytes().all(known) {
            Ok(TaskId(text.into()))
        } else {
            Err(BadTaskId(clipped(&text)))
        }
    }
}

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        text.to_owned().try_into()
    }
}

/// One node of the graph: work for one agent in one worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct PlanTask {
    pub id: TaskId,
    /// Its summary, in one line.
    pub title: String,
    /// The instruction for its agent.
    pub instruction: String,
    /// The tasks that it depends on.
    pub after: Vec<TaskId>,
    /// The criteria for its result, as text.
    pub criteria: Vec<String>,
    /// Commands that must succeed on its work, besides those of the run.
    pub checks: Vec<String>,
    /// The files that it will touch, as paths or patterns. Only a hint.
    pub scope: Vec<String>,
}

/// Why a value is not a valid task.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NoTask(Vec<Fault>);

impl TryFrom<Value> for PlanTask {
    type Error = NoTask;

    fn try_from(value: Value) -> Result<Self, NoTask> {
        let mut faults = Vec::new();
        let task = read::read_task(Place::Unnamed, &value, &mut faults);
        match task {
            Some(task) if faults.is_empty() => Ok(task),
            Some(_) | None => Err(NoTask(faults)),
        }
    }
}

impl PlanTask {
    /// Reports the faults of its texts.
    pub(super) fn text_faults(&self, faults: &mut Vec<Fault>) {
        let place = Place::Task(self.id.clone());
        title(&place, &self.title, faults);
        instruction(&place, &self.instruction, faults);
        let lists =
            [("criteria", &self.criteria), ("checks", &self.checks), ("scope", &self.scope)];
        for (field, entries) in lists {
            count(&place, field, entries.len(), faults);
            entries.iter().for_each(|text| entry(&place, field, text, faults));
        }
    }
}

pub(super) fn title(place: &Place, text: &str, faults: &mut Vec<Fault>) {
    sized(place, "title", text, MAX_TITLE, faults);
    if text.chars().any(char::is_control) {
        faults.push(Fault::NotOneLine { place: place.clone(), field: "title" });
    }
}

pub(super) fn instruction(place: &Place, text: &str, faults: &mut Vec<Fault>) {
    sized(place, "instruction", text, MAX_INSTRUCTION, faults);
}

pub(super) fn entry(place: &Place, field: &'static str, text: &str, faults: &mut Vec<Fault>) {
    sized(place, field, text, MAX_ENTRY, faults);
}

pub(super) fn count(place: &Place, field: &'static str, count: usize, faults: &mut Vec<Fault>) {
    if count > MAX_ENTRIES {
        faults.push(Fault::TooManyEntries { place: place.clone(), field, count });
    }
}

/// Checks every text. Command lines and file names cannot contain a NUL.
fn sized(place: &Place, field: &'static str, text: &str, most: usize, faults: &mut Vec<Fault>) {
    let place = || place.clone();
    if text.trim().is_empty() {
        faults.push(Fault::EmptyText { place: place(), field });
    }
    // A text has no more characters than bytes, so that most need not be counted.
    let length = if text.len() > most { text.chars().count() } else { 0 };
    if length > most {
        faults.push(Fault::TooLong { place: place(), field, length, most });
    }
    if text.contains('\0') {
        faults.push(Fault::Nul { place: place(), field });
    }
}
