//! The agents of this machine: where Codex is, whether its sandbox works, and
//! the home that a session of it is given.
//!
//! This crate looks at the machine; what follows from what it saw is decided
//! by pure functions. It never writes into the user's own Codex home.

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
