//! Tests of runs with a plan: parallel sessions and the merge queue.

mod budget;
mod cancel;
mod decisions;
mod failing;
mod kit;
mod late;
mod planning;
mod queue;
mod returning;
mod reviews;
mod scheduling;
