//! Tests with real git in temporary directories.

mod command;
mod hostile;
mod inspect;
mod lab;
mod loose;
mod pool;
mod project;
mod removal;
mod snapshot;
mod worktree;
