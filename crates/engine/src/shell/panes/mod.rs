//! The panes of tmux in which others run their agents: what they show is read, and what is sent is typed there.
//!
//! Nothing attaches to somebody else's tmux session: the kernel tells when a program writes to its terminal (`hub`),
//! and then tmux is asked what the pane shows (`watcher`, as often as `pace` says). Typing is done by `typist`, which
//! looks first.

mod hub;
mod pace;
mod place;
mod typist;
mod watcher;

pub(crate) use hub::{Hub, Panes};
pub(crate) use typist::{Typing, Typist};
pub(crate) use watcher::PaneWatch;
