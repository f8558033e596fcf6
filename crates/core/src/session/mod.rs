//! A session: its events, state, commands and pending effects.
//!
//! [`Session::decide`] turns a command into events, [`Session::evolve`] folds an event,
//! [`Session::advance`] returns the next automatic event, [`Session::effects`] the pending effects, and
//! [`Session::deadline`] the moment at which time alone changes something.

mod adoption;
mod advance;
mod attempt;
mod calls;
mod command;
mod control;
mod conversation;
mod decide;
mod effect;
mod elsewhere;
mod event;
mod evolve;
mod guess;
mod hook;
mod judge;
mod launch;
mod message_queue;
mod own_turns;
mod pane;
mod reach;
mod react;
mod relaunch;
mod shortage;
mod spec;
mod state;
mod typing;
mod waiting;
mod watch;

pub use attempt::{
    Attempt, Claim, ClaimSource, Clock, LastTurn, Resolution, Sealed, Standing, Verifying,
};
pub use calls::{Calls, MAX_ANSWER, MAX_CALLS_KEPT, Returned, ToolCall};
pub use command::{
    Command, FactKind, Rejected, Reporter, Resolve, SendMode, Signal, Testimony, UsedUp,
    standing_of,
};
pub use control::Compacting;
pub use effect::{Due, Effect, EffectKey};
pub use elsewhere::ELSEWHERE;
pub(crate) use elsewhere::forgone;
pub use event::{
    AgentReplaced, AgentWarned, AttemptCancelled, AttemptOpened, AttemptResolved, AttemptSealed,
    AttemptStopped, AttemptSuperseded, BudgetRaised, CheckFinished, ClaimMade, ContextCompacted,
    ContextKept, ContextTold, EffectRetried, EffectShort, Event, FactTold, GoalChanged,
    HookFinished, LaunchAdopted, LaunchFailed, LaunchFollowed, LaunchOwed, LaunchStarted,
    LimitLifted, LimitRaised, LimitSlot, MessageDelivered, MessageLost, MessageQueued,
    MessageRefused, MessageTyped, MessageUnproved, OutputAtLimit, OutputFlows, OutputLost,
    OutputNoRoom, OutputOversized, PaneSeen, PeopleAttached, ProcessEnded, ProcessSeen,
    ProcessSuspended, ProcessUnknown, ProcessUnobserved, ProgressTold, ReactionDone, RecordForged,
    ReportsRefused, RequestContradicted, RequestOpened, RequestRuled, RequestSettled, ResultAsked,
    ResultTold, ReworkSent, SessionDismissed, SessionOpened, SetupFinished, SignalHinted,
    SignalRecorded, SnapshotFailed, SnapshotTaken, StopAsked, StopEscalated, StoreRemoved,
    StreamClosed, StreamHeard, StreamReady, StreamRefused, StreamRetrying, StreamSettled,
    StreamSilent, StreamUnreachable, TaskAssigned, ThreadLeft, ThreadMoved, ToolAnswered,
    ToolCalled, TreeGone, TurnEnded, TurnMissing, TurnStarted, UsageTold, WorkFailed, WorkPrepared,
    WorkRemoved,
};
pub use hook::{HookEnd, HookEnded, HookEvent, HookKey, HookOwed};
pub use launch::{
    Cursor, End, EndedBy, Identity, Launch, LaunchPhase, LaunchWhy, Reports, Stop, StopStep,
    StopWhy, TurnEnd,
};
pub use pane::PaneSight;
pub use reach::{Line, Receive};
pub use react::{Act, Heir, Occasion, On, Reacted, Reaction};
pub use spec::{
    Adopted, Afterwards, Agent, Approvals, Assignment, Carried, CheckTerms, Driver, Exit0,
    HookSpec, Input, Membership, MultiAgent, OfRun, Pane, Sandbox, Settings, Spec, Work,
};
pub use state::{
    Budget, Context, Dismissed, Fact, Limited, Message, MessageFate, MessageKind, Progress,
    Session, SetupState, Usage, WorkState,
};
pub use typing::{literally, pasted, sayable};
pub use watch::{
    Contradiction, Glimpse, HeldBack, Hinted, Record, Recorded, Said, Seen, Typed, Watch, Way,
    again,
};
