//! tmux, through its command line: panes of the user, and input to them.
//!
//! Panes are addressed by id alone (`%3`): a name may be the prefix of another. Nothing here
//! attaches to a session: a client changes the session's environment, gives its programs focus, and
//! runs the user's hooks.

mod pane;
mod server;

pub use pane::{PaneId, PaneListing, TmuxSessionId};
pub use server::{Error, TmuxServer, is_own_socket, socket_directory, sockets};
