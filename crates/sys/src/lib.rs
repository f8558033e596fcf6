//! Operating-system code that several crates share: processes, peers, programs with limits, clocks,
//! locks, and files that an agent can write.

pub mod agent_file;
pub mod clock;
pub mod landlock;
pub mod lock;
pub mod origin;
pub mod peer;
pub mod private;
pub mod process;
pub mod program;
pub mod register;
pub mod signals;
pub mod stat;

/// Formats an error with all its causes.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
