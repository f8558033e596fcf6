//! The protocols of Codex: its app-server, and `codex exec`.

mod app_server;
mod capabilities;
mod encode;
mod exec;
mod forms;
mod handshake;
mod items;
mod notification;
mod open_requests;
mod outbox;
mod rate_limit_reset;
mod render;
mod request_token;
mod requests;
pub(crate) mod result;
mod schema_expectations;
mod settings;
mod tools;
mod turn_end;
mod usage;
pub(crate) mod wire;

pub(crate) use app_server::AppServerProtocol;
pub use capabilities::{
    CAPABILITIES, Capability, CapabilityProbe, CodexVersion, FLOOR, LISTENS, MissingCapability,
};
pub(crate) use encode::encode;
pub(crate) use exec::ExecProtocol;
pub use notification::{LineClass, classify_line};
pub(crate) use render::{render_app_server, render_exec};
pub use schema_expectations::{SCHEMA_EXPECTATIONS, SchemaExpectation, SchemaLocation};
