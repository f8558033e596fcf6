//! The real binary with the real Codex, which uses a scripted model on loopback.
//!
//! Each test is named after the requirement it covers. `docs/codex-tests.md` lists which tests also run on the oldest
//! supported Codex, and where a stand-in replaces Codex.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, also in helpers")]

mod attach;
mod boundary;
mod by_mcp;
mod carried;
mod control;
mod dispatch;
mod dispatch_story;
mod finding;
mod forms;
mod goals;
mod going_on;
mod journal;
mod kit;
mod limits;
mod moving;
mod once;
mod panes;
mod questions;
mod requests;
mod runs;
mod screen;
mod secrets;
mod terminal;
mod tools;
mod typing;
mod work;
