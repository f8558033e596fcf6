//! Tests with real files and processes, and with real Codex where the run names one.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails, in its helpers too")]

mod auth;
mod features;
mod find;
mod home;
mod preflight;
mod real;
mod refresh;
mod skills;
mod test_env;
