//! Work from an issue tracker: the repository's workflow file, the issues, and what to do next.
//!
//! The workflow format is that of Symphony, a public specification. Everything here except
//! [`trackers`] is pure: the texts of files, the environment, the clock and the state of the
//! daemon's runs are inputs, and decisions are returned as values.

pub mod issue;
pub mod schedule;
pub mod trackers;
pub mod workflow;
