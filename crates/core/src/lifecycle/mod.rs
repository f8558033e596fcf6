//! The lifecycle contract: facts, an overlay and a table determine the state.

mod facts;
mod overlay;
mod state;
mod table;

pub use facts::{Activity, ClaimKind, ProcessFact, VerificationFact};
pub use overlay::{StateOverlay, StopCause, apply_overlay};
pub use state::{Cause, Flag, Judgement, Rule, State};
pub use table::judge_facts_by_table;
