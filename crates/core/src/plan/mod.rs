//! The plan of a run: the graph of its tasks, written by an agent or a user and parsed strictly.
//!
//! Every constructor of [`Plan`] validates, so a `Plan` value is always valid. A plan describes the
//! work and its order, but has no field for progress. Only the run records progress, so an agent
//! cannot claim progress by editing the plan.

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
