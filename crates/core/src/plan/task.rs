//! A task of a plan, and what its texts may be.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault::{Fault, Place, clipped},
    read,
};

/// The longest id: it becomes part of the names of branches.
pub const MAX_ID: usize = 40;

/// The longest title, in characters: it is one line, in lists and in the messages of commits.
pub const MAX_TITLE: usize = 200;

/// The longest instruction, in characters: every session of the task is told all of it.
pub const MAX_INSTRUCTION: usize = 32 << 10;

/// How many criteria, checks or scopes a task may have.
pub const MAX_ENTRIES: usize = 100;

/// The longest criterion, check or scope, in characters.
pub const MAX_ENTRY: usize = 4 << 10;

/// Names a task within its plan: 1 to 40 of `a-z`, `0-9` and `-`, beginning with a letter or digit. The text is shared, for
/// ids are copied with every session and link of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(Arc<str>);

/// The reason a text is no task's id.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is no task's id: expected 1 to {MAX_ID} of a-z, 0-9 and \"-\", the first a letter or digit"
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
        match fits && text.bytes().all(known) {
            true => Ok(TaskId(text.into())),
            false => Err(BadTaskId(clipped(&text))),
        }
    }
}

impl FromStr for TaskId {
    type Err = BadTaskId;

    fn from_str(text: &str) -> Result<Self, BadTaskId> {
        text.to_owned().try_into()
    }
}

/// One node of the graph: something to be done by one agent in one worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct PlanTask {
    pub id: TaskId,
    /// What it is, in one line.
    pub title: String,
    /// What its agent is told to do.
    pub instruction: String,
    /// The tasks whose work it builds on.
    pub after: Vec<TaskId>,
    /// What must hold at its end, in words.
    pub criteria: Vec<String>,
    /// Commands that must succeed on its work, besides those of the run.
    pub checks: Vec<String>,
    /// Which files it will touch, as paths or patterns; a hint that binds nobody.
    pub scope: Vec<String>,
}

/// The reason a value is no task.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct NoTask(Vec<Fault>);

impl TryFrom<Value> for PlanTask {
    type Error = NoTask;

    fn try_from(value: Value) -> Result<Self, NoTask> {
        let mut faults = Vec::new();
        let task = read::read_task(Place::Unnamed, &value, &mut faults);
        task.filter(|_| faults.is_empty()).ok_or(NoTask(faults))
    }
}

impl PlanTask {
    /// Tells what is wrong with its texts.
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

/// Looks at what holds for every text. No command line and no file's name can have a NUL in it.
fn sized(place: &Place, field: &'static str, text: &str, most: usize, faults: &mut Vec<Fault>) {
    let place = || place.clone();
    if text.trim().is_empty() {
        faults.push(Fault::EmptyText { place: place(), field });
    }
    // A text has no more characters than bytes, so most need not be counted.
    let length = if text.len() > most { text.chars().count() } else { 0 };
    if length > most {
        faults.push(Fault::TooLong { place: place(), field, length, most });
    }
    if text.contains('\0') {
        faults.push(Fault::Nul { place: place(), field });
    }
}
