//! Codex: its app-server, and `codex exec`.

mod app_server;
mod capabilities;
mod ends;
mod exec;
mod forms;
mod handshake;
mod items;
mod native;
mod needs;
mod notes;
mod outbox;
mod pending;
mod requests;
mod resets;
pub(crate) mod result;
mod say;
mod settings;
mod shown;
mod tools;
mod usage;
pub(crate) mod wire;

pub(crate) use app_server::AppServer;
pub use capabilities::{CAPABILITIES, Capability, FLOOR, Found, LISTENS, Version, Without};
pub(crate) use exec::Exec;
pub use needs::{NEEDS, Need, Place};
pub use notes::{Sorted, sort};
pub(crate) use say::say;
pub(crate) use shown::{shown_app_server, shown_exec};
