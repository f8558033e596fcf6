//! The kinds of agents that this program knows.

use std::sync::{Arc, OnceLock};

use provost_agent::{Adapter, Adapters};

/// The agent that commands start if the user does not specify an agent.
pub(crate) const DEFAULT_AGENT: &str = "codex";

static ADAPTERS: OnceLock<Adapters> = OnceLock::new();

/// Returns the adapters of this build. A new kind of agent is registered here.
fn built_in() -> Vec<Arc<dyn Adapter>> {
    vec![
        #[cfg(feature = "codex")]
        Arc::new(provost_agent_codex::CodexAdapter),
    ]
}

/// Adds the adapters of another program to those of this build. Must be called before any adapter is used.
pub(crate) fn install(more: impl IntoIterator<Item = Arc<dyn Adapter>>) {
    ADAPTERS.get_or_init(|| Adapters::new(built_in().into_iter().chain(more)));
}

/// Returns all adapters.
pub(crate) fn adapters() -> &'static Adapters {
    ADAPTERS.get_or_init(|| Adapters::new(built_in()))
}

/// Makes the sections of all agents part of the configuration. Must be called before the configuration is used.
pub(crate) fn register_sections() {
    let sections = adapters().front_ends().filter_map(|(_, front_end)| front_end.section());
    provost_config::register_agent_sections(sections);
}
