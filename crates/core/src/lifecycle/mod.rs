//! The lifecycle contract: facts, an overlay and a table determine the state.

mod facts;
mod overlay;
mod state;
mod table;

pub use facts::{Activity, ClaimKind, Process, Verification};
pub use overlay::{Overlay, StopCause, judge};
pub use state::{Cause, Flag, Judgement, Rule, State};
pub use table::table;
