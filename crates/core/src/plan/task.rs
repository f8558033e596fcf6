//! A task in a plan, and the size limits of its texts.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    fault::{FaultLocation, PlanFault, clipped},
    parse,
};

/// Maximum length of a task id, in characters. The limit is low because the id becomes part of
/// branch names.
pub const MAX_ID: usize = 40;

/// Maximum length of a title, in characters. A title appears as one line in lists and commit messages.
pub const MAX_TITLE: usize = 200;

/// Maximum length of an instruction, in characters. Every session that works on the task receives the complete
/// instruction.
pub const MAX_INSTRUCTION: usize = 32 << 10;

/// Maximum number of criteria, checks or scopes of a task.
pub const MAX_ENTRIES: usize = 100;

/// Maximum length of a criterion, check or scope, in characters.
pub const MAX_ENTRY: usize = 4 << 10;

/// A task's id within its plan: 1 to 40 characters from `a-z`, `0-9` and `-`, starting with a
/// letter or digit. The text is behind an `Arc` because every session and link of a run clones the
/// id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskId(Arc<str>);

/// A text that is not a valid task id.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{0:?} is not a valid task id: expected 1 to {MAX_ID} of a-z, 0-9 and \"-\", starting with a letter or digit"
)]
pub struct ParseTaskIdError(String);

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
    type Error = ParseTaskIdError;

    fn try_from(text: String) -> Result<Self, ParseTaskIdError> {
        let known = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let fits = (1..=MAX_ID).contains(&text.len()) && !text.starts_with('-');
        if fits && text.bytes().all(known) {
            Ok(TaskId(text.into()))
        } else {
            Err(ParseTaskIdError(clipped(&text)))
        }
    }
}

impl FromStr for TaskId {
    type Err = ParseTaskIdError;

    fn from_str(text: &str) -> Result<Self, ParseTaskIdError> {
        text.to_owned().try_into()
    }
}

/// One node of the graph: work for one agent in one worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value")]
pub struct PlanTask {
    pub id: TaskId,
    /// A one-line summary of the task.
    pub title: String,
    /// The instruction for the task's agent.
    pub instruction: String,
    /// The tasks on which this task depends.
    pub after: Vec<TaskId>,
    /// The criteria for the task's result, as text.
    pub criteria: Vec<String>,
    /// Commands that must succeed on the task's work, in addition to the checks of the run.
    pub checks: Vec<String>,
    /// The files that the task is expected to change, as paths or patterns. Provost does not reject changes to other
    /// files.
    pub scope: Vec<String>,
}

/// The faults of a value that is not a valid task.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidTask(Vec<PlanFault>);

impl TryFrom<Value> for PlanTask {
    type Error = InvalidTask;

    fn try_from(value: Value) -> Result<Self, InvalidTask> {
        let mut faults = Vec::new();
        let task = parse::read_task(FaultLocation::Unnamed, &value, &mut faults);
        match task {
            Some(task) if faults.is_empty() => Ok(task),
            Some(_) | None => Err(InvalidTask(faults)),
        }
    }
}

impl PlanTask {
    /// Appends the faults of the task's texts.
    pub(super) fn text_faults(&self, faults: &mut Vec<PlanFault>) {
        let place = FaultLocation::Task(self.id.clone());
        check_title(&place, &self.title, faults);
        check_instruction(&place, &self.instruction, faults);
        let lists =
            [("criteria", &self.criteria), ("checks", &self.checks), ("scope", &self.scope)];
        for (field, entries) in lists {
            check_count(&place, field, entries.len(), faults);
            entries.iter().for_each(|text| check_entry(&place, field, text, faults));
        }
    }
}

pub(super) fn check_title(place: &FaultLocation, text: &str, faults: &mut Vec<PlanFault>) {
    check_text(place, "title", text, MAX_TITLE, faults);
    if text.chars().any(char::is_control) {
        faults.push(PlanFault::NotOneLine { place: place.clone(), field: "title" });
    }
}

pub(super) fn check_instruction(place: &FaultLocation, text: &str, faults: &mut Vec<PlanFault>) {
    check_text(place, "instruction", text, MAX_INSTRUCTION, faults);
}

pub(super) fn check_entry(
    place: &FaultLocation,
    field: &'static str,
    text: &str,
    faults: &mut Vec<PlanFault>,
) {
    check_text(place, field, text, MAX_ENTRY, faults);
}

pub(super) fn check_count(
    place: &FaultLocation,
    field: &'static str,
    count: usize,
    faults: &mut Vec<PlanFault>,
) {
    if count > MAX_ENTRIES {
        faults.push(PlanFault::TooManyEntries { place: place.clone(), field, count });
    }
}

/// Checks the length of a text, and that it contains no NUL, which command lines and file names do
/// not allow.
fn check_text(
    place: &FaultLocation,
    field: &'static str,
    text: &str,
    most: usize,
    faults: &mut Vec<PlanFault>,
) {
    let place = || place.clone();
    if text.trim().is_empty() {
        faults.push(PlanFault::EmptyText { place: place(), field });
    }
    // A text never has more characters than bytes, so short texts need no counting.
    let length = if text.len() > most { text.chars().count() } else { 0 };
    if length > most {
        faults.push(PlanFault::TooLong { place: place(), field, length, most });
    }
    if text.contains('\0') {
        faults.push(PlanFault::Nul { place: place(), field });
    }
}
