//! A toy agent that follows `docs/contributing/adapters.md`: its own protocol, home, screen,
//! transcript and configuration section. It proves that a new agent needs no change elsewhere.

mod adapter;
mod front_end;
mod protocol;
mod screen;
mod transcript;

pub use adapter::ToyAdapter;
pub use front_end::ToySettings;

/// The variable with the directory in which the agent keeps its transcript.
pub const HOME_VARIABLE: &str = "TOY_HOME";

/// The end of a transcript's name. The conversation's id precedes it.
pub const TRANSCRIPT_END: &str = ".talk";
