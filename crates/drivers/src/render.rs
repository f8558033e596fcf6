//! Lines of a journal as people read them.

use provost_core::session::Driver;

use crate::codex;

/// Gives one line of an agent's output as text, or none if it is not worth showing. What is no message
/// of the agent's protocol is shown as it is. The text may hold whatever the agent wrote: who prints it
/// makes it harmless.
pub fn render(driver: Driver, line: &[u8]) -> Option<String> {
    let is_message = line.trim_ascii_start().starts_with(b"{");
    match driver {
        Driver::Codex if is_message => codex::shown_app_server(line),
        Driver::CodexExec if is_message => codex::shown_exec(line),
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
