//! tmux, through its command line: panes of the user, and input to them.
//!
//! Panes are addressed by id alone (`%3`): a name may be the prefix of another. Nothing here
//! attaches to a session: a client changes the session's environment, gives its programs focus, and
//! runs the user's hooks.

mod pane;
mod run;

pub use pane::{Pane, PaneId, SessionId};
pub use run::{Error, Server, is_own_socket, socket_directory, sockets};
