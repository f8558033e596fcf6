//! The single connection to a command that listens on a Unix socket as a WebSocket server. It is
//! established once and kept for the life of the launch. Other clients reach the server only
//! through the holder.
//!
//! The framing is implemented here because a message of any length must reach the journal piece by
//! piece. The existing libraries assemble each message in memory first.

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
