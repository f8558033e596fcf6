//! The engine: maintains the state of sessions, runs and teams, decides what to do next, and
//! carries out effects.
//!
//! [`board`] is sans-IO: it takes inputs and the time, returns a batch for the ledger, and applies committed events.
//! [`shell`] is the thin layer that moves values between the board, the ledger and the outside world. The simulator is
//! built without [`shell`], so the rest of the crate never depends on [`shell`].

#![cfg_attr(not(feature = "shell"), expect(dead_code, reason = "only the shell uses all of it"))]

mod audit_actor;
pub mod board;
#[cfg(feature = "shell")]
mod coalesce;
#[cfg(feature = "shell")]
mod forge;
#[cfg(feature = "shell")]
mod guarded_files;
mod hints;
#[cfg(feature = "shell")]
pub mod history;
mod limit_queue;
pub mod projection;
#[cfg(feature = "shell")]
pub mod report;
#[cfg(feature = "shell")]
mod run_summary;
mod search_terms;
#[cfg(feature = "shell")]
pub mod shell;
pub mod stored_aggregate;
pub mod stream;

pub use projection::run::row as run_row;
pub use projection::session::{explain, row};
