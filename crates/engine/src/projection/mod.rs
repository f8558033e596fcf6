//! Projections: rows that are derived from the ledger's events, as `ls`, `status` and the API show them.

pub(crate) mod common;
pub(crate) mod graph;
pub mod handoff;
pub mod overview;
pub(crate) mod run;
pub(crate) mod session;
pub mod team;
