//! The panes of tmux in which others run their agents: what they show is read, and what is sent is typed there.
//!
//! One client in control mode is told what all panes of a tmux session write (`hub`, `control`). Each adopted launch
//! makes guesses of what comes of its own pane (`watcher`). Typing is done by `typist`, which looks first.

mod control;
mod hub;
mod place;
mod typist;
mod watcher;

pub(crate) use hub::{Hub, Panes};
pub(crate) use typist::{Typing, Typist};
pub(crate) use watcher::PaneWatch;
