//! Codex on this machine: its location, its sandbox, and the home of a session.
//!
//! This crate reads the state of the machine; pure functions decide what follows. It never writes
//! into the user's own Codex home.

pub mod features;
pub mod home;
pub mod locate;
pub mod models;
pub mod preflight;
pub mod process;
pub mod skills;
pub mod version;

mod launcher;
mod search_paths;
mod text;
mod version_cache;

pub use home::{PreparedHome, SessionHome, clean, prepare};
pub use locate::{
    CandidateStatus, CodexCandidate, CodexProgram, CodexSearch, NamedCodex, PathSource,
    SearchEnvironment, find_codex,
};
pub use preflight::{Preflight, preflight};
pub use version::AgentVersion;
