//! Tests with real git in temporary directories.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails, in its helpers too")]

mod command;
mod hostile;
mod inspect;
mod interrupted;
mod landing;
mod pool;
mod program_keys;
mod project;
mod removal;
mod snapshot;
mod submodules;
mod test_env;
mod user_checkout;
mod worktree;
