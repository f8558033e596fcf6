//! Tests of runs with a plan: parallel sessions and the merge queue.

mod budget;
mod cancel;
mod decisions;
mod failed_tasks;
mod kit;
mod late_results;
mod planning;
mod queue;
mod returned_tasks;
mod reviews;
mod scheduling;
