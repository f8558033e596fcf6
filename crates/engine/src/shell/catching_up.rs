//! What a new daemon looks at before time works again.

use std::collections::BTreeSet;

use provost_core::{ids::LaunchId, session::Command, time::Moment};

use super::handle::Ask;

/// How much longer an answer waits at the most until its asker was looked at: a dead one's remains are ended first.
const ANSWER_LATER_MS: u64 = 8_000;

/// Launches that were not looked at yet since the daemon started. Until then no deadline counts: what
/// happened while no daemon ran comes before what time does about it.
#[derive(Debug, Default)]
pub(super) struct CatchingUp {
    pub(super) launches: BTreeSet<LaunchId>,
    /// The last moment that was recorded before.
    pub(super) from: u64,
    pub(super) until: u64,
}

impl CatchingUp {
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.launches.is_empty() || now.mono_ms >= self.until
    }

    /// Gives the moment from which answers are taken whoever was not looked at.
    pub(super) fn answers_from(&self) -> u64 {
        self.until.saturating_add(ANSWER_LATER_MS)
    }

    /// Says whether this is an answer, and its asker was not looked at yet.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing but an answer needs its asker")]
    pub(super) fn is_early(&self, ask: &Ask, now: Moment) -> bool {
        match ask {
            Ask::Do { command: Command::Answer { request, .. }, .. } => {
                let of_it = |launch: &LaunchId| launch.session == request.session;
                now.mono_ms < self.answers_from() && self.launches.iter().any(of_it)
            }
            _ => false,
        }
    }

    /// Gives the moment up to which deadlines count.
    pub(super) fn reached(&self, now: Moment) -> Moment {
        let mono_ms = if self.is_over(now) { now.mono_ms } else { self.from };
        Moment { mono_ms, ..now }
    }
}
