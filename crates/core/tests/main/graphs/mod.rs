//! Tests of runs with a plan: several sessions at once, and the queue that merges what they leave.

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
