//! Work from an issue tracker: a repository's workflow file, the issues, and the next steps.
//!
//! The workflow's format is Symphony's, a public specification. Everything here but [`trackers`] is
//! pure: the texts of files, the environment, the clock and the state of the daemon's runs are
//! inputs, and decisions are values.

pub mod issue;
pub mod schedule;
pub mod trackers;
pub mod workflow;
