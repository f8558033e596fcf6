//! Task graphs on the real binary: scheduling, the merge queue, and the invariants that hold when
//! something fails.

mod chains;
mod failures;
mod merge_queue;
mod parallel;
mod plan_approval;
pub(crate) mod plan_env;
mod plans;
mod questions;
mod safety;
mod warnings;
