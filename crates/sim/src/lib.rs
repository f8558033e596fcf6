//! A seeded simulator of Provost's engine: the real board and rules over an in-memory ledger, in a simulated world
//! with crashes between any two steps, lost, repeated and interleaved observations, and lying agents.
//!
//! The same seed and faults always produce the same scenario. [`simulate`] runs it and checks the laws
//! (invariants).

mod coverage;
mod engine;
mod follow;
mod forge;
mod goal;
mod graph;
pub mod graph_laws;
pub mod laws;
mod own_turns;
mod repo;
pub mod rng;
mod run;
pub mod run_laws;
mod screen;
mod script;
mod standing;
pub mod task_laws;
mod turn_watch;
mod turns;
mod world;

pub use coverage::{Cell, Coverage};
pub use engine::CrashPoint;
pub use goal::{has_plan, has_run};
pub use run::{Faults, Outcome, Report, RunOutcome, crashed_at, crowd, simulate, traced};
pub use standing::has_task;
