//! Task graphs on the real binary: scheduling, the merge queue, and the invariants that hold when something fails
//! on the way.

mod approval;
mod chains;
mod failing;
pub(crate) mod kit;
mod parallel;
mod plans;
mod questions;
mod queue;
mod safety;
mod warnings;
