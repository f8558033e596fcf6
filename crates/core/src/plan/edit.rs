//! Edits to a plan. The plan must be valid after every edit.

use serde::{Deserialize, Serialize};

use super::{
    fault::{PlanFault, format_faults},
    graph::{MAX_TASKS, Plan},
    order,
    task::{PlanTask, TaskId},
};

/// Maximum number of edits in one list. A larger change requires a new plan.
pub const MAX_EDITS: usize = 500;

/// One change to a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum PlanEdit {
    /// Adds a task at the end of the plan.
    Add { task: PlanTask },
    /// Removes a task. No other task may depend on it.
    Remove { id: TaskId },
    /// Changes the texts of a task. Omitted fields keep their value.
    Change {
        id: TaskId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instruction: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        criteria: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        checks: Option<Vec<String>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scope: Option<Vec<String>>,
    },
    /// Makes a task depend on another task.
    Depend { id: TaskId, on: TaskId },
    /// Removes a dependency of a task.
    Release { id: TaskId, on: TaskId },
}

/// An edit that cannot be applied, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("edit number {no} cannot be applied: {why}")]
pub struct EditFault {
    /// The position of the edit in the list, starting at 1.
    pub no: usize,
    pub why: EditRefusal,
}

/// The reason why an edit cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditRefusal {
    #[error("there is no task \"{id}\": expected the id of a task in the plan")]
    Unknown { id: TaskId },
    #[error("task \"{id}\" already exists: expected a unique id")]
    Exists { id: TaskId },
    #[error("task \"{by}\" depends on \"{id}\": release that dependency first")]
    Needed { id: TaskId, by: TaskId },
    #[error("\"{id}\" is the only task of the plan: add another task before removing it")]
    Last { id: TaskId },
    #[error("task \"{id}\" already depends on \"{on}\"")]
    AlreadyAfter { id: TaskId, on: TaskId },
    #[error("task \"{id}\" does not depend on \"{on}\": expected one of its dependencies")]
    NotAfter { id: TaskId, on: TaskId },
    #[error("the edit of task \"{id}\" must change at least one field")]
    ChangesNothing { id: TaskId },
    #[error("the list has {count} edits: expected at most {MAX_EDITS}")]
    TooMany { count: usize },
    #[error("the plan would not be valid:\n{}", format_faults(.0))]
    Faults(Vec<PlanFault>),
}

impl Plan {
    /// Applies the edits in order. If an edit cannot be applied, returns an error that identifies the edit.
    pub fn apply_edits(&self, edits: &[PlanEdit]) -> Result<Plan, EditFault> {
        if edits.len() > MAX_EDITS {
            let why = EditRefusal::TooMany { count: edits.len() };
            return Err(EditFault { no: MAX_EDITS + 1, why });
        }
        let mut tasks = self.tasks().to_vec();
        for (at, edit) in edits.iter().enumerate() {
            apply_edit(&mut tasks, edit).map_err(|why| EditFault { no: at + 1, why })?;
        }
        // The plan is valid after every edit; constructing the `Plan` validates it again.
        let no = edits.len();
        Plan::new(tasks).map_err(|faults| EditFault { no, why: EditRefusal::Faults(faults) })
    }
}

fn apply_edit(tasks: &mut Vec<PlanTask>, edit: &PlanEdit) -> Result<(), EditRefusal> {
    match edit {
        PlanEdit::Add { task } => add(tasks, task),
        PlanEdit::Remove { id } => remove(tasks, id),
        PlanEdit::Change { .. } => change(tasks, edit),
        PlanEdit::Depend { id, on } => depend(tasks, id, on),
        PlanEdit::Release { id, on } => release(tasks, id, on),
    }
}

fn add(tasks: &mut Vec<PlanTask>, task: &PlanTask) -> Result<(), EditRefusal> {
    if task_index(tasks, &task.id).is_ok() {
        return Err(EditRefusal::Exists { id: task.id.clone() });
    }
    let mut faults = Vec::new();
    if tasks.len() == MAX_TASKS {
        faults.push(PlanFault::TooMany { count: MAX_TASKS + 1, most: MAX_TASKS });
    }
    task.text_faults(&mut faults);
    tasks.push(task.clone());
    faults.extend(order::link_faults(tasks));
    // No task depends on the new task, so the only possible cycle is the task depending on itself.
    faults.extend(order::topological_order(tasks).err().unwrap_or_default());
    check_faults(faults)
}

fn check_faults(faults: Vec<PlanFault>) -> Result<(), EditRefusal> {
    if faults.is_empty() { Ok(()) } else { Err(EditRefusal::Faults(faults)) }
}

fn remove(tasks: &mut Vec<PlanTask>, id: &TaskId) -> Result<(), EditRefusal> {
    let at = task_index(tasks, id)?;
    if let Some(by) = tasks.iter().find(|task| task.after.contains(id)) {
        return Err(EditRefusal::Needed { id: id.clone(), by: by.id.clone() });
    }
    if tasks.len() == 1 {
        return Err(EditRefusal::Last { id: id.clone() });
    }
    tasks.remove(at);
    Ok(())
}

fn change(tasks: &mut [PlanTask], edit: &PlanEdit) -> Result<(), EditRefusal> {
    let PlanEdit::Change { id, title, instruction, criteria, checks, scope } = edit else {
        return Ok(());
    };
    let at = task_index(tasks, id)?;
    let old = &tasks[at];
    let new = PlanTask {
        id: id.clone(),
        title: title.clone().unwrap_or_else(|| old.title.clone()),
        instruction: instruction.clone().unwrap_or_else(|| old.instruction.clone()),
        after: old.after.clone(),
        criteria: criteria.clone().unwrap_or_else(|| old.criteria.clone()),
        checks: checks.clone().unwrap_or_else(|| old.checks.clone()),
        scope: scope.clone().unwrap_or_else(|| old.scope.clone()),
    };
    if new == *old {
        return Err(EditRefusal::ChangesNothing { id: id.clone() });
    }
    let mut faults = Vec::new();
    new.text_faults(&mut faults);
    tasks[at] = new;
    check_faults(faults)
}

fn depend(tasks: &mut [PlanTask], id: &TaskId, on: &TaskId) -> Result<(), EditRefusal> {
    let (at, _) = (task_index(tasks, id)?, task_index(tasks, on)?);
    if tasks[at].after.contains(on) {
        return Err(EditRefusal::AlreadyAfter { id: id.clone(), on: on.clone() });
    }
    tasks[at].after.push(on.clone());
    order::topological_order(tasks).map(drop).map_err(EditRefusal::Faults)
}

fn release(tasks: &mut [PlanTask], id: &TaskId, on: &TaskId) -> Result<(), EditRefusal> {
    let at = task_index(tasks, id)?;
    let Some(place) = tasks[at].after.iter().position(|after| after == on) else {
        return Err(EditRefusal::NotAfter { id: id.clone(), on: on.clone() });
    };
    tasks[at].after.remove(place);
    Ok(())
}

fn task_index(tasks: &[PlanTask], id: &TaskId) -> Result<usize, EditRefusal> {
    let place = tasks.iter().position(|task| task.id == *id);
    place.ok_or_else(|| EditRefusal::Unknown { id: id.clone() })
}
