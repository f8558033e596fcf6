//! The command line as its users meet it, where no daemon is needed.

mod config;
mod kit;
mod refusals;
mod usage;
