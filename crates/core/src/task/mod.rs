//! Teams: members who work on one goal, their messages, and the criteria that must hold before the
//! goal is done.
//!
//! A team has no process of its own. [`Task::advance`] reads the current state of the members'
//! sessions and returns what follows: the team's own events, or an instruction to a session. A
//! manager requests changes, the rules here decide, and refusals are recorded like everything else.

mod advance;
mod call;
mod command;
mod command_line;
mod communication;
mod consent;
mod criterion;
mod decide;
mod delivery;
mod draft;
mod effect;
mod elsewhere;
mod envelope;
mod event;
mod evolve;
mod finish;
mod forgotten;
mod gate;
mod handing;
mod handoff;
mod judging;
mod looping;
mod manager;
mod member;
mod message;
mod messages;
mod news;
mod ordering;
pub mod pictures;
mod policy;
pub mod prompts;
mod proposing;
pub mod recipes;
mod refusal;
mod spec;
mod state;
pub mod templates;
mod undelivered;
mod wait;

pub use crate::text::visible;
pub use advance::{Around, Step};
pub use call::{BadCall, Call, JudgementKind, SentKind};
pub use command::{Checked, Command, Post, Rejected};
pub use command_line::{Caller, CommandLine, Commands, WAIT_SECONDS};
pub use communication::Communication;
pub use criterion::{
    Check, Criterion, CriterionState, Evidence, Insufficient, Judgement, MAX_CRITERIA,
    MIN_EVIDENCE, Needs, SaysNothing, Source,
};
pub use draft::{Draft, DraftFrom, LeftOut, MAX_DRAFTED, MAX_DRAFTED_LETTERS, items};
pub use effect::Effect;
pub use envelope::wrapped;
pub use event::*;
pub use finish::{Allowance, Blocker, not_finished};
pub use forgotten::{Forgotten, MAX_KEYS_KEPT};
pub use gate::{
    Attack, BadTemplate, Blocked, CleanUp, Compared, Look, Loop, LoopEnd, MAX_ITERATIONS, Passed,
    Proof, Required, Shown, Template, Unfit,
};
pub use handoff::{Beat, HEARTBEAT_MINUTES, Handoff, Heartbeat, Teardown, handoff, heartbeat};
pub use manager::{Action, Config, Epilogue, Mode, Move, MoveKind};
pub use member::{
    Actor, Labels, MAX_MEMBER_NAME, Means, Member, Order, Role, Told, is_member_name,
};
pub use message::{
    Address, Channel, Kind, Lease, MAX_NEWS, MAX_OFFERS, MAX_OVER_KEPT, MAX_TEXT, MAX_WAITING,
    Message, Overdue, Priority, Standing, StandingKind, Trust, Way,
};
pub use messages::Messages;
pub use policy::{About, Act, Failure, MAX_ACTS, MIN_ACTS, Mark, Policy, PolicyState, Rest};
pub use prompts::{Via, contract};
pub use proposing::{Choice, MAX_PROPOSAL, Proposal, Round};
pub use refusal::{MAX_REFUSALS, Refusal};
pub use spec::{ConsentTerms, MAX_GOAL, TaskBounds, TaskSpec};
pub use state::{
    Audit, Audited, CheckOwed, CheckResult, FailedCheck, MAX_RESULTS, Phase, Purpose, Task,
};
pub use wait::{Awaited, WaitResult};
