//! Tests of runs: real sessions, driven by hand, below a run that is followed as the board follows it.

mod budget;
mod cancel;
mod decisions;
pub(crate) mod kit;
mod landing;
mod prompts;
mod pull;
mod resume;
mod reviews;
mod stages;
mod story;
