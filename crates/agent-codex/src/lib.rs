//! Support for Codex: finding its program, the home of a session, its protocols, and the
//! interpretation of its transcripts, hooks and screen.
//!
//! The crate reads the state of the machine, and pure functions draw the conclusions. It never
//! writes to the user's own Codex home. Each external source yields values of its own type, so that
//! no source can report more than it knows. Agents and their users write the content of these
//! sources, so the size of the content is bounded, and each source is trusted only for the facts
//! that it can know.

pub mod features;
pub mod home;
pub mod hooks;
pub mod launch;
pub mod locate;
pub mod models;
pub mod notify;
pub mod preflight;
pub mod protocol;
pub mod rollout;
pub mod screen;
pub mod skills;
pub mod thread;

mod adapter;
mod front_end;
mod interface;
mod launcher;
mod record_signals;
mod render;
mod search_paths;
mod text;
mod transcripts;
mod version_cache;

pub use adapter::CodexAdapter;
pub use front_end::CodexSettings;
pub use home::{PreparedHome, SessionHome, clean, prepare};
pub use interface::{ADAPTER, interface};
pub use locate::{
    CandidateStatus, CodexCandidate, CodexProgram, CodexSearch, NamedCodex, PathSource,
    SearchEnvironment, find_codex,
};
pub use preflight::{Preflight, preflight};
pub use semver::Version as AgentVersion;
pub use thread::ThreadId;
