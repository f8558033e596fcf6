//! Codex on this machine: its location, its sandbox, and the home of a session.
//!
//! This crate reads the state of the machine; pure functions decide what follows. It never writes
//! into the user's own Codex home.

pub mod features;
pub mod find;
pub mod home;
pub mod models;
pub mod preflight;
pub mod process;
pub mod skills;
pub mod version;

mod known;
mod launcher;
mod places;
mod text;

pub use find::{Candidate, Codex, Explicit, Found, Source, Standing, Surroundings, find_codex};
pub use home::{Prepared, SessionHome, clean, prepare};
pub use preflight::{Preflight, preflight};
pub use version::Version;
