//! The kernel's view of the processes of agents, including external agents.
//!
//! A property that cannot be read is reported with the reason, because "not visible" does not mean
//! "absent".

mod identify;
mod inspect;
mod signature;

pub use identify::{AgentIdentification, Basis, ProcessTree, is_running};
pub use inspect::{
    ObservedProcess, OpenTranscript, ProcessList, ProcessProperty, RecognizeTranscript, TmuxOrigin,
    inspect, list_processes, open_files,
};
pub use signature::{AgentSignature, WELL_KNOWN_AGENTS};
