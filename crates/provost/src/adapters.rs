//! The kinds of agents that this program knows.

use std::sync::{Arc, LazyLock};

use provost_agent::{Adapter, Adapters};
use provost_agent_codex::CodexAdapter;

static ADAPTERS: LazyLock<Adapters> = LazyLock::new(|| {
    let codex: Arc<dyn Adapter> = Arc::new(CodexAdapter);
    Adapters::new([codex])
});

/// Returns all adapters. A new kind of agent is registered here.
pub(crate) fn adapters() -> &'static Adapters {
    &ADAPTERS
}
