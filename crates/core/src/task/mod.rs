//! A task that stands alone: members who work on it, what they say to each other, and what must hold before it is done.
//!
//! A task has no process. It looks at its members' sessions as they stand ([`Task::advance`]) and says what follows:
//! events of its own, or something to be said to a session. The manager asks, the rules here decide, and a refusal is
//! kept like everything else.

mod advance;
mod command;
mod criterion;
mod decide;
mod delivery;
mod effect;
mod envelope;
mod event;
mod evolve;
mod finish;
mod gate;
mod judging;
mod looping;
mod manager;
mod member;
mod message;
mod spec;
mod state;

pub use advance::{Around, Step};
pub use command::{Checked, Command, Post, Rejected};
pub use criterion::{
    Criterion, CriterionState, Evidence, Insufficient, Judgement, MAX_CRITERIA, MIN_EVIDENCE,
    Needs, Source,
};
pub use effect::Effect;
pub use envelope::{visible, wrapped};
pub use event::*;
pub use finish::Blocker;
pub use gate::{
    Attack, BadTemplate, Blocked, CleanUp, Compared, Look, Loop, LoopEnd, MAX_ITERATIONS, Passed,
    Proof, Required, Shown, Template, Unfit,
};
pub use manager::{Action, Config, Epilogue, Mode, Move, MoveKind};
pub use member::{Actor, Labels, Member, Role, Told};
pub use message::{
    Address, Channel, Kind, Lease, MAX_OFFERS, MAX_OVER_KEPT, MAX_TEXT, MAX_WAITING, Message,
    Overdue, Priority, Standing, Trust, Way,
};
pub use spec::{MAX_GOAL, TaskBounds, TaskSpec};
pub use state::{Audit, CheckOwed, Phase, Purpose, Task};
