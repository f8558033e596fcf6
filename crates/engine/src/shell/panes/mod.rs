//! The tmux panes of external agents. Provost reads their screens and types messages into them.
//!
//! Provost never attaches to a foreign tmux session. Instead, the kernel reports when a program
//! writes to its terminal (`hub`), and tmux is then asked for the pane's content (`watcher`, as
//! often as `pace` allows). `typist` types, after reading the pane.

mod hub;
mod pace;
mod pane_target;
mod typist;
mod watcher;

pub(crate) use hub::{PaneRegistry, WriteDispatcher};
pub(crate) use typist::{PaneInput, Typist};
pub(crate) use watcher::PaneWatch;
