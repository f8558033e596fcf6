//! Tests with recorded traffic, real files and processes, and with real Codex where the run names one.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails, in its helpers too")]

mod app_server;
mod auth;
mod codex;
mod drift;
mod features;
mod find;
mod fuzz;
mod home;
mod ingest;
mod live;
mod preflight;
mod real;
mod recorded;
mod refresh;
mod replies;
mod rollout;
mod screen;
mod shown;
mod skills;
mod support;
mod talk;
mod test_env;
mod transcripts;
