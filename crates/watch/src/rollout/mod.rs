//! The file in which Codex records a thread while it goes on: finding it, reading it, and what it says.

mod fold;
mod head;
mod places;
mod record;
mod tail;
mod told;
mod watch;

pub use fold::{Fold, Turns, meta};
pub use places::{Found, Places, Rollout};
pub use tail::{FileId, Line, MAX_LINE, Next, Standing, Tail};
pub use told::{
    Limits, Plan, PlanStep, Reset, SessionMeta, StepStatus, Tokens, Told, TurnEnd, Usage, Window,
};
pub use watch::Watch;
