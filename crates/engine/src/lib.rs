//! The engine: maintains the state of sessions, runs and teams, decides what to do next, and
//! carries out effects.
//!
//! [`board`] is sans-IO: it takes inputs and the time, returns a batch for the ledger, and applies
//! committed events. [`shell`] is the thin layer that moves values between the board, the ledger
//! and the outside world.

mod audit_actor;
pub mod board;
mod coalesce;
mod forge;
mod guarded_files;
mod hints;
pub mod history;
mod limit_queue;
pub mod projection;
pub mod report;
mod run_summary;
mod search_terms;
pub mod shell;
pub mod stream;

pub use projection::run::row as run_row;
pub use projection::session::{explain, row};
