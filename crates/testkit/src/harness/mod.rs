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

pub use crash::{COMMIT_FAILPOINTS, Crash, is_deep};
pub use daemon::HomeDaemon;
pub use follower::OutputFollower;
pub use home::TestHome;
pub use leftovers::{leftovers, leftovers_under};
pub use output::{ProgramOutput, string_value};
pub use programs::{paused_program_bin, provost_bin, scripted_agent_bin};
pub use repo::TestRepo;
pub use wait::{Probe, eventually, eventually_within, read_nonempty};
