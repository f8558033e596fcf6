//! The launches that a new daemon must observe before deadlines apply again.

use std::collections::BTreeSet;

use provost_core::{ids::LaunchId, session::SessionCommand, time::Moment};

use super::handle::EngineRequest;

/// How much longer an answer may have to wait until its session has been observed. If the agent is dead, observing the
/// session takes longer, because the remaining processes are ended first.
const ANSWER_LATER_MS: u64 = 8_000;

/// Launches that have not been observed since the daemon started. Until all of these launches have been observed, no
/// deadline applies, because events from the time without a daemon precede those deadlines.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    pub(super) launches: BTreeSet<LaunchId>,
    /// The last time that was recorded before the restart.
    pub(super) from: u64,
    pub(super) until: u64,
}

impl CatchUp {
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.launches.is_empty() || now.mono_ms >= self.until
    }

    /// Returns the time from which answers are accepted even for launches that have not been observed.
    pub(super) fn answers_from(&self) -> u64 {
        self.until.saturating_add(ANSWER_LATER_MS)
    }

    /// Whether the request is an answer to a launch that has not been observed yet.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "only an answer depends on the launch that asked"
    )]
    pub(super) fn is_early(&self, ask: &EngineRequest, now: Moment) -> bool {
        match ask {
            EngineRequest::SessionCommand {
                command: SessionCommand::Answer { request, .. },
                ..
            } => {
                let of_it = |launch: &LaunchId| launch.session == request.session;
                now.mono_ms < self.answers_from() && self.launches.iter().any(of_it)
            }
            _ => false,
        }
    }

    /// Returns the time up to which deadlines apply.
    pub(super) fn reached(&self, now: Moment) -> Moment {
        let mono_ms = if self.is_over(now) { now.mono_ms } else { self.from };
        Moment { mono_ms, ..now }
    }
}
