//! The kinds of agents that this program knows.

use std::sync::Arc;

use provost_agent::{Adapter, Adapters};
use provost_agent_codex::CodexAdapter;

/// Returns all adapters. A new kind of agent is registered here.
pub(crate) fn adapters() -> Adapters {
    let codex: Arc<dyn Adapter> = Arc::new(CodexAdapter);
    Adapters::new([codex])
}
