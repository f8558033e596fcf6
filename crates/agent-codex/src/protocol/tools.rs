//! The supervisor's tools as Codex's dynamic tools. The model sees them directly, under flat names,
//! which every version supports.

use provost_core::session::AgentSettings;
use serde_json::{Value, json};

use provost_agent::tools::{self, ToolDefinition};

/// Returns the tools in the format of the request that starts a thread.
pub(crate) fn specs(settings: &AgentSettings) -> Value {
    let spec = |ToolDefinition { name, description, schema }: ToolDefinition| json!({"type": "function", "name": name, "description": description, "inputSchema": schema});
    tools::available_tools(settings).into_iter().map(spec).collect()
}

/// Returns the response to a call.
pub(crate) fn reply(text: &str, success: bool) -> Value {
    json!({"contentItems": [{"type": "inputText", "text": text}], "success": success})
}
