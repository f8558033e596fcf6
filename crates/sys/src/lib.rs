//! Security-relevant operating-system code, such as identifying peers and opening files that an
//! agent can write to.

pub mod agent_file;
pub mod landlock;
pub mod lock;
pub mod origin;
pub mod peer;
pub mod private;
pub mod process;
pub mod register;
