//! The shell: moves values between the board, the ledger and the outside world. It decides nothing.
//!
//! One thread owns the board and the ledger (`owner`). Tasks on the runtime carry out pending
//! effects (`executor`), follow launches (`follow`), and report the results to the owner.

mod again;
mod answer;
pub mod blocking;
mod catching_up;
mod census;
mod check;
mod clock;
pub mod codex;
pub mod drop_box;
mod effects;
mod environment;
mod executor;
pub mod failpoint;
mod follow;
mod git_calls;
mod handle;
mod held;
mod home;
mod hook;
mod landing;
mod listing;
mod owner;
mod panes;
mod preview;
mod programs;
mod pull;
mod queue;
mod real_path;
mod run_effect;
mod saying;
mod secrets;
mod shortage;
mod start_record;
mod starting;
mod task_effect;
mod tasks;
pub mod unknown;
mod verifier;
pub mod watch;
mod work;

pub(crate) use answer::{ambiguous, unread};
pub use census::Census;
pub use clock::Clock;
pub use environment::DaemonEnvironment;
pub use executor::{Executor, World};
pub use git_calls::RUN_GIT;
pub use handle::{Ask, Handle, Published, RunTold, TaskTold, Teller, Told, event_row};
pub use held::{Holders, chain};
pub use home::Home;
pub(crate) use listing::find;
pub use listing::{Extent, Listing};
pub use owner::{Opened, Owner, StartError};
pub use secrets::Secrets;
pub use shortage::Waits;
pub use start_record::output_directory;
pub use tasks::{By, NewCriterion, NewMember, NewSession, OWN_TASK, Pairing, TaskAsk};
pub use verifier::{VerifierCommand, VerifierEnd, run_verifier};
