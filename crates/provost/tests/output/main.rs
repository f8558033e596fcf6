//! Snapshots of the complete output of every command: help, text, JSON, errors, and tables at three widths.
//!
//! `cargo xtask test` fails on a snapshot that is missing or differs. CONTRIBUTING.md explains how to accept changes.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]

mod agents;
mod coverage;
mod documents;
mod external;
mod help;
mod history;
mod recorder;
mod redact;
mod see;
mod setup;
mod start;
mod steer;
mod team;
mod team_work;
