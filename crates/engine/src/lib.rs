//! The engine: keeps the state of sessions, runs and teams, decides what follows, and carries out
//! effects.
//!
//! [`board`] is sans-IO: it takes inputs and a moment, returns a batch for the ledger, and folds
//! committed events. [`shell`] is the thin part that moves values between the board, the ledger and
//! the outside world.

mod account;
mod acting;
pub mod board;
mod card;
mod coalesce;
mod forge;
mod graph_card;
pub mod handoff_card;
pub mod look;
pub mod report;
mod report_card;
mod run_card;
pub mod shell;
mod shown;
pub mod stream;
pub mod task_card;
mod task_help;
pub mod task_look;
mod words;

pub use card::{row, why};
pub use run_card::row as run_row;
