//! Work from an issue tracker: the repository's workflow file, the issues, and the decisions about
//! the next steps.
//!
//! The workflow format is that of Symphony, a public specification. Every module except
//! [`trackers`] is pure: the texts of files, the environment, the clock and the state of the
//! daemon's runs are inputs, and decisions are returned as values.

pub mod issue;
pub mod schedule;
pub mod trackers;
pub mod workflow;
