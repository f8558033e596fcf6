//! The environment of tests around the real binary: their own home, repositories, bounded waits, control of the
//! daemon, and a check for leftovers.

mod crash;
mod daemon;
mod follower;
mod home;
mod leftovers;
mod output;
mod processes;
mod programs;
mod repo;
mod screen;
mod wait;

pub use crash::{COMMIT_PLACES, Crash, deep};
pub use daemon::Daemon;
pub use follower::Follower;
pub use home::Home;
pub use leftovers::{leftovers, leftovers_under};
pub use output::Output;
pub use programs::{provost_bin, scripted_agent_bin};
pub use repo::Repo;
pub use wait::{Probe, eventually, eventually_within, filled};
