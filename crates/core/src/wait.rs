//! Level-triggered waits. A wait evaluates the state first, and again after every later event.
//!
//! A wait that looked only at events would never end if its event happened before the wait began,
//! or can no longer happen.

use crate::rules::rules;

/// The result of evaluating a wait against the current state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitStatus<T> {
    /// The awaited condition may still become true.
    Pending,
    Done(T),
    /// The awaited condition can no longer become true, for the given reason.
    Impossible(String),
}

/// A wait without its IO, which tracks when the state must be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    since: u64,
    due: bool,
}

impl Wait {
    /// Begins a wait. `newest` is an event that happened before the state is read for the first time.
    pub fn begin(newest: u64) -> Wait {
        Wait { since: newest, due: rules().evaluates_state_first() }
    }

    /// Returns the event from which to follow the stream.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Whether the state must be evaluated now.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Records that the state was evaluated and the wait is still pending.
    pub fn mark_evaluated(&mut self) {
        self.due = false;
    }

    /// Records an event that may have changed the state.
    pub fn record_event(&mut self, seq: u64) {
        if seq > self.since {
            self.since = seq;
            self.due = true;
        }
    }
}
