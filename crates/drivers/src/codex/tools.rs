//! The supervisor's tools as Codex's dynamic tools: shown to the model directly, under flat names,
//! which every version accepts.

use provost_core::session::Settings;
use serde_json::{Value, json};

use crate::tools::{self, Tool};

/// Returns the tools in the form that starting a thread takes.
pub(crate) fn specs(settings: &Settings) -> Value {
    let spec = |Tool { name, description, schema }: Tool| json!({"type": "function", "name": name, "description": description, "inputSchema": schema});
    tools::offered(settings).into_iter().map(spec).collect()
}

/// Returns the answer to a call.
pub(crate) fn reply(text: &str, success: bool) -> Value {
    json!({"contentItems": [{"type": "inputText", "text": text}], "success": success})
}
