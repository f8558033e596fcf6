//! The kinds of agents that this program knows.

use std::sync::{Arc, LazyLock};

use provost_agent::{Adapter, Adapters};
use provost_agent_codex::CodexAdapter;

static ADAPTERS: LazyLock<Adapters> = LazyLock::new(|| {
    let codex: Arc<dyn Adapter> = Arc::new(CodexAdapter);
    Adapters::new([codex])
});

/// The agent of commands that start one without being given its name.
pub(crate) const DEFAULT_AGENT: &str = "codex";

/// Returns all adapters. A new kind of agent is registered here.
pub(crate) fn adapters() -> &'static Adapters {
    &ADAPTERS
}

/// Makes the sections of all agents part of the configuration. This precedes every other use of the
/// configuration.
pub(crate) fn register_sections() {
    let sections = adapters().front_ends().filter_map(|(_, front_end)| front_end.section());
    provost_config::register_agent_sections(sections);
}
