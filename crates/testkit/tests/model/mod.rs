//! The scripted model, asked by real Codex.

mod app_server;
mod ends;
mod exec;
mod items;
mod program;
mod requests;
mod threads;
