//! `provost serve`: issues of a tracker become runs, once each, and follow what becomes of their issues.

mod again;
mod github;
mod kit;
mod opened;
mod refused;
mod stopped;
mod workflow;
