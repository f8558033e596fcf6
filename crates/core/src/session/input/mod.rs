//! Input for the agent: the delivery queue, typing into terminals and panes, and the signals that show
//! what became of it.
//!
//! A message is queued, delivered and settled ([`queue`]). With a protocol, the holder's journal
//! proves its delivery. Into a terminal it is typed ([`typing`], [`pane`]), and it counts as
//! delivered only when one of the agent's records shows it ([`typed`], [`records`]). What the
//! screen shows ([`screen`]) decides only whether something may be typed now.
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
