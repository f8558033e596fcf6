//! What recorded and real agents say, read through the crate as others use it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails, in its helpers too")]

mod codex;
mod ingest;
mod kit;
mod rollout;
mod screen;
mod tmux;
