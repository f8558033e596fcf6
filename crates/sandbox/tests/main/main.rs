//! The plan's laws, and plans that are enforced on real processes at each level.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod enforcement;
mod git;
mod kit;
mod laws;
mod processes;
