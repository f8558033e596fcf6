//! Tests of runs: real sessions, driven by hand, under a run that is advanced like the board advances it.

mod budget;
mod cancel;
mod decisions;
mod fixtures;
pub(crate) mod kit;
mod landing;
mod prompts;
mod pull_request;
mod resume;
mod reviews;
mod scenarios;
mod stages;
mod verifications;
