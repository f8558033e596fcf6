//! Sessions that were imported from another home. Their events were copied, but their processes and
//! pending effects were not.

use super::{
    command::SessionCommand,
    event::*,
    hook::{HookEnd, PendingHook},
    launch::Launch,
    state::Session,
};
use crate::time::Moment;

/// The reason recorded for anything that only the other home can know.
pub const IMPORTED_REASON: &str = "it was imported from another home, where it may continue";

/// Whether a command is allowed for an imported session, which can only be taken over or cleaned up.
pub(super) fn is_allowed_for_foreign(command: &SessionCommand) -> bool {
    matches!(
        command,
        SessionCommand::TakeOver
            | SessionCommand::Tick
            | SessionCommand::WorkRemoved
            | SessionCommand::ConversationRemoved
    )
}

impl Session {
    /// Whether the session was imported from another home and not taken over. None of its programs
    /// run here, because the imported events would determine which programs they are.
    pub fn is_foreign(&self) -> bool {
        self.origin.imported && !self.origin.taken_over
    }

    /// Returns the next event that closes an imported copy. The events say nothing about the work:
    /// an open attempt is cancelled in this copy, a launch that may be running is marked as
    /// unobserved, and a pending hook may have run.
    pub(super) fn next_closing_event(&self, now: Moment) -> Option<Event> {
        let sealed = self.attempt().is_sealed();
        let undecided = !sealed && !self.attempt().is_decided();
        undecided
            .then(|| AttemptCancelled { because: IMPORTED_REASON.to_owned() }.into())
            .or_else(|| self.launches.iter().find_map(close_launch))
            .or_else(|| self.hook_log.pending.first().map(|hook| skip_hook(hook, now)))
            .or_else(|| (!sealed).then(|| self.seal(now).into()))
            .or_else(|| self.advance(now))
    }
}

/// Closes a launch of the other home. This home does not supervise the launch and did not see it end.
fn close_launch(launch: &Launch) -> Option<Event> {
    let (id, cursor) = (launch.id, launch.cursor);
    let listening = launch.is_followed() && launch.stream.closed.is_none();
    match (launch.may_be_running(), listening, launch.is_gone()) {
        (true, _, _) => {
            Some(ProcessUnobserved { launch: id, why: IMPORTED_REASON.to_owned() }.into())
        }
        (false, true, _) => Some(StreamClosed { launch: id, cursor }.into()),
        (false, false, false) => {
            Some(ProcessTreeReaped { launch: id, leftovers: 0, verified: false }.into())
        }
        (false, false, true) => None,
    }
}

fn skip_hook(hook: &PendingHook, now: Moment) -> Event {
    HookFinished { key: hook.key, end: skipped_hook_end(hook.at, now) }.into()
}

/// Returns how a skipped hook ended. A hook that was already pending before the import may have run
/// in the other home, but a hook that was triggered by closing the session did not.
pub(crate) fn skipped_hook_end(due: Moment, now: Moment) -> HookEnd {
    if due == now {
        HookEnd::NotStarted(IMPORTED_REASON.to_owned())
    } else {
        HookEnd::Uncertain(IMPORTED_REASON.to_owned())
    }
}
