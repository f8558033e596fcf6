//! Observes an agent from outside: its rollout file, terminal, hooks, process and tmux pane.
//!
//! Every source yields values of its own type, so that none can claim more than it knows; other
//! crates draw the conclusions. The input was written by agents and their users: it is bounded, and
//! trusted only for what its source can know.

pub mod hooks;
pub mod notify;
pub mod process;
pub mod rollout;
pub mod screen;
pub mod terminal;
pub mod thread;
pub mod tmux;

pub use thread::ThreadId;
