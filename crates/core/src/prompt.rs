//! Texts that Provost sends to agents. They only state what Provost observed.

use crate::session::{LaunchPhase, ProcessExit};

/// The text that an agent receives when the account's usage limit has passed.
pub const LIMIT_LIFTED: &str = "Your turn was ended by a usage limit of the account, not by an error in your work. The limit has passed: \
     continue where you stopped. The message at the limit was:";

/// Returns the text for an agent whose process crashed while it was working, in the same
/// conversation.
pub fn continuation(phase: &LaunchPhase, instruction: &str) -> String {
    format!(
        "Your process ended in the middle of your work ({}). This is a new process with the same \
         conversation. A command that was running may have been cut off, and an open request for approval \
         is void. The files are as they were left: inspect them before you continue. The \
         instruction was:\n\n{instruction}",
        describe_exit(phase)
    )
}

/// Returns the text for an agent that takes over another agent's work.
pub fn hand_over(from: &str, instruction: &str, besides: Option<&str>) -> String {
    let besides = besides.map(|text| format!("{text}\n\n")).unwrap_or_default();
    format!(
        "Another agent ({from}) worked on this before you, in the same directory, and was replaced. You do \
         not have its conversation. Its work is in the files: inspect the committed and the uncommitted \
         changes before you continue. {besides}The instruction was:\n\n{instruction}"
    )
}

/// The text for an agent whose turn a reaction interrupted, unless the project configures another
/// text.
pub const INTERRUPTED: &str = "Your turn was interrupted because you had produced no output for a while. Continue with your task; \
     if something did not respond, try another way.";

/// Returns the text for an agent whose process exited before a tool call was answered.
pub fn call_answered(answer: &str) -> String {
    format!(
        "Your process ended before one of your calls of a Provost tool was answered. The call was carried out once: do \
         not repeat it. The answer was:\n\n{answer}"
    )
}

/// The text for an agent that a reaction nudges, unless the project configures another text.
pub const NUDGE: &str =
    "You have produced no output for a while. If you are stuck, say why; otherwise continue.";

/// Describes how a process exited.
pub(crate) fn describe_exit(phase: &LaunchPhase) -> String {
    match phase {
        LaunchPhase::Ended { end: ProcessExit::Exit(code), .. } => format!("it exited with {code}"),
        LaunchPhase::Ended { end: ProcessExit::Signal(signal), .. } => {
            format!("it was killed by signal {signal}")
        }
        LaunchPhase::Unobserved { why, .. } => format!("its exit was not observed: {why}"),
        LaunchPhase::Failed { reason } => format!("it could not be started: {reason}"),
        LaunchPhase::Pending | LaunchPhase::Running { .. } => {
            "its exit status is unknown".to_owned()
        }
    }
}
