//! Input for the agent: records, screens, typing, panes and conversations.

mod answers;
mod external_agents;
mod inferred_requests;
pub(crate) mod kit;
mod panes;
mod queue;
mod thread_switch;
mod typing;
mod watching;
