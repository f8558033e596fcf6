//! The scripted model with real Codex as its client.

mod app_server;
mod ends;
mod exec;
mod items;
mod program;
mod requests;
mod threads;
