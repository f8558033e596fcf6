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

fn how(phase: &LaunchPhase) -> String {
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
