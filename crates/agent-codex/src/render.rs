//! Renders the messages of Codex's protocols as readable text.

use provost_agent::MessageRenderer;
use provost_core::session::AgentMode;

use crate::protocol;

/// Returns what renders Codex's messages in this mode, if its output consists of messages.
pub(crate) fn renderer(mode: AgentMode) -> Option<MessageRenderer> {
    match mode {
        AgentMode::Headless => Some(|line| render(line, protocol::render_app_server)),
        AgentMode::Once => Some(|line| render(line, protocol::render_exec)),
        AgentMode::Terminal => None,
    }
}

/// Renders a line. A line outside the protocol is returned unchanged.
fn render(line: &[u8], message: MessageRenderer) -> Option<String> {
    if line.trim_ascii_start().starts_with(b"{") {
        message(line)
    } else {
        Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    }
}
