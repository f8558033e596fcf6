//! Whether a command entered its sandbox. Bubblewrap writes a status file, from which a failure of
//! the sandbox can be distinguished from a failure of the command.

use std::path::Path;

use provost_sys::agent_file;
use serde::{Deserialize, Serialize};

/// The maximum size of a status file.
const MAX_STATUS: u64 = 64 << 10;

/// The result of starting a command in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SandboxStart {
    /// The command itself was started, and its exit code is the exit code of the helper.
    Entered,
    /// The sandbox could not be created. The reason is in the helper's output.
    Failed,
}

/// One line of a status file. Bubblewrap writes other keys, too.
#[derive(Debug, Default, Deserialize, Serialize)]
struct StatusLine {
    #[serde(default, rename = "exit-code", skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entered: Option<bool>,
}

/// Returns the line that the helper writes itself at the level *files*.
pub(crate) fn entered_line() -> String {
    "{\"entered\":true}\n".to_owned()
}

/// Reads the status file of a command that has exited. Bubblewrap writes the exit code only if the
/// sandbox was complete before the command was executed.
pub fn read(path: &Path) -> Result<SandboxStart, agent_file::Error> {
    let bytes = agent_file::read(path, MAX_STATUS)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().filter_map(|line| serde_json::from_str::<StatusLine>(line).ok());
    let entered = lines.into_iter().any(|line| line.exit_code.is_some() || line.entered.is_some());
    Ok(if entered { SandboxStart::Entered } else { SandboxStart::Failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_sandbox_counts_as_entered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            super::read(&path).unwrap()
        };
        assert_eq!(read(""), SandboxStart::Failed);
        assert_eq!(read("{ \"child-pid\": 7 }\n"), SandboxStart::Failed);
        assert_eq!(read("{ \"child-pid\": 7 }\n{ \"exit-code\": 1 }\n"), SandboxStart::Entered);
        assert_eq!(read(&entered_line()), SandboxStart::Entered);
    }
}
