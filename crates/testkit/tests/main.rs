//! Integration tests of the test kit: every step kind of the scripted agent run for real, and the
//! harness against stand-ins for `provost` that leave things behind; and the scripted model, asked by
//! real Codex.

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
mod stage;
