//! What can be seen of an agent from outside: its rollout file, its terminal, its hooks, its process, its pane.
//!
//! Every source tells values of its own type, so that none can claim what it cannot know; what follows from them
//! is decided elsewhere. What is read here was written by agents and by those who talk to them: it is bounded,
//! and nothing in it is believed beyond what its source may say.

pub mod hooks;
pub mod notify;
pub mod process;
pub mod rollout;
pub mod screen;
pub mod terminal;
pub mod thread;
pub mod tmux;

pub use thread::ThreadId;
