//! Operating-system code that decides about trust: who a peer is, and how a file that an agent can write is opened.

pub mod agent_file;
pub mod landlock;
pub mod lock;
pub mod origin;
pub mod peer;
pub mod private;
pub mod process;
pub mod register;
