//! Everything about Codex: finding it, the home of a session, its protocols, and what its
//! transcripts, hooks and screen show from the outside.
//!
//! The crate reads the state of the machine, and pure functions decide what follows from it. It
//! never writes to the user's own Codex home. Each external source yields values of its own type,
//! so that no source can report more than it knows. Agents and their users write this input, so its
//! size is bounded, and each source is trusted only for what it can know.

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
pub mod version;

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
pub use thread::ThreadId;
pub use version::AgentVersion;
