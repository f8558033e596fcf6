//! Closing a team that was imported from another home, where its members work.

use super::{
    event::*,
    state::{Phase, Task},
};
use crate::session::ELSEWHERE;

impl Task {
    /// Returns the events that leave nothing pending here. They judge nothing about the work: an
    /// open team is cancelled in this copy of the record.
    pub fn close_elsewhere(&self) -> Vec<Event> {
        let open = !self.phase.is_over();
        let cancelled = Phase::Cancelled { because: ELSEWHERE.to_owned() };
        open.then(|| PhaseChanged { phase: cancelled }.into()).into_iter().collect()
    }
}
