//! Waiting for something, level-triggered: a wait judges the state first, and again after every event behind that state.
//!
//! A wait for an event alone never ends if the event happened before anybody listened, or can no longer happen.

/// How a wait is answered by the state as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitStatus<T> {
    /// It may still happen.
    Pending,
    Done(T),
    /// It can no longer happen, for this reason.
    Impossible(String),
}

/// A wait, without the IO: when the state has to be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    since: u64,
    due: bool,
}

impl Wait {
    /// Begins a wait. `newest` is an event that happened before the first look at the state.
    pub fn begin(newest: u64) -> Wait {
        Wait { since: newest, due: !bug!(WaitSkipsState) }
    }

    /// Returns the event behind which to follow the stream.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Whether the state has to be judged now.
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// The state was judged, and the wait is pending.
    pub fn looked(&mut self) {
        self.due = false;
    }

    /// Takes in an event that the state may have changed by.
    pub fn hear(&mut self, seq: u64) {
        if seq > self.since {
            self.since = seq;
            self.due = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_look_needs_no_event() {
        assert!(Wait::begin(7).is_due());
    }

    #[test]
    fn event_behind_the_look_asks_for_another() {
        let mut wait = Wait::begin(7);
        wait.looked();
        wait.hear(7);
        assert!(!wait.is_due(), "it happened before the look");
        wait.hear(9);
        assert!(wait.is_due());
        assert_eq!(wait.since(), 9);
    }
}
