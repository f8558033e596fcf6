//! Recorded and real agents, observed through the crate's public interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails, in its helpers too")]

mod codex;
mod ingest;
mod rollout;
mod screen;
mod support;
mod tmux;
