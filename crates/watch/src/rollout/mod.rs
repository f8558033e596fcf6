//! The file in which Codex records a thread: how to find it, read it and interpret it.

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
