//! Task graphs on the real binary: scheduling, the merge queue, and the invariants that hold when
//! something fails.

mod chains;
mod failures;
pub(crate) mod kit;
mod merge_queue;
mod parallel;
mod plan_approval;
mod plans;
mod questions;
mod safety;
mod warnings;
