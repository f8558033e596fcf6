//! Integration tests of the test kit: every step kind of the scripted agent in a real process, the
//! harness with fakes of `provost` that leave files and processes behind, and the scripted model
//! with real Codex.

mod agent_env;
mod children;
mod endings;
mod errors;
mod files;
mod harness;
mod input;
mod model;
mod output;
mod reports;
mod samples;
