//! tmux, through its command line: the panes that others made, and what is written to them.
//!
//! Panes are named by their ids alone (`%3`): a name may be the beginning of another's.

mod control;
mod message;
mod pane;
mod run;

pub use control::Client;
pub use message::{Message, Messages};
pub use pane::{Measures, Pane, PaneId, SessionId};
pub use run::{Error, Server, is_own_socket, socket_directory, sockets};
