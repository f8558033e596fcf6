//! tmux, through its command line: the panes that others made, and what is written to them.
//!
//! Panes are named by their ids alone (`%3`): a name may be the beginning of another's. Nothing here attaches to a
//! session: a client changes the session's environment, tells its programs that they have focus, and runs the user's
//! hooks.

mod pane;
mod run;

pub use pane::{Pane, PaneId, SessionId};
pub use run::{Error, Server, is_own_socket, socket_directory, sockets};
