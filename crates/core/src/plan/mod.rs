//! The plan of a run: the graph of its tasks, written by an agent or a person and read strictly.
//!
//! Only valid plans exist: [`Plan`] has no constructor that does not look. A plan says what is to be done and
//! in which order; how far a task is, is known from its run alone, so nothing in a plan can say it.

mod edit;
mod fault;
mod graph;
mod order;
mod read;
mod review;
mod schema;
mod task;

pub use edit::{EditFault, MAX_EDITS, PlanEdit, Refusal};
pub use fault::{Fault, MAX_TOLD, Place, told};
pub use graph::{MAX_PLANNED, MAX_TASKS, NoPlan, Plan};
pub use order::chained;
pub use review::{MAX_REASON, PlanReview, PlanVerdict};
pub use task::{
    BadTaskId, MAX_ENTRIES, MAX_ENTRY, MAX_ID, MAX_INSTRUCTION, MAX_TITLE, NoTask, PlanTask, TaskId,
};
