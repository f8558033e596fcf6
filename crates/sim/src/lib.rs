//! A seeded simulator of Provost's engine: the real board and rules over an in-memory ledger, in a simulated world with
//! crashes between any two steps, with lost, repeated and interleaved observations, and with agents that lie.
//!
//! The same seed and faults always produce the same scenario. [`simulate`] runs it and checks the laws
//! (invariants).

mod account_spacing;
mod coverage;
mod engine;
mod forge;
mod goal;
mod graph;
pub mod graph_laws;
mod interfaces;
mod launch_follower;
mod own_turns;
mod rare;
mod repo;
pub mod rng;
mod run;
pub mod run_laws;
mod screen;
mod script;
pub mod session_laws;
mod team;
pub mod team_laws;
mod turn_watch;
mod world;

pub use coverage::{Coverage, LifecycleCell};
pub use engine::CrashPoint;
pub use goal::{has_plan, has_run};
pub use run::{
    Faults, SimReport, SimRunOutcome, SimSessionOutcome, crashed_at, crowd, simulate, traced,
};
pub use team::has_team;
