//! The supervisor's tools as Codex's dynamic tools: shown to the model directly, under flat names,
//! which every version accepts.

use provost_core::session::AgentSettings;
use serde_json::{Value, json};

use crate::tools::{self, ToolDefinition};

/// Returns the tools in the form that starting a thread takes.
pub(crate) fn specs(settings: &AgentSettings) -> Value {
    let spec = |ToolDefinition { name, description, schema }: ToolDefinition| json!({"type": "function", "name": name, "description": description, "inputSchema": schema});
    tools::available_tools(settings).into_iter().map(spec).collect()
}

/// Returns the answer to a call.
pub(crate) fn reply(text: &str, success: bool) -> Value {
    json!({"contentItems": [{"type": "inputText", "text": text}], "success": success})
}
