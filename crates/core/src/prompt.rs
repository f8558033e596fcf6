//! What Provost says to agents in its own words. It tells what was observed and nothing else.

use crate::session::{End, LaunchPhase};

/// Said when the account may go on.
pub const LIMIT_LIFTED: &str = "Your turn was ended by a limit of the account, not by an error in your work. The limit has passed: \
     go on where you were. What was said then:";

/// Said to an agent whose process died at work, in the same conversation.
pub fn continuation(phase: &LaunchPhase, instruction: &str) -> String {
    format!(
        "Your process ended in the middle of your work ({}). This is a new process with the same \
         conversation. A command that was running may have been cut off, and a request for approval that \
         was open is void. The files are as they were left: look at them before you go on. The \
         instruction was:\n\n{instruction}",
        how(phase)
    )
}

/// Said to an agent that goes on with what another one began.
pub fn hand_over(from: &str, instruction: &str, besides: Option<&str>) -> String {
    let besides = besides.map(|text| format!("{text}\n\n")).unwrap_or_default();
    format!(
        "Another agent ({from}) worked on this before you, in this very directory, and was taken off it. You do \
         not have its conversation. What it did is in the files: look at them, at what is committed and at \
         what is not, before you go on. {besides}The instruction was:\n\n{instruction}"
    )
}

/// Said to an agent whose turn a reaction ended, unless the project says something else.
pub const INTERRUPTED: &str = "Your turn was interrupted since nothing had been heard of you for a while. Go on with your task; \
     if something did not answer, leave it and try another way.";

/// Said to an agent that was not there any more when a call of a tool was answered.
pub fn call_answered(answer: &str) -> String {
    format!(
        "Your process ended before a call of one of Provost's tools was answered. The call was carried out, once: do \
         not repeat it. The answer was:\n\n{answer}"
    )
}

/// Said to an agent that a reaction nudges, unless the project says something else.
pub const NUDGE: &str =
    "Nothing has been heard of you for a while. If you are stuck, say with what; otherwise go on.";

/// Says how a process ended.
pub(crate) fn how(phase: &LaunchPhase) -> String {
    match phase {
        LaunchPhase::Ended { end: End::Exit(code), .. } => format!("it exited with {code}"),
        LaunchPhase::Ended { end: End::Signal(signal), .. } => {
            format!("it was killed by signal {signal}")
        }
        LaunchPhase::Unobserved { why, .. } => format!("nobody saw how: {why}"),
        LaunchPhase::Failed { reason } => format!("it could not be started: {reason}"),
        LaunchPhase::Owed | LaunchPhase::Running { .. } => "it is not known how".to_owned(),
    }
}
