//! The faults of a plan, described so that an agent can fix them and a user can understand them.

use std::fmt;

use super::task::{MAX_ENTRIES, ParseTaskIdError, TaskId};

/// Maximum number of faults to list in one report.
pub const MAX_REPORTED: usize = 40;

/// Maximum number of characters of a faulty text to quote.
const MAX_QUOTED_CHARS: usize = 60;

/// Maximum number of tasks of a cycle to list. The middle of a longer cycle is omitted.
const MAX_PATH: usize = 12;

/// The part of a plan or review that contains a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultLocation {
    Plan,
    Review,
    Task(TaskId),
    /// A task without a usable id, identified by its position, starting at 1.
    Numbered(usize),
    /// A task with neither a usable id nor a known position.
    Unnamed,
    /// An edit in a review, identified by its position, starting at 1.
    Edit(usize),
}

impl fmt::Display for FaultLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultLocation::Plan => f.write_str("the plan"),
            FaultLocation::Review => f.write_str("the review"),
            FaultLocation::Task(id) => write!(f, "task \"{id}\""),
            FaultLocation::Numbered(no) => write!(f, "task number {no}"),
            FaultLocation::Unnamed => f.write_str("the task"),
            FaultLocation::Edit(no) => write!(f, "edit number {no} of the review"),
        }
    }
}

/// A fault in a plan, or in a review of a plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    #[error("the plan has no tasks: expected at least one")]
    Empty,
    #[error("the plan has {count} tasks: expected at most {most}")]
    TooMany { count: usize, most: usize },
    #[error("{count} tasks have the id \"{id}\": expected a unique id for each task")]
    Duplicate { id: TaskId, count: usize },
    #[error(
        "task \"{task}\" depends on \"{on}\", which is not in the plan: expected ids of tasks in the plan"
    )]
    UnknownDependency { task: TaskId, on: TaskId },
    #[error("task \"{task}\" lists \"{on}\" more than once in \"after\": expected once")]
    RepeatedDependency { task: TaskId, on: TaskId },
    /// Each task in `path` depends on the next one. The first task is repeated at the end.
    #[error("these tasks depend on each other in a cycle: {}: expected no cycle", CyclePath(.path))]
    Cycle { path: Vec<TaskId> },
    #[error("{place} has an unknown field {field:?}: expected only {expected}")]
    ForeignField { place: FaultLocation, field: String, expected: &'static str },
    #[error("{place}, in \"{field}\": {why}")]
    BadId { place: FaultLocation, field: &'static str, why: ParseTaskIdError },
    #[error("{place} has no \"{field}\": expected {expected}")]
    Missing { place: FaultLocation, field: &'static str, expected: &'static str },
    #[error("{place} has {found} for \"{field}\": expected {expected}")]
    WrongType {
        place: FaultLocation,
        field: &'static str,
        found: &'static str,
        expected: &'static str,
    },
    #[error("{place} is {found}: expected an object")]
    NoObject { place: FaultLocation, found: &'static str },
    #[error("{place} has an empty text in \"{field}\": expected at least one word")]
    EmptyText { place: FaultLocation, field: &'static str },
    #[error("{place} has {length} characters in \"{field}\": expected at most {most}")]
    TooLong { place: FaultLocation, field: &'static str, length: usize, most: usize },
    #[error("{place} has {count} entries in \"{field}\": expected at most {MAX_ENTRIES}")]
    TooManyEntries { place: FaultLocation, field: &'static str, count: usize },
    #[error("{place} has line ends or control characters in \"{field}\": expected one line")]
    NotOneLine { place: FaultLocation, field: &'static str },
    #[error("{place} has a NUL character in \"{field}\": expected text")]
    Nul { place: FaultLocation, field: &'static str },
    #[error("the review has the verdict {found:?}: expected \"accept\" or \"reject\"")]
    BadVerdict { found: String },
    #[error("the review has {count} edits: expected at most {most}")]
    TooManyEdits { count: usize, most: usize },
    /// `no` is the position of the edit, starting at 1.
    #[error("edit number {no} of the review cannot be read: {why}")]
    BadEdit { no: usize, why: String },
}

impl PlanFault {
    /// Returns the location of the fault. The location of a cycle is its first task.
    pub fn location(&self) -> FaultLocation {
        match self {
            PlanFault::Empty | PlanFault::TooMany { .. } => FaultLocation::Plan,
            PlanFault::Duplicate { id: task, .. }
            | PlanFault::UnknownDependency { task, .. }
            | PlanFault::RepeatedDependency { task, .. } => FaultLocation::Task(task.clone()),
            PlanFault::Cycle { path } => {
                path.first().cloned().map_or(FaultLocation::Plan, FaultLocation::Task)
            }
            PlanFault::ForeignField { place, .. }
            | PlanFault::BadId { place, .. }
            | PlanFault::Missing { place, .. }
            | PlanFault::WrongType { place, .. }
            | PlanFault::NoObject { place, .. }
            | PlanFault::EmptyText { place, .. }
            | PlanFault::TooLong { place, .. }
            | PlanFault::TooManyEntries { place, .. }
            | PlanFault::NotOneLine { place, .. }
            | PlanFault::Nul { place, .. } => place.clone(),
            PlanFault::BadVerdict { .. } | PlanFault::TooManyEdits { .. } => FaultLocation::Review,
            PlanFault::BadEdit { no, .. } => FaultLocation::Edit(*no),
        }
    }

    /// Returns the name of the field that contains the fault, if it is in a single field.
    pub fn field(&self) -> Option<&str> {
        match self {
            PlanFault::ForeignField { field, .. } => Some(field),
            PlanFault::BadId { field, .. }
            | PlanFault::WrongType { field, .. }
            | PlanFault::EmptyText { field, .. }
            | PlanFault::TooLong { field, .. }
            | PlanFault::TooManyEntries { field, .. }
            | PlanFault::NotOneLine { field, .. }
            | PlanFault::Nul { field, .. } => Some(field),
            PlanFault::Duplicate { .. } => Some("id"),
            PlanFault::UnknownDependency { .. } | PlanFault::RepeatedDependency { .. } => {
                Some("after")
            }
            PlanFault::Empty
            | PlanFault::TooMany { .. }
            | PlanFault::Cycle { .. }
            | PlanFault::Missing { .. }
            | PlanFault::NoObject { .. }
            | PlanFault::BadVerdict { .. }
            | PlanFault::TooManyEdits { .. }
            | PlanFault::BadEdit { .. } => None,
        }
    }
}

/// A cycle. The middle of a long cycle is not displayed.
struct CyclePath<'a>(&'a [TaskId]);

impl fmt::Display for CyclePath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let half = MAX_PATH / 2;
        let left_out = if self.0.len() > MAX_PATH { half..self.0.len() - half } else { 0..0 };
        for (at, id) in self.0.iter().enumerate() {
            let arrow = if at == 0 { "" } else { " -> " };
            if !left_out.contains(&at) {
                write!(f, "{arrow}{id}")?;
            } else if at == left_out.start {
                write!(f, "{arrow}({} more)", left_out.len())?;
            }
        }
        Ok(())
    }
}

/// Returns the start of an untrusted text, long enough to recognize the text.
pub(super) fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Formats faults, one per line.
pub fn format_faults(faults: &[PlanFault]) -> String {
    let mut lines: Vec<String> =
        faults.iter().take(MAX_REPORTED).map(|fault| format!("- {fault}")).collect();
    if let Some(more) = faults.len().checked_sub(MAX_REPORTED).filter(|more| *more > 0) {
        lines.push(format!("- and {more} more"));
    }
    lines.join("\n")
}
