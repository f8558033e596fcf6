//! Closes the local copy of a team that was imported from another home, where its members work.

use super::{
    event::*,
    state::{Team, TeamPhase},
};
use crate::session::IMPORTED_REASON;

impl Team {
    /// Returns the events after which the team has nothing pending in this home. They do not judge
    /// the work: a team that is still open is only cancelled in this copy of the record.
    pub fn close_imported(&self) -> Vec<Event> {
        let open = !self.phase.is_over();
        let cancelled = TeamPhase::Cancelled { because: IMPORTED_REASON.to_owned() };
        open.then(|| PhaseChanged { phase: cancelled }.into()).into_iter().collect()
    }
}
