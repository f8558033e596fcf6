//! Renders journal lines as readable text.

use provost_core::session::Driver;

use crate::protocol;

/// Renders one line of an agent's output. Returns `None` if the line should not be shown. A line
/// outside the agent's protocol is returned unchanged. The text may contain any characters, so the
/// caller must escape it.
pub fn render(driver: Driver, line: &[u8]) -> Option<String> {
    let is_message = line.trim_ascii_start().starts_with(b"{");
    match driver {
        Driver::Codex if is_message => protocol::render_app_server(line),
        Driver::CodexExec if is_message => protocol::render_exec(line),
        Driver::Command
        | Driver::Jsonl
        | Driver::Codex
        | Driver::CodexExec
        | Driver::Terminal
        | Driver::CodexTerminal => {
            Some(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
        }
    }
}
