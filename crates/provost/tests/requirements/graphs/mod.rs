//! Graphs of tasks on the real binary: who works when, what the queue makes of it, and what stays true when things go
//! wrong on the way.

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
