//! Watches agents independently of their protocol: their transcripts, their terminals, and the
//! processes of external agents.

mod external_agent;
mod hooks;
mod poll_fd;
mod screen_hints;
mod thread_switch;
mod transcript;

pub(crate) use external_agent::{ExternalAgentWatch, WatchContext};
pub use hooks::take_hook_event;
pub(crate) use poll_fd::poll_fd;
pub(crate) use screen_hints::{InferredState, ScreenHints};
pub use thread_switch::ThreadSwitches;
pub(crate) use transcript::{TranscriptContext, TranscriptSource, TranscriptWatcher};
