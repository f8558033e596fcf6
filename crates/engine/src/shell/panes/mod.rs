//! The tmux panes of external agents: their screens are read, and messages are typed there.
//!
//! Nothing attaches to a foreign tmux session. The kernel reports when a program writes to its
//! terminal (`hub`), and then tmux is asked for the pane's content (`watcher`, as often as `pace`
//! allows). `typist` types, and reads the pane first.

mod hub;
mod pace;
mod pane_target;
mod typist;
mod watcher;

pub(crate) use hub::{PaneRegistry, WriteDispatcher};
pub(crate) use typist::{PaneInput, Typist};
pub(crate) use watcher::PaneWatch;
