//! The real binary with the real Codex, which asks a scripted model on loopback.
//!
//! Each test is named after the requirement that it holds. `docs/codex-tests.md` lists which of them also
//! run on the oldest Codex that is supported, and where a stand-in is used.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, in its helpers too")]

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
