//! tmux, through its command line: lists the user's panes and sends input to them.
//!
//! Panes are addressed only by id (`%3`), because a name may be the prefix of another one. No
//! function attaches to a session, because a client changes the session's environment, gives its
//! programs focus, and runs the user's hooks.

mod pane;
mod server;

pub use pane::{PaneId, PaneListing, TmuxSessionId};
pub use server::{Error, TmuxServer, is_own_socket, socket_directory, sockets};
