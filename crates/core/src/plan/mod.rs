//! The plan of a run: the graph of its tasks, written by an agent or a user and parsed strictly.
//!
//! Only valid plans exist: every constructor of [`Plan`] validates. A plan says what to do and in
//! which order. The progress of a task is known only from its run, so that no plan can claim it.

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
