//! Drivers over recorded lines.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails, in its helpers too")]

mod app_server;
mod drift;
mod fuzz;
mod jsonl;
mod live;
mod recorded;
mod replies;
mod shown;
mod talk;
mod transcripts;
