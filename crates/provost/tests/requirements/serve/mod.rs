//! `provost serve`: each issue of a tracker becomes one run, which follows the state of its issue.

mod again;
mod github;
mod kit;
mod opened;
mod refused;
mod stopped;
mod workflow;
