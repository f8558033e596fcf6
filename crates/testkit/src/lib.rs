//! The test kit: a scripted agent, a scripted model for real agents, and a harness around the real binary.
//!
//! [`scenario`] defines the instructions of a scripted agent, [`agent`] plays them, [`model`] replaces the model of
//! real agents, and [`harness`] provides a test's own home, repositories and daemon and checks for leftovers
//! afterwards. [`env::TestEnv`] adds the helpers that tests with the scripted agent use,
//! and [`forge::FakeForge`] replaces GitHub.

pub mod agent;
mod clock;
pub mod env;
pub mod forge;
pub mod harness;
pub mod model;
pub mod scenario;
pub mod story;

pub use clock::Deadline;
pub use harness::{
    COMMIT_FAILPOINTS, Crash, HomeDaemon, OutputFollower, Probe, ProgramOutput, TestHome, TestRepo,
    eventually, eventually_within, leftovers, leftovers_under, provost_bin, scripted_agent_bin,
};
