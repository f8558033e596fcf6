//! A task that belongs to another home: its record was copied, and its members work there.

use super::{
    event::*,
    state::{Phase, Task},
};
use crate::session::ELSEWHERE;

impl Task {
    /// Gives the events after which nothing is owed or expected here any more. Nothing is said about the work: a task
    /// that was open is cancelled in this record.
    pub fn close_elsewhere(&self) -> Vec<Event> {
        let open = !self.phase.is_over();
        let cancelled = Phase::Cancelled { because: ELSEWHERE.to_owned() };
        open.then(|| PhaseChanged { phase: cancelled }.into()).into_iter().collect()
    }
}
