//! The plan of a run: the graph of its tasks, written by an agent or a user and parsed strictly.
//!
//! Only valid plans exist: every constructor of [`Plan`] validates. A plan says what to do and in
//! which order. The progress of a task is known only from its run, so that no plan can claim it.

mod edit;
mod fault;
mod graph;
mod order;
mod parse;
mod review;
mod schema;
mod task;

pub use edit::{EditFault, EditRefusal, MAX_EDITS, PlanEdit};
pub use fault::{FaultLocation, MAX_REPORTED, PlanFault, format_faults};
pub use graph::{InvalidPlan, MAX_PLANNED, MAX_TASKS, Plan};
pub use order::continued_tasks;
pub use review::{MAX_REASON, PlanReview, PlanVerdict};
pub use task::{
    InvalidTask, MAX_ENTRIES, MAX_ENTRY, MAX_ID, MAX_INSTRUCTION, MAX_TITLE, ParseTaskIdError,
    PlanTask, TaskId,
};
