//! The test kit: a scripted agent, a scripted model for real agents, and a harness around the real
//! binary.
//!
//! [`scenario`] is what a scripted agent is told to do, [`agent`] does it, [`model`] answers real
//! agents in the place of a model, and [`harness`] gives a test its own home, repositories and daemon
//! and checks afterwards that nothing is left behind.

pub mod agent;
mod clock;
pub mod harness;
pub mod model;
pub mod scenario;
pub mod story;

pub use clock::Deadline;
pub use harness::{
    COMMIT_PLACES, Crash, Daemon, Follower, Home, Output, Probe, Repo, eventually,
    eventually_within, leftovers, leftovers_under, provost_bin, scripted_agent_bin,
};
