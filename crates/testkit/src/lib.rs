//! The test kit: a scripted agent and a harness around the real binary.
//!
//! [`scenario`] is what a scripted agent is told to do, [`agent`] does it, and [`harness`] gives a
//! test its own home, repositories and daemon and checks afterwards that nothing is left behind.

pub mod agent;
mod clock;
pub mod harness;
pub mod scenario;

pub use clock::Deadline;
pub use harness::{
    Daemon, Follower, Home, Output, Probe, Repo, eventually, eventually_within, leftovers,
    leftovers_under, provost_bin, scripted_agent_bin,
};
