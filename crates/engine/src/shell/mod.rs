//! The shell: moves values between the board, the ledger and the outside world. It makes no
//! decisions.
//!
//! One thread owns the board and the ledger (`owner`). Tasks on the runtime carry out pending
//! effects (`executor`) and follow launches (`follow`), and report the results to the owner.

mod agent_launch;
pub mod blocking;
mod catch_up;
mod census;
mod check;
mod clock;
pub mod drop_box;
mod effect_gate;
mod effects;
mod encode_message;
mod engine_world;
mod environment;
mod executor;
pub mod failpoint;
mod follow;
mod git_calls;
mod handle;
mod home;
mod hook;
mod idempotency;
mod landing;
mod launch_start;
mod listing;
mod lookup;
mod merge_queue;
mod owner;
mod panes;
mod preview;
mod programs;
mod pull_request;
mod queries;
mod real_path;
mod refusals;
mod replies;
mod run_effect;
mod secrets;
mod shortage;
mod start_record;
mod supervised_command;
mod team_effect;
mod team_refusals;
mod team_requests;
pub mod unknown_holders;
mod verifier;
pub mod watch;
mod worktree;

pub use census::Census;
pub use clock::Clock;
pub use effect_gate::EffectGate;
pub use engine_world::EngineWorld;
pub use environment::DaemonEnvironment;
pub use executor::Executor;
pub use git_calls::RUN_GIT;
pub use handle::{
    EngineHandle, EngineReply, EngineRequest, Observation, ObservationSender, PublishedEvents,
    event_row, mismatched_reply,
};
pub use home::Home;
pub use hook::HOOK_VERSION;
pub(crate) use listing::find_by_name;
pub use listing::{Listing, ListingExtent};
pub use owner::{Owner, RunningEngine, StartError};
pub use provost_sys::error_chain;
pub use queries::{
    BoundSession, EngineStatus, LedgerPreview, ListedRows, LiveLaunch, SessionListing,
};
pub(crate) use refusals::{ambiguous, read_error};
pub use secrets::Secrets;
pub use shortage::ShortageWaits;
pub use start_record::output_directory;
pub use supervised_command::Holders;
pub use team_requests::{
    NewCriterion, NewMember, NewSession, OWN_TEAM, TeamCaller, TeamRequest, TeamStart,
};
pub use verifier::{VerifierCommand, VerifierEnd, run_verifier};
