//! Renders journal lines as readable text.

use provost_core::session::{AdapterId, AgentMode};

use crate::{ADAPTER, protocol};

/// Renders one line of an agent's output. Returns `None` if the line should not be shown. A line
/// outside the agent's protocol is returned unchanged. The text may contain any characters, so the
/// caller must escape it.
pub fn render(adapter: &AdapterId, mode: AgentMode, line: &[u8]) -> Option<String> {
    let is_message = *adapter == ADAPTER && line.trim_ascii_start().starts_with(b"{");
    match mode {
        AgentMode::Headless if is_message => protocol::render_app_server(line),
        AgentMode::Once if is_message => protocol::render_exec(line),
        AgentMode::Headless | AgentMode::Once | AgentMode::Terminal => {
            Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
        }
    }
}
