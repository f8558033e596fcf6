//! Information from the kernel about agents' processes, external ones included.
//!
//! A property that could not be read is reported as such, with the reason: "not visible" never
//! means "absent".

mod agent_kind;
mod inspect;
mod stat;

pub use agent_kind::{AgentIdentification, AgentKind, Basis, ProcessTree, is_codex};
pub use inspect::{
    ObservedProcess, ProcessList, ProcessProperty, TmuxOrigin, inspect, list_processes,
    open_rollouts_of,
};
pub use stat::{PidIdentity, ProcessState, is_in_foreground, process_state};
