//! Renders journal lines as readable text.

use provost_core::session::Driver;

use crate::codex;

/// Renders one line of an agent's output, or returns None if it is not worth showing. A line
/// outside the agent's protocol is shown unchanged. The text may contain anything the agent wrote:
/// the printer has to escape it.
pub fn render(driver: Driver, line: &[u8]) -> Option<String> {
    let is_message = line.trim_ascii_start().starts_with(b"{");
    match driver {
        Driver::Codex if is_message => codex::render_app_server(line),
        Driver::CodexExec if is_message => codex::render_exec(line),
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
