//! Work that comes from a tracker of issues: the workflow file that a repository keeps, the issues, and what to do next.
//!
//! The workflow's format is Symphony's, a public specification. Everything here but [`trackers`] is pure: files' texts,
//! the environment, the clock and what the daemon's runs say are given, and decisions are values.

pub mod issue;
pub mod schedule;
pub mod trackers;
pub mod workflow;
