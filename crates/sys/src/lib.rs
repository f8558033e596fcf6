//! Security-relevant operating-system code, for example to identify peers and to open files that an
//! agent can write.

pub mod agent_file;
pub mod landlock;
pub mod lock;
pub mod origin;
pub mod peer;
pub mod private;
pub mod process;
pub mod process_state;
pub mod program;
pub mod register;
pub mod signals;

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
