//! The kernel's view of the processes of agents, including external agents.
//!
//! A property that cannot be read is reported with the reason, because "not visible" does not mean
//! "absent".

mod agent_kind;
mod inspect;

pub use agent_kind::{AgentIdentification, AgentKind, Basis, ProcessTree, is_codex};
pub use inspect::{
    ObservedProcess, ProcessList, ProcessProperty, TmuxOrigin, inspect, list_processes,
    open_rollouts_of,
};
