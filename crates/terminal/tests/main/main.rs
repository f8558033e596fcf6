//! Real tmux, through the crate's public interface.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails, in its helpers too")]

mod support;
mod tmux;
