//! The single connection to a command that listens on a Unix socket as a WebSocket server. It is
//! established once and kept for the life of the launch. Other clients reach the server only
//! through the holder.
//!
//! The framing is implemented here because even a very long message must reach the journal piece by
//! piece, whereas existing libraries assemble each message in memory first.

mod attach_proxy;
mod connect;
mod frames;
mod server;
mod split;
mod upgrade;

pub(super) use attach_proxy::AttachProxy;
pub(super) use connect::{ConnectStep, PendingConnection};
pub(super) use server::ServerSocket;
pub(super) use split::{RelayReceiver, RelaySender};
