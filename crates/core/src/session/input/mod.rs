//! Input for the agent: the delivery queue, typing into terminals and panes, and the signals that
//! confirm the delivery.
//!
//! A message is queued, delivered and settled ([`queue`]). If the agent has a protocol, the holder's
//! journal proves the delivery. Otherwise, the message is typed into a terminal ([`typing`], [`pane`]),
//! and counts as delivered only once a record of the agent contains it ([`typed`], [`records`]). The
//! screen ([`screen`]) decides only whether Provost can type now.
//!
//! The state is [`InputQueue`] and, for each launch, [`LaunchWatch`]. The events are
//! [`InputEvent`](super::InputEvent), which only [`evolve`] applies.

mod channel;
mod control;
mod evolve;
mod own_turns;
mod pane;
mod pending_answers;
mod queue;
mod records;
mod screen;
mod signals;
mod thread_switch;
mod typed;
mod typing;

pub use channel::{AgentChannel, ReceiveMode};
pub use control::Compaction;
pub use pane::PaneState;
pub use queue::InputQueue;
pub use signals::{
    Contradiction, LastSignal, LaunchWatch, RecordSignal, RecordSource, ScreenHint, ScreenSource,
    SignalKind,
};
pub use typed::{InputBlocked, TypedInput, TypingState, enter_retry_key};
pub use typing::{check_typeable, literal_text, pasteable_text};
