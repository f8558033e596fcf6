//! The one connection to a command that listens on a Unix socket as a WebSocket server: found, upgraded,
//! kept for the life of the launch. Nobody else reaches the server but through us.
//!
//! The framing is our own, since a message of any length has to reach the journal piece by piece: the
//! libraries for it put a message together in memory first.

mod arriving;
mod frames;
mod halves;
mod server;
mod sha1;
mod upgrade;
mod visits;

pub(super) use arriving::{Arriving, Step};
pub(super) use halves::{Receiver, Sender};
pub(super) use server::Server;
pub(super) use visits::Visits;
